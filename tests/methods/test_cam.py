"""Class activation maps. Oracles: Captum's LayerGradCam called directly, the published formulas by hand, their sums."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import cnn, flat_points, left_untouched, mlp, seeded
from leastpath.methods import METHODS
from leastpath.methods.cam import last_maps

captum = pytest.importorskip("captum.attr")
IMAGES = flat_points(3, 72, 1).view(3, 2, 6, 6)
TARGETS = torch.tensor([0, 2, 1])


@pytest.mark.parametrize("batch_size", [2, 100])
def test_grad_cam_against_captum(batch_size):
    net = cnn()
    result = METHODS["grad_cam"](lp.Score(net, TARGETS, batch_size=batch_size), IMAGES, layer=net[0])
    maps = captum.LayerGradCam(net, net[0]).attribute(IMAGES, TARGETS, relu_attributions=True)
    expected = captum.LayerAttribution.interpolate(maps, (6, 6), "bilinear")
    torch.testing.assert_close(result.values.sum(1), expected[:, 0])
    assert torch.equal(result.values[:, 0], result.values[:, 1]) and result.n_gradients.tolist() == [1, 1, 1]


def test_without_relu_what_speaks_against_the_class_is_kept():
    score = lp.Score(cnn(), TARGETS)
    assert (
        METHODS["grad_cam"](score, IMAGES).values.min()
        >= 0
        > METHODS["grad_cam"](score, IMAGES, relu=False).values.min()
    )


def test_grad_cam_plus_plus_against_the_formula():
    net = cnn()
    result = METHODS["grad_cam_plus_plus"](lp.Score(net, TARGETS), IMAGES, layer=net[2])
    maps = net[:3](IMAGES).detach().requires_grad_()
    (g,) = torch.autograd.grad(net[3:](maps).gather(1, TARGETS[:, None]).sum(), maps)
    expected = torch.zeros(3, 6, 6)
    for b in range(3):
        for k in range(4):
            below = 2 * g[b, k] ** 2 + g[b, k] ** 3 * maps[b, k].sum()
            alpha = torch.where(below != 0, g[b, k] ** 2 / below, torch.zeros(()))
            expected[b] += (alpha * g[b, k].relu()).sum() * maps[b, k].detach()
    torch.testing.assert_close(result.values.sum(1), expected.relu())


def maps_and_gradients(net, depth):
    maps = net[:depth](IMAGES.double()).detach().requires_grad_()
    (g,) = torch.autograd.grad(net[depth:](maps).gather(1, TARGETS[:, None]).sum(), maps)
    return maps.detach(), g


@pytest.mark.parametrize("name", ["xgrad_cam", "hires_cam", "layer_cam"])
def test_relatives_against_their_formulas(name):
    net = cnn().double()
    maps, g = maps_and_gradients(net, 3)
    expected = torch.zeros(3, 6, 6, dtype=torch.float64)
    for b in range(3):
        for k in range(4):
            a, slope = maps[b, k], g[b, k]
            weight = {"xgrad_cam": (slope * a).sum() / a.sum(), "hires_cam": slope, "layer_cam": slope.relu()}[name]
            expected[b] += weight * a
    result = METHODS[name](lp.Score(net, TARGETS), IMAGES.double(), layer=net[2])
    torch.testing.assert_close(result.values.sum(1), expected.relu(), rtol=1e-12, atol=1e-12)
    assert result.n_gradients.tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["xgrad_cam", "hires_cam"])
def test_below_a_linear_layer_they_add_up_to_the_score_without_its_bias(name):
    net = seeded(lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)))
    net = net.double().eval()
    result = METHODS[name](lp.Score(net, TARGETS), IMAGES.double(), layer=net[1], relu=False)
    score = (net(IMAGES.double()) - net[3].bias).gather(1, TARGETS[:, None])[:, 0]
    torch.testing.assert_close(result.values.flatten(1).sum(1), score)


def test_below_a_global_average_and_a_linear_layer_grad_cam_and_its_relatives_are_one():
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    score = lp.Score(seeded(lambda: net).double().eval(), TARGETS)
    plain, *others = (METHODS[name](score, IMAGES.double()).values for name in ("grad_cam", "xgrad_cam", "hires_cam"))
    for values in others:
        torch.testing.assert_close(values, plain)


@pytest.mark.parametrize("name", ["grad_cam", "grad_cam_plus_plus", "xgrad_cam", "hires_cam", "layer_cam"])
def test_batch_equals_loop_with_a_target_an_example(name):
    net, images = cnn().double(), IMAGES.double()
    batch = METHODS[name](lp.Score(net, TARGETS, "log_softmax"), images)
    for b in range(3):
        alone = METHODS[name](lp.Score(net, int(TARGETS[b]), "log_softmax"), images[b : b + 1])
        torch.testing.assert_close(batch.values[b], alone.values[0], rtol=1e-12, atol=1e-14)


def test_the_last_layer_with_maps_is_found():
    net = cnn()
    assert last_maps(lp.Score(net, 0).bind(IMAGES), net, IMAGES[:1]) is net[3]
    frozen = seeded(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)))
    frozen.eval().requires_grad_(False)
    assert last_maps(lp.Score(frozen, 0).bind(IMAGES), frozen, IMAGES[:1]) is frozen[0]
    with left_untouched(frozen):
        assert METHODS["grad_cam"](lp.Score(frozen, 0), IMAGES).values.abs().max() > 0


def test_what_has_no_maps_is_refused():
    with pytest.raises(ValueError, match="grad_cam needs images"):
        METHODS["grad_cam"](lp.Score(mlp(), 0), flat_points(2, 4))
    with pytest.raises(ValueError, match="the model is a plain function"):
        METHODS["grad_cam"](lp.Score(lambda x: x.flatten(1).sum(1)), IMAGES)
    with pytest.raises(ValueError, match="layer is not a part of the model"):
        METHODS["grad_cam"](lp.Score(cnn(), 0), IMAGES, layer=nn.Conv2d(1, 1, 1))
    flat = nn.Sequential(nn.Flatten(), nn.Linear(72, 2)).eval()
    with pytest.raises(ValueError, match="grad_cam_plus_plus found no layer with maps"):
        METHODS["grad_cam_plus_plus"](lp.Score(flat, 0), IMAGES)
