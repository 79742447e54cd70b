"""Permutation tests on shared removals: exact under their nulls, free of ties and of numbering."""

import pytest
import torch
from scipy.stats import binom, rankdata

import leastpath as lp
from leastpath.removal.chance import (
    NOISE,
    REACHES,
    Probe,
    Statistic,
    Tail,
    count_tail,
    cut_strata,
    draw_fields,
    is_decidable,
    move,
    p_worse,
    permute,
    rank_evenly,
    weigh_cells,
    weigh_units,
)
from leastpath.removal.referee import Referee

TRIALS = 200
MOST = int(binom.ppf(0.999, TRIALS, 0.05))  # of p ≤ .05 among so many, if they are uniform


def made(seed=0):
    return torch.Generator().manual_seed(seed)


def additive_probe(weights, orders=40, seed=0):
    """The probe of Σ weight · x at ones, with zeros for what is removed."""
    return probe_of(lp.Score(lambda x: x @ weights), torch.ones(1, len(weights)), 30 * orders, seed)


def probe_of(score, inputs, removals, seed=0):
    """What a referee found by so many removals."""
    referee = Referee(score, inputs, n_removals=removals, seed=seed)
    referee.remover.ask([0], removals)
    return referee.removals[0].probe


def test_mid_ranks_against_scipy():
    values = torch.tensor([[3.0, 1.0, 1.0, 9.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    expected = (2 * torch.as_tensor(rankdata(values.numpy(), axis=1)) - 6) / 5
    torch.testing.assert_close(rank_evenly(values), expected)


def test_weights_of_an_additive_score_order_its_features():
    weights = torch.linspace(-1, 1, 10)
    probe = additive_probe(weights, orders=400)
    assert torch.corrcoef(torch.stack([probe.weights, weights.double()]))[0, 1] > 0.98
    assert torch.corrcoef(torch.stack([*probe.halves, probe.weights]))[0].min() > 0.9


def test_the_spread_of_random_orders_against_all_orders():
    """An additive score's gain is Σ weight · c(place): its deviation over all orders is known."""
    weights = torch.linspace(0.1, 1, 10)
    places = torch.arange(10)
    counts = torch.tensor([1, 3, 5, 7, 9])[:, None]
    c = ((places < counts).double() - (places >= 10 - counts).double()).mean(0)
    deviation = ((weights - weights.mean()).double().square().sum() * c.square().sum() / 9).sqrt()
    assert additive_probe(weights, orders=2000).spread == pytest.approx(float(deviation), rel=0.05)


@pytest.mark.parametrize("null", ["all", "strata", "blind"])
def test_p_is_uniform_for_random_values_on_one_input(null):
    weights = torch.randn(24, generator=made(1))
    probe, g, size = additive_probe(weights), made(2), torch.rand(24, generator=made(3))
    strata = None if null == "all" else cut_strata(size, 8, g)
    statistic = Statistic.of(probe.weights, [size] if null == "blind" else [])
    draws = permute(24, 199, g, strata)
    found = [count_tail(statistic, rank_evenly(torch.randn(24, generator=g)), draws).p for _ in range(TRIALS)]
    assert sum(p <= 0.05 for p in found) <= MOST
    assert sum(p <= 0.5 for p in found) == pytest.approx(TRIALS / 2, abs=25)


def test_moves_are_exact_for_noise_on_a_grid():
    statistic, g = Statistic.of(torch.randn(36, generator=made(1))), made(2)
    draws = move((6, 6), 199, g)
    found = [count_tail(statistic, rank_evenly(torch.randn(36, generator=g)), draws).p for _ in range(TRIALS)]
    assert sum(p <= 0.05 for p in found) <= MOST


def test_smooth_ignorance_passes_permutations_and_not_moves():
    """Weights and maps that are smooth, and know nothing of each other."""
    g, grid = made(0), (16, 16)
    everywhere, moved, hits = permute(256, 99, g), move(grid, 99, g), torch.zeros(2)
    for _ in range(TRIALS):
        weights, values = draw_fields(2, grid, 2.0, g)
        for k, null in enumerate((everywhere, moved)):
            hits[k] += count_tail(Statistic.of(weights), rank_evenly(values), null).p <= 0.05
    assert hits[0] > 0.2 * TRIALS and hits[1] <= 0.12 * TRIALS


def test_equal_values_have_p_1():
    ranked, weights = rank_evenly(torch.ones(9)), torch.randn(9, generator=made())
    for says in ([], [torch.arange(9.0)]):
        for null in (permute(9, 99, made()), move((3, 3), 99, made())):
            assert count_tail(Statistic.of(weights, says), ranked, null).p == 1


def test_what_the_statistic_is_blind_to_has_no_effect():
    says, g = torch.rand(30, generator=made(1)), made(2)
    weights = rank_evenly(says) + 0.01 * torch.randn(30, generator=g)
    ranked, draws = rank_evenly(says), permute(30, 199, g)
    assert count_tail(Statistic.of(weights), ranked, draws).p == 1 / 200
    assert count_tail(Statistic.of(weights, [says]), ranked, draws).p > 0.05


def test_statistics_do_not_depend_on_the_numbering():
    weights, values, says = torch.randn(3, 12, generator=made())
    order, draws = torch.randperm(12, generator=made(1)), permute(12, 99, made(2))
    back = order.argsort()
    renumbered = back[draws[:, order]]
    for mine, theirs in (([], []), ([says], [says[order]])):
        a = count_tail(Statistic.of(weights, mine), rank_evenly(values), draws)
        b = count_tail(Statistic.of(weights[order], theirs), rank_evenly(values[order]), renumbered)
        assert a == b


def test_permutations_stay_in_their_strata():
    strata = cut_strata(torch.rand(20, generator=made()), 8, made())
    assert strata.bincount().tolist() == [10, 10]
    draws = permute(20, 50, made(1), strata)
    assert (strata[draws] == strata).all()
    assert (draws.sort(1).values == torch.arange(20)).all() and len(draws.unique(dim=0)) == 50


@pytest.mark.parametrize(("grid", "n"), [((4, 4), 127), ((3, 5), 59)])
def test_moves_are_distinct_permutations_without_the_identity(grid, n):
    moves, cells = move(grid, 10_000, made()), grid[0] * grid[1]
    assert len(moves) == n and len(moves.unique(dim=0)) == n
    assert (moves.sort(1).values == torch.arange(cells)).all()
    assert not (moves == torch.arange(cells)).all(1).any()


def test_tail_counts_what_was_observed():
    assert Tail(0, 19).p == 0.05 and Tail(19, 19).p == 1 and Tail(4, 19).beaten == 15


def test_sets_find_the_spot_that_matters():
    """A score that sees one corner of an 8 × 8 grid, and nothing of how much was removed elsewhere."""
    corner = torch.zeros(8, 8)
    corner[:3, :3] = 1
    corner = corner.repeat_interleave(2, 0).repeat_interleave(2, 1)  # 16 × 16
    images = torch.rand(1, 1, 16, 16, generator=made())
    probe = probe_of(lp.Score(lambda x: (x[:, 0] * corner).sum((1, 2))), images, 384)
    inside = corner.flatten() > 0
    assert probe.weights[inside].quantile(0.2) > probe.weights[~inside].quantile(0.8)  # spots see its neighbours, too
    assert is_decidable(probe, move((16, 16), 499, made()), 0.05)


@pytest.mark.parametrize("pairs", [12, 60])
def test_weights_of_cells_against_a_gaussian_process_by_definition(pairs):
    """Oracle: the density of the differences and the posterior mean, written out among pairs, choice after choice."""
    grid, g = (4, 5), made(pairs)
    places = torch.cartesian_prod(torch.arange(4.0), torch.arange(5.0)).double()
    signs = torch.where(torch.rand(pairs, 20, generator=g) < 0.5, -1.0, 1.0).double()
    truth = (-(places - places[7]).norm(dim=1)).exp()
    differences = signs @ truth + 0.3 * torch.randn(pairs, generator=g)
    found = []
    for reach in REACHES:
        covariance = torch.exp(-torch.cdist(places, places) / reach)
        for noise in pairs * NOISE:
            among = signs @ covariance @ signs.T + noise * torch.eye(pairs)
            scale = differences @ torch.linalg.solve(among, differences) / pairs  # the most likely one
            normal = torch.distributions.MultivariateNormal(torch.zeros(pairs).double(), scale * among)
            mean = covariance @ signs.T @ torch.linalg.solve(among, differences)
            found.append((float(normal.log_prob(differences)), mean - mean.mean()))
    torch.testing.assert_close(weigh_cells(signs, differences, grid), max(found, key=lambda one: one[0])[1])


def test_weights_of_cells_are_nearer_to_a_spot_than_those_of_units():
    """By as many removals, of a photograph's score that sees one spot among noise."""
    g, errors = made(3), []
    spot = torch.zeros(16, 16).double()
    spot[3:7, 8:13] = 1
    for _ in range(10):
        signs = torch.where(torch.rand(300, 256, generator=g) < 0.5, -1.0, 1.0).double()
        differences = signs @ spot.flatten() + 10 * torch.randn(300, generator=g)
        both = torch.stack([weigh_cells(signs, differences, (16, 16)), weigh_units(signs, differences), spot.flatten()])
        errors.append(torch.corrcoef(both)[2, :2])
    smooth, plain = torch.stack(errors).mean(0)
    assert smooth > plain + 0.1


def test_log_odds_beyond_eight_are_no_evidence():
    weights = torch.tensor([[40.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    probe = probe_of(lp.Score(lambda x: x @ weights + torch.tensor([100.0, 0.0]), 0), torch.ones(1, 4), 600)
    assert not probe.weights.any() and probe.spread == 0
    assert not is_decidable(probe, permute(4, 499, made()), 0.05)


def test_paired_against_closed_form_and_uniform_under_its_null():
    weights, g = torch.randn(20, generator=made()), made(1)
    probe = Probe(weights, weights.expand(2, -1), torch.zeros(1))
    assert p_worse(probe, weights, weights) == 1
    assert p_worse(probe, -weights, weights) < 0.01 and p_worse(probe, weights, -weights) > 0.99
    found = [p_worse(probe, *torch.randn(2, 20, generator=g), draws=99, seed=i) for i in range(TRIALS)]
    assert sum(p <= 0.05 for p in found) <= MOST
