"""Random staircases. Oracles: Shapley values by enumeration, closed forms, completeness, batch equals loop."""

import pytest
import torch

import leastpath as lp
from helpers import flat_points, mlp, shapley
from leastpath.methods import METHODS

staircase = METHODS["staircase"]


def picture(n=2, channels=3, side=16):
    return torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(0))


def test_features_of_a_table_get_their_shapley_values():
    x, base = flat_points(1, 5, 1, torch.float64), flat_points(1, 5, 2, torch.float64)
    score = lp.Score(mlp(5).double(), 1)
    expected = shapley(score, x[0], base[0])
    result = staircase(score, x, base, n_orders=300)
    assert (result.values[0] - expected).abs().max() < 0.02 * expected.abs().max()


def test_a_linear_score_gives_each_patch_its_share():
    """Closed form: a patch of a linear score gains Σ w (x − x̄) over it, in any order."""
    x, w = picture(1), torch.randn(3, 16, 16, generator=torch.Generator().manual_seed(1))
    result = staircase(lp.Score(lambda x: (x * w).flatten(1).sum(1)), x, n_orders=3, patch=1)
    torch.testing.assert_close(result.values.sum(1), (w * x).sum(1), rtol=1e-4, atol=1e-4)


def test_complete_and_nothing_for_what_equals_its_baseline():
    x, score = picture(), lp.Score(lambda x: x.flatten(1).sum(1).sin())
    base = torch.where(torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) < 0.5, x, 0.0)
    result = staircase(score, x, base)
    assert result.completeness_gap.abs().max() < 1e-4
    assert (result.values[x == base] == 0).all()


def test_batch_equals_loop_and_seeds_repeat():
    x, score = picture(3), lp.Score(lambda x: (x.flatten(1) ** 2).sum(1).sqrt())
    batch = staircase(score, x, n_orders=1)
    for b in range(3):
        torch.testing.assert_close(staircase(score, x[b : b + 1], n_orders=1).values[0], batch.values[b])
    other = staircase(score, x, n_orders=1, seed=1)
    assert not torch.equal(other.values, batch.values)


def test_grids_are_shifted_so_that_the_mean_is_finer_than_a_patch():
    score = lp.Score(lambda x: x[:, 0, 3, 3] * 4.0)
    values = staircase(score, torch.ones(1, 1, 16, 16), n_orders=12, patch=8).values[0, 0]
    assert values[3, 3] == values.max() and values[3, 3] > values[0, 0] > values[12, 12]


def test_wrong_settings_are_refused():
    for settings, what in (({"n_orders": 0}, "n_orders=0 must be at least 1"), ({"patch": 0}, "patch=0 must be")):
        with pytest.raises(ValueError, match=what):
            staircase(lp.Score(lambda x: x[:, 0]), torch.ones(1, 2), **settings)
