"""SHAP's own plots draw the explanations, and base values are what the model says at the baseline."""

import dataclasses
import sys

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import cnn, flat_points, mlp
from leastpath.shap import explanation, plot

pytest.importorskip("matplotlib").use("agg")
plt = pytest.importorskip("matplotlib.pyplot")
shap = pytest.importorskip("shap")

NAMES = ["age", "height", "mass", "pulse"]
# SHAP's own use of matplotlib and numpy, not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def table():
    inputs, score = flat_points(12, 4), lp.Score(mlp(), 1)
    return inputs, score, lp.attribute(score, inputs, 0.3, method=lp.StraightLine(), tolerance=1e-4)


def test_base_value_plus_values_is_the_score(table):
    inputs, score, result = table
    explained = explanation(result, NAMES, inputs, score=score)
    baseline = float(score(torch.full((1, 4), 0.3)))
    np.testing.assert_allclose(explained.base_values, baseline, atol=1e-5)
    np.testing.assert_allclose(explained.base_values + explained.values.sum(1), score(inputs).numpy(), atol=1e-4)
    assert explained.feature_names == NAMES


def test_base_values_given_or_zero(table):
    inputs, _, result = table
    assert (explanation(result).base_values == 0).all()
    assert (explanation(result, base_values=0.5).base_values == 0.5).all()
    assert explanation(result, base_values=torch.arange(12.0)).base_values[3] == 3
    assert explanation(result, inputs=inputs).data.shape == (12, 4)


@pytest.mark.parametrize("plot", ["waterfall", "beeswarm", "bar", "bar of one", "heatmap", "scatter"])
def test_plots_of_tables_draw(table, plot):
    inputs, score, result = table
    explained = explanation(result, NAMES, inputs, score=score, output_names="class 1")
    if plot == "waterfall":
        shap.plots.waterfall(explained[0], show=False)
    elif plot == "scatter":
        shap.plots.scatter(explained[:, "age"], show=False)
    elif plot == "bar of one":
        shap.plots.bar(explained[2], show=False)
    else:
        getattr(shap.plots, plot)(explained, show=False)
    labels = [text.get_text() for axis in plt.gcf().axes for text in (*axis.get_yticklabels(), axis.xaxis.label)]
    assert any("age" in label for label in labels)


def test_image_plot_draws_channels_last():
    images = torch.rand(2, 2, 6, 6)
    result = lp.attribute(lp.Score(cnn(), 0), images, method=lp.StraightLine(), tolerance=0.1)
    explained = explanation(result, inputs=images)
    assert explained.shape == (2, 6, 6, 2)
    np.testing.assert_array_equal(explained.values[1, 2, 3], result.values[1, :, 2, 3].numpy())
    grey = dataclasses.replace(result, values=result.values[:, :1])  # two channels are no picture
    shap.image_plot(explanation(grey, inputs=images[:, :1]), show=False)
    shap.image_plot(explanation(grey, inputs=images[:, :1], output_names="cat"), show=False)
    assert sum(bool(axis.images) for axis in plt.gcf().axes) >= 4


def test_names_of_a_data_frame_are_kept(table):
    pd = pytest.importorskip("pandas")
    inputs, _, result = table
    explained = explanation(result, inputs=pd.DataFrame(inputs.numpy(), columns=NAMES))
    assert explained.feature_names == NAMES


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"feature_names": ["a"]}, "pass one per feature"),
        ({"inputs": torch.zeros(12, 3)}, "pass the inputs that were explained"),
        ({"score": lp.Score(lambda x: x)}, "inputs as a tensor"),
        ({"base_values": [1.0, 2.0]}, r"expected a number or \(12,\)"),
    ],
)
def test_errors(table, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        explanation(table[2], **settings)


def test_tuples_and_strangers_are_refused(table):
    two = dataclasses.replace(table[2], values=(table[2].values, table[2].values))
    with pytest.raises(ValueError, match="SHAP draws one table"):
        explanation(two)
    with pytest.raises(ValueError, match=r"expected the Attribution of lp\.attribute"):
        explanation(torch.zeros(3))


def test_without_shap_the_extra_is_named(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(ImportError, match=r"leastpath\[shap\]"):
        explanation(table[2])


def words_on(figure) -> str:
    figure.canvas.draw()
    return " ".join(text.get_text() for text in figure.findobj(plt.Text))


@pytest.mark.parametrize("kind", ["waterfall", "beeswarm", "bar"])
def test_plots_have_our_words(table, kind):
    inputs, score, result = table
    explained = explanation(result, NAMES, inputs, score=score)
    said = words_on(plot(kind, explained[0] if kind == "waterfall" else explained))
    assert "SHAP" not in said and "E[f(X)]" not in said and "age" in said
    assert ("baseline" if kind == "waterfall" else "attribution") in said


def test_an_image_plot_names_its_output():
    images = torch.rand(2, 1, 6, 6)
    result = lp.attribute(lp.Score(lambda x: x.flatten(1).sum(1)), images, method=lp.StraightLine())
    said = words_on(plot("image", explanation(result, inputs=images, output_names="cat")))
    assert "cat" in said and "SHAP" not in said


def test_a_plot_that_shap_does_not_have():
    with pytest.raises(ValueError, match=r"kind='pie' is unknown: use one of \['waterfall'"):
        plot("pie", None)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda made: plot("image", made), "cannot draw a image plot of values of shape"),
        (lambda made: plot("scatter", made[0]), "cannot draw a scatter plot"),
        (lambda made: plot("bar", torch.ones(2, 3)), "explained is a Tensor"),
    ],
)
def test_what_shap_cannot_draw_is_a_sentence(call, words):
    made = explanation(lp.attribute(lp.Score(lambda x: x.sum(1)), torch.rand(4, 3), method=lp.StraightLine()))
    with pytest.raises(ValueError, match=words):
        call(made)


def test_several_names_of_one_score_are_refused():
    result = lp.attribute(lp.Score(lambda x: x.sum(1)), torch.rand(4, 3), method=lp.StraightLine())
    with pytest.raises(ValueError, match="output_names=\\['cat', 'dog'\\] is a list, expected one name"):
        explanation(result, output_names=["cat", "dog"])
