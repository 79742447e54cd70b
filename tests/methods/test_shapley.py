"""Permutation SHAP. Oracles: the shap library, Shapley values by enumeration, pairs of features, tokens."""

import pytest
import torch

import leastpath as lp
from helpers import TextNet, flat_points, mlp, seeded, shapley
from leastpath.methods import METHODS


def test_many_orders_against_brute_force():
    x, base = flat_points(2, 5, 1, torch.float64), flat_points(2, 5, 2, torch.float64)
    score = lp.Score(mlp(5).double(), 1)
    result = METHODS["permutation_shap"](score, x, base, n_permutations=300)
    for b in range(2):
        expected = shapley(score, x[b], base[b])
        assert (result.values[b] - expected).abs().max() < 0.02 * expected.abs().max()
    assert result.completeness_gap.abs().max() < 1e-9


def test_one_order_and_its_reverse_are_exact_for_pairs():
    x, base = flat_points(1, 4, 1, torch.float64), flat_points(1, 4, 2, torch.float64)
    score = lp.Score(lambda x: x[:, 0] * x[:, 1] - 3 * x[:, 1] * x[:, 3] + x[:, 2] ** 2)
    result = METHODS["permutation_shap"](score, x, base, n_permutations=1)
    torch.testing.assert_close(result.values[0], shapley(score, x[0], base[0]))


def test_against_the_permutations_of_shap():
    """Orders are drawn otherwise there; where features act in pairs, any order and its reverse are exact in both."""
    shap = pytest.importorskip("shap")
    x, base = flat_points(2, 5, 1, torch.float64), flat_points(1, 5, 2, torch.float64)

    def pairs(x):
        return x[:, 0] * x[:, 1] - 3 * x[:, 1] * x[:, 3] + x[:, 2] ** 2 + torch.sin(x[:, 4] * 2)

    theirs = shap.explainers.Permutation(
        lambda rows: pairs(torch.as_tensor(rows)).numpy(), shap.maskers.Independent(base.numpy()), seed=0
    )(x.numpy())
    ours = METHODS["permutation_shap"](lp.Score(pairs), x, base, n_permutations=1)
    torch.testing.assert_close(ours.values, torch.as_tensor(theirs.values))
    net = mlp(5).double()  # all features act together: both are samples of one value
    score = lp.Score(net, 1)
    theirs = shap.explainers.Permutation(
        lambda rows: score(torch.as_tensor(rows)).detach().numpy(), shap.maskers.Independent(base.numpy()), seed=0
    )(x.numpy(), max_evals=300 * 11)
    ours = METHODS["permutation_shap"](score, x, base, n_permutations=300)
    assert (ours.values - torch.as_tensor(theirs.values)).abs().max() < 0.03 * ours.values.abs().max()


def test_tokens_join_as_a_whole():
    net = seeded(TextNet).eval()
    score, ids = lp.Score(net, 1, layer=net.embedding), torch.tensor([[1, 2, 3]])
    result, fewer = (METHODS["permutation_shap"](score, ids, n_permutations=n) for n in (10, 4))
    assert result.values.shape == (1, 3, 4) and torch.equal(result.values[..., 0], result.values[..., 3])
    assert (result.n_forwards - fewer.n_forwards).tolist() == [(10 - 4) * 2 * (3 - 1)]
    assert "20 orders of 3 groups" in result.status[0].value


def test_a_single_feature_takes_the_whole_change():
    result = METHODS["permutation_shap"](lp.Score(lambda x: x[:, 0] ** 2), torch.full((1, 1), 3.0))
    torch.testing.assert_close(result.values, torch.tensor([[9.0]]))
    with pytest.raises(ValueError, match="n_permutations=0 must be at least 1"):
        METHODS["permutation_shap"](lp.Score(lambda x: x[:, 0]), torch.ones(1, 1), n_permutations=0)


# ---- random staircases --------------------


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


# ---- all coalitions ---------------------


def test_all_coalitions_against_brute_force():
    exact = METHODS["exact_shapley"]
    x, base = flat_points(2, 5, 1, torch.float64), flat_points(2, 5, 2, torch.float64)
    score = lp.Score(mlp(5).double(), 1)
    result = exact(score, x, base)
    for b in range(2):
        torch.testing.assert_close(result.values[b], shapley(score, x[b], base[b]))
    assert result.completeness_gap.abs().max() < 1e-9
    other = exact(score, x, base, seed=3)
    assert torch.equal(other.values, result.values)  # nothing is drawn
    grouped = exact(score, x, base, groups=torch.tensor([0, 0, 1, 1, 1]))
    both = torch.where(torch.tensor([True, True, False, False, False]), x, base)
    expected = (score(both) - score(base) + score(x) - score(torch.where(both == x, base, x))) / 2
    torch.testing.assert_close(grouped.values[:, :2].sum(1), expected)


def test_too_many_coalitions_are_refused_with_another_method():
    with pytest.raises(ValueError, match=r"up to 10 groups, got 11: pass groups=, or use"):
        METHODS["exact_shapley"](lp.Score(lambda x: x.sum(1)), torch.ones(1, 11))
