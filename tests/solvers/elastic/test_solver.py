"""ElasticBand: what monotone promises, its limits, its groups, its costs, and that it sees kinks."""

import itertools

import hypothesis
import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

import leastpath as lp
from helpers import Counted, Interrupting, TextNet, cnn, flat_points, mlp, moons_net, seeded, separable, separable_parts
from leastpath import Outcome
from leastpath.features.groups import patches
from leastpath.score.derivatives import hessian_vector
from leastpath.solvers.elastic import solver as elastic

METRICS = [
    lp.Conformal(),
    lp.RankOne(),
    lp.NoCancellation(),
    lp.Euclidean(),
    lp.Conformal(damping=0.1),
    lp.DataDensity(flat_points(20, 6, seed=5), 0.5),
    lp.Mixed(lp.Conformal(), lp.DataDensity(flat_points(20, 6, seed=5), 0.5)),
]


def steep(net: nn.Module) -> nn.Module:
    """The net with larger weights, so that bends save much."""
    for parameter in net.parameters():
        parameter.data.mul_(3)
    return net.eval()


NET = steep(seeded(lambda: nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3)), 4))
X = flat_points(4, 6, seed=1)
SCORE = lp.Score(NET, NET(X).argmax(1), "log_softmax")


def band(score=SCORE, x=X, baselines=None, metric=None, tolerance=0.01, max_gradients=None, **settings):
    solver = lp.ElasticBand(**settings)
    how = {"metric": metric, "tolerance": tolerance, "max_gradients": max_gradients}
    return lp.attribute(score, x, baselines, method=solver, **how)


def shares_of_the_way(result, x, base) -> torch.Tensor:
    """(knots, features) of the only path; NaN where a feature does not move."""
    return (result.path[0] - base[0]) / (x - base)[0]


# ---- monotone: properties ----------------------------------------------------------------------------------------


@st.composite
def ends(draw):
    """A baseline and an input of six features, some of which are equal, in either precision and of any scale."""
    seed, dtype = draw(st.integers(0, 10_000)), draw(st.sampled_from([torch.float32, torch.float64]))
    scale = draw(st.sampled_from([1e-3, 1.0, 100.0]))
    x, base = (scale * flat_points(1, 6, seed + i, dtype) for i in range(2))
    same = torch.rand(1, 6, generator=torch.Generator().manual_seed(seed)) < 0.3
    return torch.where(same, base, x), base, scale


@given(ends(), st.sampled_from([0.0, 0.1, 1.0, 30.0]), st.sampled_from([None, torch.tensor([0, 0, 1, 1, 2, 2])]))
def test_monotone_knots_rise_within_the_box_between_fixed_ends(given_ends, stiffness, groups):
    x, base, scale = given_ends
    score = lp.Score(lambda p: NET.to(p.dtype)(p / scale), 1, "log_softmax")
    result = band(score, x, base, stiffness=stiffness, groups=groups)
    knots = result.path[0]
    assert torch.equal(knots[0], base[0]) and torch.equal(knots[-1], x[0])
    assert (knots >= torch.minimum(x, base)).all() and (knots <= torch.maximum(x, base)).all()
    assert (knots.diff(dim=0) * (x - base).sign() >= 0).all()
    assert (result.values[x == base] == 0).all()


def test_box_and_order_hold_for_images_of_whole_bytes():
    x, base = seeded(lambda: torch.randint(0, 256, (3, 2, 6, 6)) / 255), seeded(lambda: torch.rand(3, 2, 6, 6), 1)
    result = band(lp.Score(cnn(), 1, "log_softmax"), x, base, stiffness=0.0)
    assert not result.path.is_straight.any()
    for b in range(3):
        knots = result.path[b]
        assert (knots >= torch.minimum(x, base)[b]).all() and (knots <= torch.maximum(x, base)[b]).all()
        assert (knots.diff(dim=0) * (x - base)[b].sign() >= 0).all()


@given(st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 10.0]))
def test_a_score_that_only_rises_with_features_gives_them_no_wrong_sign(seed, stiffness):
    weights = [flat_points(a, b, seed + a).abs() for a, b in ((6, 16), (16, 1))]
    score = lp.Score(lambda x: torch.sigmoid(torch.tanh(x @ weights[0] - 1) @ weights[1])[:, 0])
    x, base = flat_points(3, 6, seed + 1), flat_points(3, 6, seed + 2)
    result = band(score, x, base, stiffness=stiffness)
    assert (result.values * (x - base) >= 0).all()


def test_free_knots_leave_the_box():
    """What monotone forbids: without it, a feature that equals its baseline moves, and is given something."""
    x = X.clone()
    x[:, 2] = 0
    result = band(x=x, monotone=False, stiffness=0.3)
    assert (result.values[:, 2] != 0).all() and all((result.path[b][:, 2] != 0).any() for b in range(4))


# ---- limits and closed forms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("monotone", [True, False])
def test_endless_stiffness_is_the_straight_line(monotone):
    line = lp.attribute(SCORE, X, method=lp.StraightLine())
    assert torch.equal(band(stiffness=float("inf"), monotone=monotone).values, line.values)


@hypothesis.settings(max_examples=6)
@given(st.integers(0, 10_000), st.booleans())
def test_great_stiffness_tends_to_the_straight_line(seed, monotone):
    x, base = flat_points(2, 6, seed, torch.float64), flat_points(2, 6, seed + 1, torch.float64)
    score = lp.Score(NET.double(), 1, "log_softmax")
    values = [band(score, x, base, stiffness=s, monotone=monotone, tolerance=1e-4).values for s in (1e3, 1e5, 1e7)]
    NET.float()
    line = lp.attribute(score, x.float(), base.float(), method=lp.StraightLine(), tolerance=1e-4).values
    away = [float((v - line).abs().max() / line.abs().max()) for v in values]
    assert away[0] < 0.1 and away[1] < 5e-3 and away[2] < 1e-3


@pytest.mark.parametrize("monotone", [True, False])
def test_more_stiffness_bends_less(monotone):
    stretch = [band(stiffness=s, monotone=monotone).stats["stretch"] for s in (0.0, 1.0, 10.0, 100.0)]
    for looser, tighter in itertools.pairwise(stretch):
        assert (tighter < looser).all()


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("stiffness", [0.0, 1.0])
def test_linear_model_against_closed_form(monotone, stiffness):
    w = torch.tensor([1.5, -0.7, 0.2, 3.0, -2.0, 0.0])
    result = band(lp.Score(lambda x: x @ w), stiffness=stiffness, monotone=monotone)
    torch.testing.assert_close(result.values, w * X, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
@pytest.mark.parametrize("monotone", [True, False])
def test_separable_score_against_closed_form(metric, monotone):
    x, base = X.double(), flat_points(4, 6, 9, torch.float64)
    result = band(lp.Score(separable), x, base, metric, 1e-4, stiffness=0.1, monotone=monotone)
    expected = separable_parts(x) - separable_parts(base)
    assert ((result.values - expected).abs().sum(1) <= 1e-3 * (expected.abs().sum(1) + result.length)).all()


@pytest.mark.parametrize("metric", [m for m in METRICS if not isinstance(m, lp.Euclidean)], ids=repr)
@pytest.mark.parametrize("monotone", [True, False])
def test_every_metric_gets_shorter_paths(metric, monotone):
    result = band(metric=metric, monotone=monotone, stiffness=0.3)
    assert (result.length_ratio <= 1.001).all() and float(result.length_ratio.min()) < 0.98


def test_the_measured_objective_is_below_that_of_the_line():
    for stiffness in (0.0, 1.0, 10.0):
        result = band(stiffness=stiffness, monotone=False)
        assert (result.length_ratio + stiffness * result.stats["stretch"] < 1).all()


def test_kinks_bend_the_band_where_double_back_propagation_sees_nothing():
    """The logit of a ReLU net: its gradient's own derivative vanishes almost everywhere."""
    score = lp.Score(steep(mlp(6, activation=nn.ReLU)), 1)
    points = X.clone()
    assert float(hessian_vector(score.bind(points), points, torch.ones_like(points), torch.arange(4)).abs().max()) == 0
    result = band(score, stiffness=0.1)
    exactly = {
        "tolerance": 1e-4,
        "max_gradients": 20_000,
    }  # `length_ratio` has the line to 10 % only
    line = lp.attribute(score, X, method=lp.StraightLine(), support=False, **exactly)
    length = lp.integrate(score.bind(X), result.path, lp.Conformal(), **exactly).length
    assert float((length / line.length).median()) < 0.95


# ---- batches, budget, interruption -------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"monotone": False}, {"groups": torch.tensor([0, 0, 1, 1, 2, 2])}], ids=repr)
def test_an_example_gets_in_a_batch_what_it_gets_alone(settings):
    x, net = X.double(), mlp(6).double()
    together = band(lp.Score(net, 1, "log_softmax"), x, **settings)
    for b in range(len(x)):
        alone = band(lp.Score(net, 1, "log_softmax"), x[b : b + 1], **settings)
        torch.testing.assert_close(together.path[b], alone.path[0], rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(together.values[b], alone.values[0], rtol=1e-9, atol=1e-11)


def test_blocks_change_nothing(monkeypatch):
    groups = torch.stack([torch.arange(6) // n for n in (1, 2, 3, 4)])
    whole = band(groups=groups)
    monkeypatch.setattr(elastic, "BLOCK_ELEMENTS", 1)
    parts = band(groups=groups)
    torch.testing.assert_close(parts.path.points, whole.path.points, rtol=1e-4, atol=1e-5)
    assert torch.equal(parts.stats["stretch"].argsort(), whole.stats["stretch"].argsort())


def test_cost_is_what_the_docstring_says():
    model = Counted(moons_net())
    solver = lp.ElasticBand(n_knots=3, n_rounds=5, n_samples=2)
    bound = lp.Score(model, 1, "softmax").bind(X[:, :2])
    solver.solve(bound, lp.Conformal(), torch.zeros(4, 2), X[:, :2], lp.Run())
    assert model.gradient_rows == 4 * (2 * 5 + 1) * 2 * 4


@pytest.mark.parametrize("budget", [1, 20, 60, 100, 200, 500])
def test_budget_is_kept_and_said(budget):
    result = band(max_gradients=budget)
    assert (result.n_gradients <= budget).all()
    rounds = max(0, (budget // 2 // 10 - 1) // 2)
    for status in result.status:
        if rounds == 0:
            assert f"budget of max_gradients={budget} does not pay for one round of 20" in status.value
        elif rounds < 6:
            assert f"ended by max_gradients={budget} after {rounds} of 6 rounds" in status.value
        assert rounds >= 6 or Outcome.BUDGET_SPENT in status


@pytest.mark.parametrize("at", [1, 3, 6, 9])
def test_interruption_keeps_the_best_so_far(at):
    score = lp.Score(Interrupting(NET, at, only_gradients=True), 1, "log_softmax")
    solution = lp.ElasticBand().solve(score.bind(X), lp.Conformal(), torch.zeros_like(X), X, lp.Run())
    assert all(notes[0].outcome is Outcome.INTERRUPTED for notes in solution.notes)
    assert torch.equal(solution.path.end, X) and bool(solution.path.is_straight.all()) == (at <= 3)
    assert ("the straight line was used" in solution.notes[0][0].sentence) == (at <= 3)


def test_interruption_of_a_block_ends_the_others(monkeypatch):
    monkeypatch.setattr(elastic, "BLOCK_ELEMENTS", 1)
    model = Interrupting(NET, 19, only_gradients=True)
    solution = lp.ElasticBand().solve(lp.Score(model, 1).bind(X), lp.Conformal(), torch.zeros_like(X), X, lp.Run())
    assert solution.path.is_straight.tolist() == [False, False, True, True]


def test_places_without_a_gradient_are_bad_places_not_errors():
    """NaN beyond x₁ > 0.6 · x₀, which the straight line keeps away from."""

    def score(x):
        return torch.where(x[:, 1] > 0.6 + 0 * x[:, 0], torch.nan, torch.sigmoid(9 * x[:, 0] - 6 * x[:, 1] - 3))

    result = band(lp.Score(score), torch.tensor([[1.0, 0.5]]), stiffness=0.0, monotone=False)
    assert result.values.isfinite().all() and float(result.length_ratio) <= 1


def test_a_line_without_a_gradient_says_so():
    x = torch.tensor([[1.0, 0.5]])
    score = lp.Score(lambda x: torch.where((x[:, 0] > 0.3) & (x[:, 0] < 0.7), torch.nan, x.prod(1))).bind(x)
    solution = lp.ElasticBand().solve(score, lp.Conformal(), torch.zeros_like(x), x, lp.Run())
    assert solution.path.is_straight.all() and solution.notes[0][0].outcome is Outcome.FELL_BACK


# ---- groups ------------------------------------------------------------------------------------------------------


def test_features_of_a_group_go_the_same_share_of_their_way():
    base = flat_points(1, 6, 7)
    result = band(
        lp.Score(NET, 1, "log_softmax"), X[:1], base, groups=torch.tensor([3, 3, 3, -1, -1, 8]), stiffness=0.3
    )
    s = shares_of_the_way(result, X[:1], base)
    torch.testing.assert_close(s[:, :3], s[:, :1].expand(-1, 3), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(s[:, 3], s[:, 4], rtol=1e-4, atol=1e-5)
    assert float((s[:, 0] - s[:, 3]).abs().max()) > 0.01 and float((s[:, 3] - s[:, 5]).abs().max()) > 0.01


def test_one_group_is_the_straight_line():
    result = band(groups=torch.zeros(6, dtype=torch.long), stiffness=0.3)
    line = lp.attribute(SCORE, X, method=lp.StraightLine())
    torch.testing.assert_close(result.values, line.values, rtol=0.02, atol=0.02)
    for b in range(4):
        s = result.path[b] / X[b]
        torch.testing.assert_close(s, s[:, :1].expand_as(s), rtol=1e-3, atol=1e-5)


def test_every_feature_a_group_is_no_groups():
    torch.testing.assert_close(band(groups=torch.arange(6)).path.points, band().path.points, rtol=1e-4, atol=1e-5)


def test_labels_of_their_own_for_each_input_and_several_baselines():
    groups = torch.stack([torch.arange(6) // n for n in (1, 2, 3, 6)])
    base = flat_points(8, 6, 7).view(4, 2, 6)
    together = band(baselines=base, groups=groups)
    for b in range(4):
        score = lp.Score(NET, int(NET(X[b : b + 1]).argmax()), "log_softmax")
        alone = band(score, X[b : b + 1], base[b : b + 1, 1], groups=groups[b])
        torch.testing.assert_close(together.path[2 * b + 1], alone.path[0], rtol=1e-3, atol=1e-4)


def test_pixels_and_patches_of_images():
    x = seeded(lambda: torch.rand(1, 2, 6, 6), 3)
    for groups, side in (("pixels", 1), (patches(6, 6, side=3), 3)):
        result = band(lp.Score(steep(cnn()), 1, "log_softmax"), x, groups=groups, stiffness=0.1)
        s = result.path[0] / x[0]  # (knots, channels, height, width)
        first = s[:, :1, ::side, ::side].repeat_interleave(side, 2).repeat_interleave(side, 3)
        torch.testing.assert_close(s, first.expand_as(s), rtol=1e-3, atol=1e-4)
        assert float(s[1].std()) > 0


def test_tokens_of_a_layer():
    net = steep(seeded(TextNet))
    score = lp.Score(net, 1, layer=net.embedding)
    ids = torch.tensor([[1, 5, 7, 2]])
    result = lp.attribute(score, ids, torch.zeros_like(ids), method=lp.ElasticBand(0.1, groups="tokens"))
    s = (result.path[0] - result.path[0][0]) / (result.path[0][-1] - result.path[0][0])
    torch.testing.assert_close(s, s[..., :1].expand_as(s), rtol=1e-3, atol=1e-4)
    assert result.values.shape == (1, 4, 4)


# ---- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"stiffness": -1.0}, r"stiffness=-1.0 must be at least 0: ElasticBand\(stiffness=1.0\)"),
        ({"stiffness": float("nan")}, "stiffness=nan must be a number, and NaN is not a number"),
        ({"n_knots": 0}, "n_knots=0 must be at least 1"),
        ({"n_rounds": 2.5}, "n_rounds=2.5 must be a whole number"),
        ({"n_samples": 0}, "n_samples=0 must be at least 1"),
        ({"groups": 4, "monotone": False}, "only a monotone band has: pass monotone=True, or groups=None"),
    ],
)
def test_bad_settings(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        lp.ElasticBand(**settings)


def test_labels_are_named_by_their_shape():
    assert "groups='labels of shape (6,)'" in repr(lp.ElasticBand(groups=torch.arange(6)))
