"""attribute(): against Captum and closed forms, every field of the result, precisions, baselines, statuses."""

import math

import pytest
import torch
from captum.attr import IntegratedGradients, LayerIntegratedGradients
from hypothesis import given, settings, strategies as st
from torch import nn

import leastpath as lp
from helpers import (
    Counted,
    Interrupting,
    Polyline,
    TextNet,
    cnn,
    flat_points,
    mlp,
    moons_net,
    seeded,
    separable,
    separable_parts,
    wave,
)
from leastpath import Outcome
from leastpath.score.baselines import several
from oracles import dense

STRAIGHT = lp.StraightLine()
RULES = [("midpoint", "riemann_middle"), ("gauss_legendre", "gausslegendre")]
IMAGES = flat_points(3, 72).view(3, 2, 6, 6)


def explain(score, inputs, baselines=None, solver=STRAIGHT, **rest):
    return lp.attribute(score, inputs, baselines, method=solver, **rest)


# ---- against Captum, at fixed steps ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "method"), RULES)
@pytest.mark.parametrize("target", [1, torch.tensor([2, 0, 1])], ids=["int", "per example"])
@pytest.mark.parametrize(("model", "inputs"), [(mlp(), flat_points(3, 4)), (cnn(), IMAGES)], ids=["mlp", "cnn"])
def test_straight_line_against_captum(model, inputs, target, rule, method):
    base = torch.rand_like(inputs[:1])
    ours = explain(lp.Score(model, target), inputs, base, tolerance=None, n_steps=40, rule=rule)
    theirs, delta = IntegratedGradients(model).attribute(
        inputs, base, target, n_steps=40, method=method, return_convergence_delta=True
    )
    torch.testing.assert_close(ours.values, theirs, rtol=0, atol=1e-5)
    torch.testing.assert_close(ours.completeness_gap, delta, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("rule", "method"), RULES)
def test_tuple_inputs_and_arguments_against_captum(rule, method):
    net = mlp(6)

    def model(a, b, per_example, shared, power):
        return net(torch.cat([a * per_example, b.flatten(1) * shared], 1)) ** power

    inputs = (flat_points(3, 2), flat_points(3, 4, 1).view(3, 2, 2))
    base = (torch.zeros(1, 2), torch.full((3, 2, 2), 0.3))
    per_example, shared = flat_points(3, 1, 2), torch.tensor([[1.0, 2.0, 3.0, 4.0]])
    ours = explain(
        lp.Score(model, torch.tensor([0, 1, 2]), additional_forward_args=(per_example, shared, 2)),
        inputs, base, tolerance=None, n_steps=30, rule=rule,
    )  # fmt: skip
    theirs = IntegratedGradients(model).attribute(
        inputs, base, torch.tensor([0, 1, 2]), (per_example, shared.expand(3, 4), 2), n_steps=30, method=method
    )
    assert isinstance(ours.values, tuple)
    for a, b in zip(ours.values, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("rule", "method"), RULES)
@pytest.mark.parametrize("masked", [False, True])
def test_embedding_layer_of_token_ids_against_captum(rule, method, masked):
    net, ids = seeded(TextNet).eval(), torch.randint(11, (3, 5))
    mask = ((torch.rand(3, 5) > 0.3).float(),) if masked else ()
    target, base = torch.tensor([0, 2, 1]), torch.full((3, 5), 4)
    score = lp.Score(net, target, layer=net.embedding, additional_forward_args=mask)
    ours = explain(score, ids, base, tolerance=None, n_steps=30, rule=rule)
    theirs = LayerIntegratedGradients(net, net.embedding).attribute(
        ids, base, target, mask or None, n_steps=30, method=method
    )
    assert ours.values.shape == (3, 5, 4)
    torch.testing.assert_close(ours.values, theirs, rtol=0, atol=1e-5)


def test_inner_layer_against_captum():
    model = cnn()
    ours = explain(lp.Score(model, 1, layer=model[2]), IMAGES, tolerance=None, n_steps=30, rule="midpoint")
    theirs = LayerIntegratedGradients(model, model[2]).attribute(
        IMAGES, target=1, n_steps=30, method="riemann_middle", attribute_to_layer_input=False
    )
    torch.testing.assert_close(ours.values, theirs, rtol=0, atol=1e-5)


# ---- against closed forms -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [STRAIGHT, Polyline()])
def test_separable_score_against_closed_form(solver):
    x, base = flat_points(4, 3, dtype=torch.float64), flat_points(4, 3, 1, torch.float64)
    result = explain(lp.Score(separable), x, base, solver, tolerance=1e-4)
    torch.testing.assert_close(result.values, separable_parts(x) - separable_parts(base), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("solver", [STRAIGHT, Polyline()])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 2)])
def test_linear_model_against_closed_form(solver, shape):
    w = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    x, base = (torch.randn(4, *shape, generator=torch.Generator().manual_seed(s)) for s in (0, 1))
    result = explain(lp.Score(lambda x: (x * w).reshape(len(x), -1).sum(1)), x, base, solver)
    torch.testing.assert_close(result.values, w * (x - base), rtol=1e-4, atol=1e-5)


def test_input_that_the_model_ignores_gets_exact_zeros():
    x = (flat_points(3, 2), flat_points(3, 4, 1).view(3, 2, 2))
    result = explain(lp.Score(lambda a, b: a.prod(1)), x, solver=Polyline())
    assert result.values[0].any() and not result.values[1].any()
    assert result.values[1].shape == x[1].shape


@settings(max_examples=8)
@given(st.integers(0, 1000))
def test_two_implementations_of_one_function_get_equal_attributions(seed):
    """tanh by its module and by exponentials, a linear layer by a loop."""
    net, x = mlp(3, 2, seed).double(), flat_points(3, 3, seed, torch.float64)

    def other(x):
        for layer in net:
            if isinstance(layer, nn.Linear):
                x = torch.stack([(x * row).sum(1) for row in layer.weight], 1) + layer.bias
            else:
                x = 1 - 2 / (torch.exp(2 * x) + 1)
        return x

    a, b = (explain(lp.Score(f, 1), x, 0.2, Polyline()).values for f in (net, other))
    torch.testing.assert_close(a, b)


def test_symmetric_features_get_equal_attributions_on_the_straight_line():
    x = flat_points(4, 2)
    x = torch.stack([x[:, 0], x[:, 0], x[:, 1]], 1)
    result = explain(lp.Score(lambda x: torch.exp(x[:, 0] * x[:, 1]) * x[:, 2] + (x[:, 0] + x[:, 1]).sin()), x, 0.1)
    torch.testing.assert_close(result.values[:, 0], result.values[:, 1])


# ---- the result -----------------------------------------------------------------------------------------------------

PER_EXAMPLE = (
    "completeness_gap", "cancellation", "length", "length_error", "length_ratio", "certificate", "n_gradients",
    "score_change", "n_forwards", "attribution_error",
)  # fmt: skip


@pytest.mark.parametrize("solver", [STRAIGHT, Polyline()])
@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 8}])
@pytest.mark.parametrize("baselines", [None, flat_points(8, 72, 1).view(1, 8, 2, 6, 6)[:, :3]])
def test_every_field_has_its_shape(solver, settings, baselines):
    result = explain(lp.Score(cnn(), torch.tensor([0, 1, 2])), IMAGES, baselines, solver, **settings)
    m = 1 if baselines is None else 3
    for name in PER_EXAMPLE:
        assert getattr(result, name).shape == (3,), name
    assert result.values.shape == IMAGES.shape and result.values.dtype == IMAGES.dtype
    assert len(result.path) == 3 * m and result.path[0].shape[1:] == IMAGES.shape[1:]
    assert len(result.status) == 3 and all(isinstance(s, lp.Status) and s.value for s in result.status)
    assert result.n_gradients.dtype == result.n_forwards.dtype == torch.int64
    assert (result.baseline_spread is None) == (m == 1)
    assert result.method == repr(solver) and result.metric == "Conformal(damping=0.0)"
    assert "Attribution(values=(3, 2, 6, 6)" in repr(result)


@pytest.mark.parametrize("solver", [STRAIGHT, Polyline()])
@pytest.mark.parametrize("metric", [lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Conformal(damping=0.5)])
def test_fields_against_their_definitions(solver, metric):
    x, score = flat_points(20), lp.Score(moons_net(), 1, "softmax")
    result = explain(score, x, 0.5, solver, metric=metric)
    change = score(x) - score(torch.full_like(x, 0.5))
    torch.testing.assert_close(result.score_change, change)
    torch.testing.assert_close(result.completeness_gap, result.values.sum(1) - change, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(result.cancellation, result.values.abs().sum(1) - change.abs(), rtol=1e-4, atol=1e-6)
    assert torch.equal(result.path.start, torch.full_like(x, 0.5)) and torch.equal(result.path.end, x)
    length, line = (torch.tensor(lengths) for lengths in zip(*_dense_lengths(result.path, metric), strict=True))
    error = (result.length - length).abs()
    assert (error <= 0.02 * length).all()  # twice the tolerance
    assert (error <= result.length_error + 1e-3 * length).float().mean() >= 0.9  # an estimate, which a kink can deceive
    # The line is only compared: to 10 %, or to half of the difference where the two are nearer to each other.
    allowed = 0.02 + (1 - length / line).abs().div(2).clamp_max(0.1)
    off = (result.length_ratio * line / length - 1).abs()
    assert (off <= allowed).float().mean() >= 0.9 and (off <= 2 * allowed).all()  # by the same estimate
    assert solver is not STRAIGHT or torch.equal(result.length_ratio, torch.ones(20))
    # Without a clamp: what bounds the score is the metric, not the code.
    assert (length >= change.abs() * (1 - 1e-3)).all() and (result.length >= change.abs() - result.length_error).all()
    torch.testing.assert_close(result.certificate, length / change.abs(), rtol=0.02, atol=0)


def _dense_lengths(path: lp.Path, metric: lp.Metric) -> list[tuple[float, float]]:
    """Length of each path and of the straight line between its ends, by brute force."""

    def softmax(x):
        return moons_net(torch.float64)(x).softmax(1)[:, 1]

    knots = [path[b] for b in range(len(path))]
    return [(dense(softmax, k, metric).length, dense(softmax, k[[0, -1]], metric).length) for k in knots]


@given(st.integers(0, 1000))
def test_no_cancellation_length_bounds_magnitude(seed):
    """L₁ ≥ Σ|A| ≥ |Δf|, on random nets and polylines."""
    x, tolerance = flat_points(3, 2, seed, torch.float64), 1e-4
    score = lp.Score(mlp(2, seed=seed).double(), 0)
    result = explain(score, x, 0.3, Polyline(), metric=lp.NoCancellation(), tolerance=tolerance)
    magnitude, change = result.values.abs().sum(1), result.score_change.abs()
    slack = 1 + 2 * tolerance  # both are measured to the tolerance
    assert (result.length * slack >= magnitude).all() and (magnitude * slack >= change).all()


def test_certificate_is_infinite_without_change_and_nan_without_bound():
    score = lp.Score(lambda x: x[:, 0] - x[:, 1])
    assert explain(score, torch.ones(1, 2)).certificate.tolist() == [math.inf]
    assert explain(score, torch.ones(1, 2), metric=lp.Euclidean()).certificate.isnan().all()
    shortest = explain(score, torch.tensor([[2.0, 1.0]]), metric=lp.RankOne())
    assert shortest.certificate.tolist() == [1.0] and shortest.length.tolist() == [1.0]  # nothing to clamp


def test_longer_path_is_marked():
    bent = explain(lp.Score(lambda x: x[:, 0]), torch.ones(1, 2), solver=Polyline(3.0))
    assert Outcome.LONGER_THAN_LINE in bent.status[0] and bent.length_ratio > 1.01
    assert "× as long as the straight line" in bent.status[0].value and not bent.status[0].ok
    assert Outcome.LONGER_THAN_LINE not in explain(lp.Score(lambda x: x[:, 0]), torch.ones(1, 2)).status[0]


def test_some_length_over_a_line_without_any_is_endless():
    """Where baseline and input are the same point, every detour is longer."""
    result = explain(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), 1.0, Polyline())
    assert result.length_ratio.tolist() == [math.inf] and Outcome.LONGER_THAN_LINE in result.status[0]
    still = explain(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), 1.0)
    assert still.length_ratio.tolist() == [1.0] and Outcome.FLAT in still.status[0] and not still.values.any()


@pytest.mark.parametrize("solver", [STRAIGHT, Polyline()])
@pytest.mark.parametrize(
    "settings", [{}, {"tolerance": None, "n_steps": 8}, {"max_gradients": 40}, {"tolerance": 1e-3}]
)
def test_n_gradients_are_the_rows_that_the_model_differentiated(solver, settings):
    model = Counted(moons_net())
    result = explain(lp.Score(model, 1, "softmax", batch_size=31), flat_points(7), None, solver, **settings)
    assert int(result.n_gradients.sum()) == model.gradient_rows
    assert int(result.n_forwards.sum()) == model.value_rows


@pytest.mark.parametrize("solver", [STRAIGHT, Polyline()])
@pytest.mark.parametrize("budget", [1, 3, 10, 30, 100])
def test_budget_is_never_exceeded(solver, budget):
    x, score = flat_points(3), lp.Score(lambda x: torch.sin(40 * x[:, 0]) * x[:, 1])
    result = explain(score, x, None, solver, max_gradients=budget, tolerance=1e-4)
    segments = 1 if solver is STRAIGHT else 3 + 1  # one gradient each, of the path and of the line, is the least
    assert (result.n_gradients <= max(budget, segments)).all()
    for status in result.status:
        assert Outcome.BUDGET_SPENT in status and f"max_gradients={budget}" in status.value and "raise" in status.value


class Spending:
    """A solver that differentiates `cost(b)` times for example b and then takes the line."""

    def solve(self, score, metric, start, end, run):
        for b in range(len(start)):
            score.gradients(end[[b] * 20 * (b + 1)], torch.tensor([b] * 20 * (b + 1)))
        return lp.Solution(lp.Path.straight(start, end))


def test_budget_is_what_the_solver_left_to_each_example():
    score = lp.Score(lambda x: torch.sin(40 * x[:, 0]) * x[:, 1])
    result = explain(score, torch.ones(3, 2), solver=Spending(), max_gradients=80, tolerance=1e-4)
    assert ((result.n_gradients <= 80) & (result.n_gradients > 40)).all()
    assert "(20 were left of max_gradients=80)" in result.status[2].value


# ---- batches, seeds, baselines --------------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True])
def test_batch_equals_loop(several):
    x, targets = flat_points(5), torch.tensor([0, 1, 1, 0, 1])
    base = flat_points(10, 2, 1).view(5, 2, 2) if several else flat_points(5, 2, 1)
    together = explain(lp.Score(moons_net(), targets, "softmax"), x, base, Polyline())
    for b in range(5):
        score = lp.Score(moons_net(), targets[b : b + 1], "softmax")
        alone = explain(score, x[b : b + 1], base[b : b + 1], Polyline())
        torch.testing.assert_close(together.values[b], alone.values[0], rtol=1e-3, atol=1e-5)
        for name in ("length", "completeness_gap", "cancellation", "length_ratio"):
            torch.testing.assert_close(getattr(together, name)[b], getattr(alone, name)[0], rtol=1e-3, atol=1e-5)
        assert together.n_gradients[b] == alone.n_gradients[0]
        assert together.status[b].outcomes == alone.status[0].outcomes


@pytest.mark.parametrize(
    "solver", [STRAIGHT, lp.NeighborGraph(flat_points(40, 4, 3).clamp(-2, 2), 6)], ids=["straight", "shared graph"]
)
@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_large_logits_of_one_example_leave_the_others_alone(solver, order):
    """Batch equals loop: one example's logits are a million times as large, and so is what they round by."""

    def model(x):
        logits = torch.sin(4 * x[:, :3]) @ torch.tensor([[0.9, 0.2, -0.7], [0.4, -1.1, 0.3], [-0.5, 0.8, 0.6]])
        return logits + 1e6 * torch.relu(x[:, 3:] - 3) @ torch.tensor([[1.0, 0.5, 0.0]])

    x = torch.tensor([[1.0, 0.7, 1.3, 0.0], [1.0, 0.7, 1.3, 4.0]])[order]
    score, small = lp.Score(model, 0, "log_softmax"), order.index(0)
    together, alone = explain(score, x, solver=solver), explain(score, x[small : small + 1], solver=solver)
    assert together.status[small].outcomes == alone.status[0].outcomes and Outcome.REACHED in alone.status[0]
    torch.testing.assert_close(together.values[small], alone.values[0], rtol=1e-3, atol=1e-5)


def test_several_baselines_equal_the_mean_and_spread_of_single_ones():
    """In double precision: the error control's choices near a threshold follow the rounding of a batch."""
    x, base = flat_points(4).double(), flat_points(12, 2, 1).view(4, 3, 2).double()
    score = lp.Score(moons_net(torch.float64), torch.tensor([0, 1, 1, 0]), "softmax")
    several = explain(score, x, base)
    singles = [explain(score, x, base[:, j]) for j in range(3)]
    values = torch.stack([s.values for s in singles])
    torch.testing.assert_close(several.values, values.mean(0), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(several.baseline_spread, values.std(0), rtol=1e-4, atol=1e-6)
    for name in ("completeness_gap", "cancellation", "length", "certificate", "score_change", "length_ratio"):
        mean = torch.stack([getattr(s, name) for s in singles]).mean(0)
        torch.testing.assert_close(getattr(several, name), mean, rtol=1e-4, atol=1e-6)
    assert torch.equal(several.n_gradients, sum(s.n_gradients for s in singles))
    assert torch.equal(several.path[4], singles[1].path[1])  # row b · m + j
    assert torch.equal(several.path.start.view(4, 3, 2), base)


def test_status_of_several_baselines_shows_what_needs_a_look():
    """One of three baselines lies behind a jump."""
    score = lp.Score(lambda x: (x[:, 0] > 0.5).to(x) + x.sum(1))
    base = torch.tensor([[[0.9, 0.0], [0.0, 0.0], [0.8, 0.0]]])
    status = explain(score, torch.ones(1, 2), base).status[0]
    assert status.outcomes == (Outcome.UNDECIDED, Outcome.UNRESOLVED, Outcome.REACHED) and not status.ok
    assert "from 1 of 3 baselines" in status.value.lower() and "from 2 of 3 baselines" in status.value.lower()


def test_several_baselines_of_tuple_inputs():
    x = (flat_points(2, 2), flat_points(2, 3, 1))
    base = (flat_points(6, 2, 2).view(2, 3, 2), 0.5)
    score = lp.Score(lambda a, b: a.prod(1) * b.sum(1))
    several = explain(score, x, base, tolerance=1e-4)
    singles = [explain(score, x, (base[0][:, j], 0.5), tolerance=1e-4) for j in range(3)]
    for i in range(2):
        values = torch.stack([s.values[i] for s in singles])
        torch.testing.assert_close(several.values[i], values.mean(0), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(several.baseline_spread[i], values.std(0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("baseline", [0.0, 0, (None, None), (0.0, torch.zeros(1, 3)), (0.0,)])
def test_baselines_of_tuples_in_all_forms_equal_zeros(baseline):
    x, score = (flat_points(2, 2), flat_points(2, 3, 1)), lp.Score(lambda a, b: a.prod(1) * b.sum(1))
    expected, result = explain(score, x), explain(score, x, baseline)
    assert all(torch.equal(a, b) for a, b in zip(expected.values, result.values, strict=True))


# ---- precision ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "allowed"),
    # The reference is exact; what is allowed is the tolerance plus what the model's own rounding does to gradients.
    [(torch.float64, 0.01), (torch.float32, 0.01), (torch.float16, 0.02), (torch.bfloat16, 0.06)],
)
@pytest.mark.parametrize("output", ["raw", "log_softmax"])
def test_model_precision_against_float64(dtype, allowed, output):
    model, x = mlp().to(dtype), flat_points(4, 4, dtype=dtype)
    result = explain(lp.Score(model, torch.tensor([0, 1, 2, 0]), output), x)
    exact = explain(lp.Score(model.double(), torch.tensor([0, 1, 2, 0]), output), x.double(), tolerance=1e-8)
    assert result.values.dtype == dtype and result.completeness_gap.dtype == torch.promote_types(dtype, torch.float32)
    error = (result.values.double() - exact.values).abs().sum(1) / exact.values.abs().sum(1)
    assert (error <= allowed).all()
    assert all(Outcome.REACHED in s for s in result.status)


def test_autocast_is_respected():
    model, x = mlp(), flat_points(4, 4)
    exact = explain(lp.Score(model.double(), 1), x.double()).values
    model.float()
    seen = []
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        result = explain(lp.Score(model, 1), x)
    assert set(seen) == {torch.bfloat16} and result.values.dtype == torch.float32
    assert ((result.values - exact).abs().sum(1) <= 0.06 * exact.abs().sum(1)).all()  # bfloat16 holds 3 digits at most
    assert all(Outcome.REACHED in s for s in result.status)


def test_autocast_within_inference_mode():
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert explain(lp.Score(mlp(), 1), flat_points(4, 4)).values.any()


@pytest.mark.parametrize(
    "solver",
    [
        STRAIGHT,
        Polyline(),
        lp.NeighborGraph(flat_points(30, 3), 5),
        lp.NeighborGraph(flat_points(30, 3), 5, refine=True),
    ],
    ids=["straight", "polyline", "graph", "refined"],
)
def test_a_metric_over_a_trainable_module_leaves_no_graph(solver):
    """Against the same metric over frozen modules."""
    nets = seeded(lambda: nn.Linear(3, 2)).eval(), seeded(lambda: nn.Linear(2, 3)).eval()

    def explained():
        metric = lp.Mixed(lp.Conformal(), lp.Reconstruction(*nets, scale=0.5), 0.5)
        return explain(lp.Score(mlp(3), 1), flat_points(2, 3, 7), solver=solver, metric=metric)

    trainable = explained()
    assert not any(getattr(trainable, name).requires_grad for name in ("values", "length", "length_ratio"))
    for net in nets:
        net.requires_grad_(False)
    assert torch.equal(trainable.length, explained().length)


def test_tuple_of_two_precisions_keeps_both():
    x = (flat_points(2, 2), flat_points(2, 3, 1, torch.float64))
    result = explain(lp.Score(lambda a, b: a.double().prod(1) * b.sum(1)), x)
    assert [v.dtype for v in result.values] == [torch.float32, torch.float64]


# ---- the geometry of another score ----------------------------------------------------------------------------------


class Leaning:
    """A solver whose paths lean along the gradient at their middle: another score has another path."""

    def solve(self, score, metric, start, end, run) -> lp.Solution:
        middle = torch.lerp(start, end, 0.5)
        lean = score.gradients(middle, torch.arange(len(start)))[1]
        return lp.Solution(lp.Path.polyline(torch.stack([start, middle + 0.1 * lean, end], 1)))


def test_the_path_is_that_of_the_geometry_and_the_values_are_of_the_score():
    model, x = mlp(), flat_points(3, 4)
    score, margin = (lp.Score(model, 1, output) for output in ("softmax", "logit_margin"))
    result = explain(score, x, solver=Leaning(), geometry=margin)
    assert torch.equal(result.path.points, explain(margin, x, solver=Leaning()).path.points)
    assert not torch.equal(result.path.points, explain(score, x, solver=Leaning()).path.points)
    along = lp.integrate(score, result.path)
    torch.testing.assert_close(result.values, along.values)
    torch.testing.assert_close(result.score_change, score(x) - score(torch.zeros_like(x)))
    torch.testing.assert_close(result.length, along.length)
    assert result.geometry == repr(margin) and explain(score, x).geometry == repr(score)


def test_geometry_by_the_name_of_an_output():
    model, x, targets = mlp(), flat_points(3, 4), torch.tensor([2, 0, 1])
    score, margin = (lp.Score(model, targets, output) for output in ("log_softmax", "logit_margin"))
    named = explain(score, x, solver=Leaning(), geometry="logit_margin")
    given = explain(score, x, solver=Leaning(), geometry=margin)
    assert torch.equal(named.values, given.values) and named.geometry == given.geometry
    with pytest.raises(ValueError, match="output='margin' is unknown"):
        explain(score, x, geometry="margin")


def test_one_budget_for_the_geometry_and_the_score():
    model, x = Counted(mlp()), flat_points(3, 4)
    result = explain(lp.Score(model, 1, "softmax"), x, solver=Leaning(), geometry="logit_margin", max_gradients=30)
    assert model.gradient_rows == int(result.n_gradients.sum()) and (result.n_gradients <= 30).all()
    assert result.stats["solver_gradients"].tolist() == [1, 1, 1]


def test_geometry_of_another_layer_is_refused():
    model, ids = seeded(TextNet).eval(), torch.tensor([[1, 2, 3]])
    score, other = (lp.Score(model, 1, layer=layer) for layer in (model.embedding, model.mix))
    with pytest.raises(ValueError, match=r"geometry lives in \(3, 8\), the score in \(3, 4\): both must have"):
        explain(score, ids, solver=Leaning(), geometry=other)
    with pytest.raises(ValueError, match=r"geometry=3 is not a geometry: pass one, as in geometry=lp\.Score"):
        explain(score, ids, geometry=3)


def test_several_baselines_by_name_are_their_tensors():
    images, score = IMAGES.sigmoid(), lp.Score(cnn(), 1)
    named = explain(score, images, lp.baselines.several("black", "mean", 0.5))
    mean = images.mean((2, 3), keepdim=True).expand_as(images)
    tensors = torch.stack([torch.zeros_like(images), mean, torch.full_like(images, 0.5)], 1)
    given = explain(score, images, tensors)
    assert torch.equal(named.values, given.values) and torch.equal(named.baseline_spread, given.baseline_spread)


# ---- interruption and errors ----------------------------------------------------------------------------------------


def test_interruption_in_the_integral_returns_a_result():
    calls = []

    def model(x):
        if torch.is_grad_enabled():
            calls.append(len(x))
            if len(calls) == 3:
                raise KeyboardInterrupt
        return torch.sin(40 * x[:, 0]) * x[:, 1]

    for solver in (STRAIGHT, Polyline()):
        calls.clear()
        result = explain(lp.Score(model), torch.ones(2, 2), solver=solver, on_interrupt="return")
        assert all(Outcome.INTERRUPTED in s and not s.ok for s in result.status)
        assert result.values.isfinite().all() and result.length_ratio.isfinite().all()


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 8}], ids=["tolerance", "fixed steps"])
def test_interruption_at_the_line_keeps_the_path_and_its_attributions(settings):
    """Against the same call without an interruption: only the comparison with the line is missing."""
    calls, at = [], 0

    def model(x):
        calls.append(1) if torch.is_grad_enabled() else None
        if len(calls) == at and torch.is_grad_enabled():
            raise KeyboardInterrupt
        return torch.sin(3 * x).prod(1)

    whole = explain(lp.Score(model), torch.ones(2, 2), solver=Polyline(), **settings)
    calls.clear()
    lp.integrate(lp.Score(model), whole.path, **settings)
    at = len(calls) + 1  # the first look at the line
    calls.clear()
    result = explain(lp.Score(model), torch.ones(2, 2), solver=Polyline(), on_interrupt="return", **settings)
    assert torch.equal(result.values, whole.values) and torch.equal(result.length, whole.length)
    assert result.length_ratio.isnan().all() and "Attribution(" in repr(result)
    for status in result.status:
        assert Outcome.INTERRUPTED in status and "longer than the straight line is not known" in status.value


def test_an_interruption_ends_a_loop_and_carries_the_result():
    """Against `on_interrupt="return"`."""

    def result(**how):
        return explain(lp.Score(Interrupting(wave, 3, only_gradients=True)), torch.ones(2, 2), solver=STRAIGHT, **how)

    finished = 0
    with pytest.raises(KeyboardInterrupt) as stop:
        for _ in range(3):
            result()
            finished += 1
    assert finished == 0 and isinstance(stop.value, lp.Interrupted)
    assert torch.equal(stop.value.result.values, result(on_interrupt="return").values)
    with pytest.raises(ValueError, match=r"on_interrupt='ask' is unknown: use one of .*'raise', 'return'"):
        result(on_interrupt="ask")


class Pondering:
    """A solver that differentiates and then bends its path."""

    def solve(self, score, metric, start, end, run):
        score.gradients(end, torch.arange(len(end)))
        return lp.Solution(Polyline().solve(score, metric, start, end, run).path, never_longer=True)


@pytest.mark.parametrize("settings", [{}, {"tolerance": None, "n_steps": 8}], ids=["tolerance", "fixed steps"])
def test_interruption_at_the_first_look_keeps_the_path_that_was_found(settings):
    model = Interrupting(torch.sin, 2, only_gradients=True)
    score = lp.Score(lambda x: model(x).prod(1))
    result = explain(score, torch.ones(2, 2), solver=Pondering(), on_interrupt="return", **settings)
    assert torch.equal(result.path[0], explain(lp.Score(separable), torch.ones(2, 2), solver=Polyline()).path[0])
    for name in ("values", "length", "length_ratio", "certificate", "completeness_gap"):
        assert getattr(result, name).isnan().all()
    assert all(Outcome.INTERRUPTED in s for s in result.status) and "nan" in repr(result)
    assert (result.n_gradients > 1).all()  # what was begun is counted too


class Drifting:
    def solve(self, score, metric, start, end, run):
        return lp.Solution(lp.Path.straight(start, end + 1e-6))


def test_solver_that_moves_the_ends_is_refused():
    with pytest.raises(RuntimeError, match="Drifting returned paths that do not begin and end where"):
        explain(lp.Score(lambda x: x.sum(1)), torch.ones(2, 2), solver=Drifting())


def test_score_must_be_a_score():
    with pytest.raises(
        ValueError, match=r"score is a Sequential, expected a Score: attribute\(lp.Score\(model, target\)"
    ):
        lp.attribute(mlp(), torch.ones(2, 4))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"max_gradients": 0}, "max_gradients=0 must be at least 1"),
        ({"n_steps": 0}, "n_steps=0 must be at least 1"),
        ({"tolerance": None}, "n_steps is None"),
        ({"tolerance": 2.0}, "tolerance=2.0 must lie between 0 and 1"),
        ({"rule": "simpson"}, "rule='simpson' is unknown"),
    ],
)
def test_settings_are_refused_before_the_solver_works(settings, match):
    class Never:
        def solve(self, *_):
            raise AssertionError("the solver was asked to work for nothing")

    with pytest.raises(ValueError, match=match):
        explain(lp.Score(mlp(), 1), torch.ones(2, 4), solver=Never(), **settings)


def test_a_class_in_place_of_an_instance_is_refused():
    score = lp.Score(lambda x: x.sum(1))
    with pytest.raises(ValueError, match="StraightLine is a class: pass an instance"):
        lp.attribute(score, torch.ones(1, 2), method=lp.StraightLine)
    with pytest.raises(ValueError, match="metric is the class RankOne"):
        lp.attribute(score, torch.ones(1, 2), metric=lp.RankOne)


def test_what_is_no_solver_or_metric_is_refused():
    score = lp.Score(lambda x: x.sum(1))
    with pytest.raises(ValueError, match="no method is called 'descent': use one of"):
        lp.attribute(score, torch.ones(1, 2), method="descent")
    with pytest.raises(ValueError, match="metric='conformal' is not a metric"):
        lp.attribute(score, torch.ones(1, 2), metric="conformal")


def test_certificate_of_several_baselines_is_the_mean_of_the_finite_ones():
    """Where one baseline has the input's own score, its certificate is infinite and says nothing of the others."""
    score, x = lp.Score(lambda x: x[:, 0] + 3 * x[:, 1]), torch.ones(1, 2)
    result = lp.attribute(score, x, torch.stack([x, torch.zeros(1, 2)], 1), method=lp.StraightLine())
    torch.testing.assert_close(result.certificate, torch.tensor([20**0.5 / 4]))  # ‖∇f‖ ‖x‖ / |Δf|


@pytest.mark.parametrize(
    ("shape", "baselines", "expected"),
    [
        ((4,), 0.0, "ElasticBand(stiffness=1.0, monotone=True, groups=None"),
        ((21,), 0.0, "StraightLine"),
        ((1, 8, 8), 0.0, "StraightLine"),
        ((1, 16, 20), 0.0, "windows_in_context(quality='default'"),
        ((1, 16, 16), several("black", 0.3), "windows_in_context(quality='default'"),
    ],
)
def test_the_default_is_that_of_the_kind_of_input_and_names_itself(shape, baselines, expected):
    score = lp.Score(lambda x: torch.sigmoid(x.flatten(1).sum(1)))
    assert lp.attribute(score, torch.ones(1, *shape), baselines).method.startswith(expected)


@pytest.mark.parametrize("settings", [{"n_steps": 8}, {"tolerance": 0.1}, {"metric": lp.Euclidean()}])
def test_an_image_with_settings_of_a_path_has_the_line(settings):
    result = lp.attribute(lp.Score(lambda x: x.flatten(1).sum(1)), torch.ones(1, 1, 16, 16), **settings)
    assert result.method.startswith("StraightLine") and result.path is not None


def test_an_image_has_one_knob_and_keeps_shape_dtype_and_baselines():
    score, x = lp.Score(lambda x: x.flatten(1).sum(1)), torch.ones(2, 3, 16, 16, dtype=torch.float64)
    result = lp.attribute(score, x, 0.5, quality="fast", max_gradients=1000)
    assert result.values.shape == x.shape and result.values.dtype == x.dtype
    torch.testing.assert_close(result.score_change, torch.full((2,), 384.0, dtype=torch.float64))
    with pytest.raises(ValueError, match="no setting 'quality'"):
        lp.attribute(score, x, quality="fast", n_steps=10)


def test_the_default_solver_of_tokens_is_the_line():
    model = TextNet().eval()
    result = lp.attribute(lp.Score(model, 0, layer=model.embedding), torch.tensor([[1, 2, 3]]))
    assert result.method.startswith("StraightLine")


# ---- what is measured, and what it costs ----------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [STRAIGHT, lp.ElasticBand(), lp.Descent()])
def test_costs_of_all_parts_add_up(solver):
    model = Counted(moons_net())
    result = explain(lp.Score(model, 1, "softmax"), flat_points(3), flat_points(3, seed=1), solver)
    parts = [result.stats[f"{part}_gradients"] for part in ("solver", "value", "length", "line")]
    assert torch.equal(sum(parts), result.n_gradients) and result.n_gradients.sum() == model.gradient_rows
    assert all((part >= 0).all() for part in parts) and (parts[3] > 0).any() == (not result.path.is_straight.all())


@pytest.mark.parametrize("solver", [STRAIGHT, lp.ElasticBand(), lp.Descent()])
def test_values_alone_are_as_exact_and_cost_less(solver):
    score, x, base = (
        lp.Score(moons_net(torch.float64), 1, "softmax"),
        *flat_points(6, dtype=torch.float64).view(2, 3, 2),
    )
    whole, alone = explain(score, x, base, solver), explain(score, x, base, solver, measure="values")
    for part in ("length", "length_error", "length_ratio", "certificate"):
        assert getattr(alone, part).isnan().all()
    assert (alone.n_gradients <= whole.n_gradients).all() and not alone.stats["line_gradients"].any()
    fine = lp.integrate(score, alone.path, tolerance=None, n_steps=20_000, rule="midpoint")
    assert ((alone.values - fine.values).abs().sum(1) <= 0.011 * fine.values.abs().sum(1)).all()
    assert all("straight line is not known" not in status.value for status in alone.status)


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(ValueError, match="measure='lengths' is unknown"):
        explain(lp.Score(moons_net(), 1), flat_points(1), measure="lengths")


# ---- models that other arguments than the score hold ---------------------------------------------------------------

POINTS = flat_points(30, 4, seed=5)


def _in_training(*layers: nn.Module) -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(4, 4), *layers, nn.Linear(4, 4))).train()


class Behind:
    """A function that hides its model."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)


HOLDERS = {
    "geometry": lambda model: {"method": lp.ElasticBand(), "geometry": lp.Score(model, 1)},
    "encoder of a metric": lambda model: {"metric": lp.Reconstruction(model, lambda z: z, 1.0)},
    "decoder of a metric": lambda model: {"metric": lp.Reconstruction(lambda x: x, model, 1.0)},
    "encoder of a solver": lambda model: {"method": lp.Manifold(Behind(model), lambda z: z)},
    "decoder of a solver": lambda model: {"method": lp.Manifold(lambda x: x, Behind(model))},
    "representation": lambda model: {"method": "lpi", "points": POINTS, "represent": model},
}


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("layer", [nn.BatchNorm1d(4), nn.Dropout(0.5)], ids=["batch statistics", "dropout"])
@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_every_model_of_the_users_is_guarded(hold, layer):
    model = _in_training(layer)
    before, state = {name: tensor.clone() for name, tensor in model.state_dict().items()}, torch.get_rng_state()
    with pytest.raises(ValueError, match="rows are not independent"):
        lp.attribute(lp.Score(mlp(), 1), flat_points(3, 4), support=False, **hold(model))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert model.training and not any(module._forward_hooks for module in model.modules())


# ---- every class for the forwards of one ----------------------------------------------------------------------------

EVERY_CLASS = {
    "staircase": ({"n_orders": 2}, {"n_orders": 1, "groups": torch.arange(128).reshape(1, 2, 8, 8) // 16}),
    "occlusion": ({"window": (2, 3, 3)}, {"groups": torch.arange(128).reshape(1, 2, 8, 8) // 16}),
    "rise": ({"n_masks": 40},),
}


@pytest.mark.parametrize("output", ["raw", "softmax", "log_softmax", "sigmoid", "logit_margin"])
@pytest.mark.parametrize("method", EVERY_CLASS)
def test_every_class_is_a_loop_over_targets(method, output):
    """Oracle: one call of the verb for each class; and a model that counts its rows."""
    net = seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(128, 8), nn.Tanh(), nn.Linear(8, 4)).eval())
    inputs, starts = seeded(lambda: torch.rand(2, 2, 8, 8)), seeded(lambda: torch.rand(2, 2, 2, 8, 8))
    for settings_ in EVERY_CLASS[method]:
        counted = Counted(net)
        found = lp.every_class(lp.Score(counted, 0, output), inputs, starts, method=method, seed=3, **settings_)
        rows = counted.value_rows
        each = [
            lp.attribute(lp.Score(net, k, output), inputs, starts, method=method, seed=3, support=False, **settings_)
            for k in range(4)
        ]
        expected = torch.stack([result.values for result in each], 1)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert rows <= int(each[0].n_forwards.sum()) + 8  # one look at the number of classes, and the check of rows
        asked = {"method": method, "seed": 3, "classes": [2, 0], **settings_}
        some = lp.every_class(lp.Score(net, 0, output), inputs, starts, **asked)
        torch.testing.assert_close(some, found[:, [2, 0]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        ({"method": "integrated_gradients"}, "cannot explain every class at once: use one of .*staircase"),
        ({"classes": [3]}, "are not among the model's 3, 0 to 2"),
        ({"classes": []}, "are not among"),
    ],
)
def test_every_class_says_what_it_cannot(settings_, words):
    with pytest.raises(ValueError, match=words):
        lp.every_class(lp.Score(nn.Linear(4, 3).eval()), torch.ones(1, 4), **settings_)
