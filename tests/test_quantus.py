"""Metrics of Quantus run with our explainer, and it gives what `attribute` gives."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import leastpath as lp
from helpers import cnn, flat_points, mlp, seeded
from leastpath.quantus import explain

IMAGES = flat_points(4, 72).reshape(4, 2, 6, 6).numpy()
LABELS = np.array([0, 2, 1, 1])
SETTINGS = {"method": lp.Descent(40), "output": "log_softmax", "max_gradients": 200}


@pytest.fixture(scope="module")
def quantus():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own imports
        return pytest.importorskip("quantus")


def test_same_as_attribute():
    model, inputs = mlp(), flat_points(3, 4)
    values = explain(model, inputs.numpy(), np.array([0, 2, 1]), baselines=0.5, method=lp.StraightLine(), n_steps=5)
    expected = lp.attribute(lp.Score(model, [0, 2, 1]), inputs, 0.5, method=lp.StraightLine(), n_steps=5).values
    assert isinstance(values, np.ndarray)
    np.testing.assert_array_equal(values, expected.numpy())


def test_arrays_of_any_kind():
    """float64 images into a float32 model, labels as floats, baselines as an array, channels summed."""
    values = explain(
        cnn(), IMAGES.astype("float64"), LABELS.astype("float64"), baselines=np.zeros((1, 2, 6, 6)), **SETTINGS
    )
    summed = explain(cnn(), IMAGES, LABELS, reduce_channels=True, **SETTINGS)
    assert values.shape == (4, 2, 6, 6) and summed.shape == (4, 1, 6, 6)
    np.testing.assert_allclose(values.sum(1, keepdims=True), summed, rtol=1e-4, atol=1e-5)
    assert explain(mlp().double(), flat_points(2, 4).numpy(), 1, method=lp.StraightLine()).dtype == np.float64


def test_the_package_does_not_import_quantus():
    """Its licence is not ours."""
    sources = Path(lp.__file__).parent.rglob("*.py")
    assert not [file for file in sources if re.search(r"^\s*(import|from) quantus", file.read_text(), re.M)]


METRICS = {
    "MaxSensitivity": {"nr_samples": 2, "lower_bound": 0.1},
    "FaithfulnessCorrelation": {"nr_runs": 4, "subset_size": 6, "perturb_baseline": "black"},
    "Sparseness": {},
    "Complexity": {},
    "Completeness": {"output_func": lambda x: x, "abs": False, "normalise": False},
    "RandomLogit": {"num_classes": 3, "seed": 0},
    "MPRT": {"layer_order": "bottom_up"},
}


@pytest.mark.filterwarnings("ignore")  # of Quantus
@pytest.mark.parametrize("name", METRICS)
def test_metrics_run(quantus, name):
    model = seeded(lambda: nn.Sequential(cnn(), nn.Identity())).eval()
    metric = getattr(quantus, name)(disable_warnings=True, display_progressbar=False, **METRICS[name])
    scores = metric(
        model=model, x_batch=IMAGES, y_batch=LABELS, explain_func=explain, explain_func_kwargs=dict(SETTINGS)
    )
    flat = [v for part in (scores.values() if isinstance(scores, dict) else [scores]) for v in np.ravel(part)]
    assert flat and np.isfinite(np.asarray(flat, dtype=float)).all()


@pytest.mark.parametrize(
    ("targets", "sentence"), [(np.array([0.5, 1.0]), "whole numbers"), (np.zeros((2, 3)), "class indices")]
)
def test_targets_that_are_no_classes(targets, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(mlp(), flat_points(2, 4), targets)


def test_channels_of_a_table_cannot_be_summed():
    with pytest.raises(ValueError, match="leave it out"):
        explain(mlp(), flat_points(2, 4), 0, reduce_channels=True, method=lp.StraightLine())
