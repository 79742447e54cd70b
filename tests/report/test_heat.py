"""Heat maps: what is drawn is what was given."""

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")
from leastpath.report import heatmap, heatmaps
from leastpath.report.canvas import new_figure
from leastpath.report.heat import heat_row

A, B, IMAGES = torch.randn(3, 2, 3, 8, 10, generator=torch.Generator().manual_seed(0))
IMAGES = IMAGES.sigmoid()


def drawn(figure, axis=0, layer=-1):
    return figure.axes[axis].get_images()[layer]


@pytest.mark.parametrize("signed", [True, False])
def test_channels_are_summed(signed):
    shown = drawn(heatmap(A[0], signed=signed))
    expected = (A[0] if signed else A[0].abs()).sum(0)
    np.testing.assert_allclose(shown.get_array(), expected.numpy(), atol=1e-6)
    assert shown.norm.vmin == (-shown.norm.vmax if signed else 0)


def test_percentile_and_scale_set_the_ends():
    plane = A[0].double().sum(0).abs().numpy()
    assert drawn(heatmap(A[0], percentile=90)).norm.vmax == pytest.approx(np.percentile(plane, 90))
    assert drawn(heatmap(A[0], scale=7.0)).norm.vmax == 7


def test_the_image_is_below_and_weak_values_let_it_through():
    figure = heatmap(A[0], IMAGES[0], scale=1.0)
    ground, colours = figure.axes[0].get_images()
    assert ground.get_array().shape == (8, 10)
    np.testing.assert_allclose(colours.get_alpha() ** 2, A[0].sum(0).abs().clamp(max=1).numpy(), atol=1e-6)


@pytest.mark.parametrize("scale, ends", [("shared", 1), ("row", 2), ("each", 4), (3.0, 1)])
def test_scales_are_shared_as_asked(scale, ends):
    figure = heatmaps({"a": A, "b": 5 * B}, IMAGES, scale=scale, rows=["x", "y"])
    maps = [drawn(figure, i).norm.vmax for i in (1, 2, 4, 5)]
    assert len(set(maps)) == ends
    assert len(figure.axes) == 6 + ends  # with as many colour bars
    assert [figure.axes[i].get_title() for i in range(3)] == ["image", "a", "b"]
    assert [figure.axes[i].get_ylabel() for i in (0, 3)] == ["x", "y"]


@pytest.mark.parametrize("factor, ends", [(5, 1), (50, 2)])
def test_scales_more_than_tenfold_apart_are_not_forced_on_one(factor, ends):
    figure = heatmaps({"a": A, "b": factor * A})
    assert len({drawn(figure, i).norm.vmax for i in range(4)}) == ends and len(figure.axes) == 4 + ends
    axes = new_figure(6, 2).subplots(1, 2)
    heat_row(axes, [A[0], factor * A[0]])
    assert len({ax.get_images()[-1].norm.vmax for ax in axes}) == ends


def test_views_keep_the_sum_and_show_less_detail():
    plane = A[0].double().sum(0).numpy()
    large = np.kron(plane, np.ones((4, 4)))  # 32 × 40: cells of 3 pixels
    patches = np.asarray(drawn(heatmap(large, view="patches")).get_array())
    assert patches[0, 0] == pytest.approx(large[:3, :3].sum()) and (patches[:3, :3] == patches[0, 0]).all()
    smooth = np.asarray(drawn(heatmap(large, view="smooth")).get_array())
    assert smooth.sum() == pytest.approx(large.sum()) and smooth.std() < large.std()


def test_magnitudes_glow_over_a_dimmed_image():
    signed, magnitude = (heatmap(A[0], IMAGES[0], signed=signed).axes[0].get_images()[0] for signed in (True, False))
    assert magnitude.get_array().mean() < signed.get_array().mean()


def test_draws_into_given_axes_and_saves(tmp_path):
    figure = heatmap(A[0])
    assert heatmap(A[0], ax=figure.axes[0], colorbar=False) is figure
    file = tmp_path / "map.png"
    heatmaps({"a": A[0, 0]}, IMAGES[0, 0], overlay=True).savefig(file)
    assert file.stat().st_size > 3_000


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: heatmap(A), r"expected one image"),
        (lambda: heatmap(np.zeros((9, 9, 3))), r"looks like \(height, width, channels\)"),
        (lambda: heatmap(A[0], IMAGES[0, :, :4]), r"attributions have \(height, width\) = \(8, 10\)"),
        (lambda: heatmap(A[0], scale=0.0), "scale=0.0 must be positive"),
        (lambda: heatmaps({}), "nothing to draw"),
        (lambda: heatmaps({"a": A, "b": B[:1]}), "differ in shape"),
        (lambda: heatmaps({"a": A}, IMAGES[:1]), "got 1 images for 2 examples"),
        (lambda: heatmaps({"a": A}, rows=["one"]), "got 1 rows for 2 examples"),
        (lambda: heatmaps({"a": A}, scale="global"), 'use "auto", "shared", "row", "each"'),
        (lambda: heatmap(A[0], view="blurred"), 'use "raw", "smooth" or "patches"'),
    ],
)
def test_errors_say_what_helps(call, match):
    with pytest.raises(ValueError, match=match):
        call()
