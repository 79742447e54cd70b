"""Amortized: learnt paths as a start for Descent."""

import pytest
import torch

import leastpath as lp
from helpers import cnn, flat_points, mlp

pytest.importorskip("safetensors")
SCORE = lp.Score(mlp(30, 3), 1, "softmax")
X = flat_points(24, 30) * 2


@pytest.fixture(scope="module")
def solved():
    return lp.attribute(SCORE, X[:16], method=lp.Descent())


def test_an_untrained_network_predicts_the_straight_line():
    predictor = lp.solvers.amortized.PathPredictor(torch.Size([30]), 5, 8)
    assert not predictor(X, X).any()


def test_learns_the_paths_that_it_is_shown(solved):
    """Its error on the training paths falls well below that of the straight line."""
    fitted = lp.Amortized.fit(solved, epochs=150)
    knots = solved.path.resample(18).points.unflatten(0, (16, 18))
    deviation = knots[:, 1:-1] - lp.solvers.amortized._line(knots[:, 0], knots[:, -1], 16)
    predicted = fitted.predictor(knots[:, 0], knots[:, -1])
    assert (predicted - deviation).square().mean() < 0.3 * deviation.square().mean()


def test_new_inputs_end_exactly_and_never_longer_than_the_line(solved):
    result = lp.attribute(SCORE, X[16:], method=lp.Amortized.fit(solved, epochs=50))
    assert torch.equal(result.path.end, X[16:]) and not result.path.start.any()
    assert (result.length_ratio <= 1 + 0.01).all()


def test_saved_and_loaded_gives_the_same_paths(solved, tmp_path):
    solver = lp.Amortized.fit(solved, epochs=20)
    solver.save(tmp_path / "paths.safetensors")
    again = lp.Amortized.load(tmp_path / "paths.safetensors")
    a, b = (lp.attribute(SCORE, X[16:18], method=s) for s in (solver, again))
    assert torch.equal(a.path.points, b.path.points)
    assert [f.name for f in tmp_path.iterdir()] == ["paths.safetensors"]


def test_images_and_global_random_state():
    score = lp.Score(cnn(), 1, "softmax")
    images = flat_points(6, 72).reshape(6, 2, 6, 6)
    before = torch.get_rng_state()
    solver = lp.Amortized.fit(lp.attribute(score, images, method=lp.Descent(max_gradients=150)), epochs=5, width=8)
    assert torch.equal(before, torch.get_rng_state())
    assert lp.attribute(score, images[:2], method=solver).values.shape == (2, 2, 6, 6)


def test_errors_say_what_to_do(solved, tmp_path):
    solver = lp.Amortized.fit(solved, epochs=1)
    with pytest.raises(ValueError, match="the fitted network has features"):
        lp.attribute(lp.Score(lambda x: x.sum(1)), torch.ones(1, 4), method=solver)
    with pytest.raises(ValueError, match="must be at least 1"):
        lp.Amortized.fit(solved, epochs=0)
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="is not a saved path predictor"):
        lp.Amortized.load(tmp_path / "other.safetensors")
