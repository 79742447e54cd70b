"""NeighborGraph, EnhancedIG and Graph, against brute force and closed forms."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import leastpath as lp
from helpers import flat_points, mlp, moons_net
from leastpath import Outcome
from leastpath.solvers.graph import neighbors
from leastpath.solvers.graph.edges import EdgeTable
from oracles import dense

METRICS = [lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Euclidean()]
POINTS = flat_points(120, seed=5)
X, BASE = flat_points(6), torch.full((1, 2), -1.5)
SCORE = lp.Score(moons_net(), 1, "log_softmax")


class Backwards:
    """A metric of a user's own, without the model, whose speeds are wrong."""

    needs_gradient = bounds_score = False

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def speed(self, point, gradient, step):
        return self.factor * step.norm(dim=1)


def explain(solver, score=SCORE, inputs=X, baselines=BASE, **rest):
    return lp.attribute(score, inputs, baselines, method=solver, **rest)


@given(st.integers(0, 10_000), st.sampled_from(METRICS[:3]))
@settings(max_examples=15, deadline=None)
def test_certificate_against_dense_quadrature(seed, metric):
    """And at least one, without a clamp."""
    net, target = mlp(2, 3, seed % 7), seed % 3
    result = explain(
        lp.NeighborGraph(flat_points(30, seed=seed), 4),
        lp.Score(net, target, "log_softmax"),
        flat_points(3, seed=seed + 1),
        metric=metric,
    )
    net = net.double()
    for b in range(3):
        length = dense(lambda x: net(x).log_softmax(1)[:, target], result.path[b], metric, 4000).length
        change = abs(float(result.score_change[b]))
        assert length >= change * (1 - 1e-3)
        assert float(result.certificate[b]) == pytest.approx(length / change, rel=0.02)
    assert (result.cancellation >= -result.completeness_gap.abs() - 1e-5).all()


@given(st.permutations(range(40)))
@settings(max_examples=10, deadline=None)
def test_permuting_points_changes_nothing(order):
    points = flat_points(40, seed=9)
    a, b = (explain(lp.NeighborGraph(p, 5)) for p in (points, points[list(order)]))
    torch.testing.assert_close(a.length, b.length, rtol=1e-4, atol=1e-5)
    for i in range(len(X)):
        torch.testing.assert_close(a.path[i], b.path[i])


def test_duplicated_and_collinear_points_work():
    twice = torch.cat([POINTS, POINTS])
    torch.testing.assert_close(
        explain(lp.NeighborGraph(twice, 15)).length, explain(lp.NeighborGraph(POINTS, 15)).length, rtol=1e-3, atol=1e-4
    )
    line = torch.linspace(-2, 2, 30)[:, None].expand(30, 2).contiguous()
    result = explain(lp.NeighborGraph(line, 4))
    assert torch.isfinite(result.length).all() and torch.equal(result.path.end, X)
    same = explain(lp.NeighborGraph(torch.zeros(20, 2), 4))
    assert torch.isfinite(same.length).all()


def test_values_against_a_fine_integral_of_the_same_route():
    result = explain(lp.NeighborGraph(POINTS, 10))
    fine = lp.integrate(SCORE, result.path, tolerance=None, n_steps=20_000, rule="midpoint")
    error = (result.values - fine.values).abs().sum(1)
    assert (error <= 0.015 * fine.values.abs().sum(1) + 1e-4).all()


def test_per_example_targets_against_single_ones():
    targets = torch.tensor([0, 1, 1, 0, 1, 0])
    together = explain(lp.NeighborGraph(POINTS, 10), lp.Score(moons_net(), targets, "log_softmax"))
    for target in (0, 1):
        alone = explain(lp.NeighborGraph(POINTS, 10), lp.Score(moons_net(), target, "log_softmax"))
        for b in (targets == target).nonzero()[:, 0].tolist():
            torch.testing.assert_close(together.path[b], alone.path[b])
            torch.testing.assert_close(together.length[b], alone.length[b], rtol=0.02, atol=1e-3)


# ---- metrics -----------------------------------------------------------------------------------------------------


def test_damping_to_infinity_gives_the_euclidean_route():
    damped = explain(lp.NeighborGraph(POINTS, 8), metric=lp.Conformal(damping=1e12))
    euclidean = explain(lp.NeighborGraph(POINTS, 8), metric=lp.Euclidean())
    for b in range(len(X)):
        assert torch.equal(damped.path[b], euclidean.path[b])


def test_enhanced_ig_is_the_euclidean_graph_measured_in_another_metric():
    enhanced = explain(lp.EnhancedIG(POINTS, 8), metric=lp.Conformal())
    start = BASE.expand_as(X)
    routes = lp.NeighborGraph(POINTS, 8).solve(SCORE.bind(X), lp.Euclidean(), start, X, lp.Run()).path
    for b in range(len(X)):
        assert torch.equal(enhanced.path[b], routes[b])
    assert enhanced.metric == repr(lp.Conformal()) and (enhanced.certificate >= 1).all()


def test_euclidean_edges_cost_no_gradients():
    result = explain(lp.NeighborGraph(POINTS, 8), metric=lp.Euclidean(), tolerance=None, n_steps=10)
    assert int(result.n_gradients.max()) < 60


# ---- reuse -------------------------------------------------------------------------------------------------------


def test_a_built_graph_gives_what_the_solver_gives(tmp_path):
    graph = lp.NeighborGraph(POINTS, 10).build(SCORE, lp.Conformal(), BASE)
    graph.save(tmp_path / "graph.npz")
    expected = explain(lp.NeighborGraph(POINTS, 10))
    for solver in (graph, lp.Graph.load(tmp_path / "graph.npz")):
        result = explain(solver)
        torch.testing.assert_close(result.values, expected.values, rtol=1e-3, atol=1e-3)
        for b in range(len(X)):
            assert torch.equal(result.path[b], expected.path[b])
        assert int(result.n_gradients.sum()) < int(expected.n_gradients.sum())
    assert list(tmp_path.iterdir()) == [tmp_path / "graph.npz"]  # no half-written file stays


def test_kept_edges_of_a_baseline_against_the_change_of_score(tmp_path):
    """Pieces of each edge add up to f(baseline) - f(point); files of versions that kept none can still be read."""
    graph = lp.NeighborGraph(POINTS, 10, n_steps=40).build(SCORE, lp.Conformal(), BASE)
    graph.save(tmp_path / "graph.npz")
    (first,) = (tree.first for tree in graph.trees.values())
    points = torch.unique(first.point)
    found = torch.stack([first.attributions[first.point == point].sum() for point in points])
    torch.testing.assert_close(found, SCORE(BASE) - SCORE(POINTS[points]), rtol=1e-2, atol=1e-2)
    with np.load(tmp_path / "graph.npz") as arrays:
        np.savez(tmp_path / "old.npz", **{name: arrays[name] for name in arrays if "/first/" not in name})
    same, older = (explain(lp.Graph.load(tmp_path / name)) for name in ("graph.npz", "old.npz"))
    expected = explain(graph)
    assert torch.equal(same.values, expected.values) and torch.equal(same.n_gradients, expected.n_gradients)
    torch.testing.assert_close(older.values, expected.values, rtol=1e-2, atol=1e-2)


def test_a_built_graph_serves_all_its_targets():
    score = lp.Score(moons_net(), torch.tensor([0, 1, 1, 0, 1, 0]), "log_softmax")
    graph = lp.NeighborGraph(POINTS, 10).build(score, lp.Conformal())
    torch.testing.assert_close(
        explain(graph, score).length, explain(lp.NeighborGraph(POINTS, 10), score).length, rtol=1e-3, atol=1e-3
    )
    with pytest.raises(ValueError, match=r"built for targets \[1\], not for \[0\]: build it with"):
        explain(lp.NeighborGraph(POINTS, 10).build(SCORE, lp.Conformal()), lp.Score(moons_net(), 0, "log_softmax"))


def test_further_targets_against_a_graph_built_for_all():
    score = lp.Score(moons_net(), torch.tensor([0, 1]), "log_softmax")
    every = lp.NeighborGraph(POINTS, 8).build(score, lp.Conformal())
    one = lp.NeighborGraph(POINTS, 8).build(SCORE, lp.Conformal())
    grown = one.with_targets(score, lp.Conformal())
    assert grown.topology is one.topology and grown.tables[1] is one.tables[1] and set(one.tables) == {1}
    np.testing.assert_array_equal(grown.tables[0].length, every.tables[0].length)
    with pytest.raises(ValueError, match="the graph was built for Conformal"):
        one.with_targets(score, lp.RankOne())


def test_a_second_target_against_a_graph_built_afresh_for_it(monkeypatch):
    searches, trees = [], []
    search, tree = neighbors.neighbor_edges, EdgeTable.tree
    monkeypatch.setattr(neighbors, "neighbor_edges", lambda *a, **k: searches.append(1) or search(*a, **k))
    monkeypatch.setattr(EdgeTable, "tree", lambda *a: trees.append(1) or tree(*a))
    first, second = (lp.Score(moons_net(), target, "log_softmax") for target in (1, 0))
    baselines = torch.tensor([[-0.8, 0.1], [0.3, 0.4]])
    graph = lp.NeighborGraph(POINTS, 8).build(first, lp.Conformal(), baselines)
    grown = graph.with_targets(second, lp.Conformal())
    assert len(searches) == 1 and len(trees) == 4 and set(grown.trees) > set(graph.trees)
    asked = lp.attribute(second, POINTS[:6] + 0.01, baselines[:1], method=grown)
    assert len(searches) == 1 and len(trees) == 4  # no neighbours of points are searched again, and no tree is grown
    fresh = lp.NeighborGraph(POINTS, 8).build(second, lp.Conformal(), baselines)
    expected = lp.attribute(second, POINTS[:6] + 0.01, baselines[:1], method=fresh)
    assert torch.equal(asked.values, expected.values) and torch.equal(asked.length, expected.length)
    assert grown.with_targets(second, lp.Conformal()).trees.keys() == grown.trees.keys() and len(trees) == 6


def test_targets_share_lengths_that_ask_no_model():
    calls = lp.NeighborGraph(POINTS, 8).build(lp.Score(moons_net(), torch.tensor([0, 1])), lp.Euclidean())
    assert calls.tables[0] is calls.tables[1]


def test_one_more_input_searches_the_index_that_is_there(monkeypatch):
    """And touches no array that grows with the graph: neither the points nor their scores are copied."""
    graph = lp.NeighborGraph(POINTS, 8).build(SCORE, lp.Conformal(), BASE)
    first = explain(graph, inputs=X[:1])
    monkeypatch.setattr("leastpath.solvers.graph.edges.flat", lambda points: pytest.fail("the index is built again"))
    again = explain(graph, inputs=X[:1])
    torch.testing.assert_close(again.values, first.values, rtol=0, atol=0)


def test_a_built_graph_refuses_what_it_was_not_built_for(tmp_path):
    graph = lp.NeighborGraph(POINTS, 10).build(SCORE, lp.Conformal())
    with pytest.raises(ValueError, match=r"built for Conformal.*got RankOne"):
        explain(graph, metric=lp.RankOne())
    with pytest.raises(ValueError, match="expected the same features"):
        explain(graph, lp.Score(lambda x: x.sum(1)), torch.zeros(1, 3), None)
    with pytest.raises(ValueError, match=r"built for another score: point .* Build it for this model and output"):
        explain(graph, lp.Score(moons_net(), 1, "softmax"))
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match="is not a saved graph"):
        lp.Graph.load(tmp_path / "other.npz")
    with pytest.raises(ValueError, match="no graph to build"):
        lp.NeighborGraph(generate="line").build(SCORE, lp.Conformal())


# ---- refinement --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS[:3], ids=repr)
def test_refined_routes_are_no_longer_than_the_route_and_the_line(metric):
    plain, refined = (explain(lp.NeighborGraph(POINTS, 8, refine=r), metric=metric) for r in (False, True))
    # Both are measured to 1 %.
    assert (refined.length <= plain.length * 1.02 + 1e-5).all() and (refined.length_ratio <= 1.02).all()
    if not isinstance(metric, lp.RankOne):  # under which every monotone route is a shortest one
        assert float(refined.length.sum()) < float(plain.length.sum())
    assert torch.equal(refined.path.end, X) and torch.equal(refined.path.start, BASE.expand(6, 2))


def test_refinement_is_batch_equals_loop():
    solver = lp.NeighborGraph(POINTS, 8, refine=True)
    together, alone = explain(solver), explain(solver, inputs=X[3:4])
    # Sixty rounds of accepting or refusing steps amplify rounding, which differs with the batch size: paths drift
    # along flat ground, lengths do not.
    torch.testing.assert_close(together.length[3], alone.length[0], rtol=0.02, atol=1e-4)


# ---- a score that is not finite everywhere -----------------------------------------------------------------------


@pytest.mark.parametrize("undefined", [lambda x: x.log(), lambda x: 1 / x.clamp_min(0)], ids=["NaN", "infinite"])
def test_points_without_a_score_take_no_part(undefined, tmp_path):
    """Against the graph without these points, whose edges lead past them all the same."""
    score = lp.Score(lambda x: undefined(x[:, 0] + 1.5) + x[:, 1])
    points = torch.cat([POINTS[POINTS[:, 0] > -1.2], torch.tensor([[-5.0, -5.0], [-5.1, -5.0]])])
    x, base = X.clamp(-1, 1), torch.zeros(1, 2)
    expected = explain(lp.NeighborGraph(points[:-2], 8), score, x, base)
    graph = lp.NeighborGraph(points, 8).build(score, lp.Conformal())
    graph.save(tmp_path / "graph.npz")
    for solver in (lp.NeighborGraph(points, 8), graph, lp.Graph.load(tmp_path / "graph.npz")):
        result = explain(solver, score, x, base)
        for b in range(len(x)):
            assert torch.equal(result.path[b], expected.path[b])
        assert "2 of the graph's" in result.status[0].value and "left out" in result.status[0].value


# ---- budget, interruption, errors --------------------------------------------------------------------------------


def test_a_budget_below_the_graph_gives_the_marked_straight_line():
    result = explain(lp.NeighborGraph(POINTS, 8), max_gradients=100)
    assert all(Outcome.FELL_BACK in s for s in result.status)
    assert "max_gradients=100" in result.status[0].value and "build the graph once" in result.status[0].value
    assert (result.n_gradients <= 100).all() and result.path.is_straight.all()


STEEP = lp.Score(lambda x: torch.sigmoid(200 * (x[:, 0] - x[:, 1] ** 2)))
CLOUD = torch.rand(200, 2, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("spare", [10, 500, 5000])
@pytest.mark.parametrize(
    "solver",
    [
        lp.NeighborGraph(CLOUD, 10),
        lp.NeighborGraph(CLOUD, 10, refine=True),
        lp.NeighborGraph(generate="adaptive", n_points=200, n_neighbors=10),
    ],
    ids=["points", "refined", "adaptive"],
)
def test_edges_that_want_more_steps_stay_within_the_budget(solver, spare):
    """The graph just fits, and half of its edges want five times as many gradients."""
    budget = 2 * (3 * (1280 + 2 * 10) + 100 + spare)
    result = explain(solver, STEEP, torch.ones(2, 2), torch.zeros(1, 2), max_gradients=budget)
    assert (result.n_gradients <= budget).all() and not any(Outcome.FELL_BACK in s for s in result.status)


@pytest.mark.parametrize("budget", [10, 60, 600])
@pytest.mark.parametrize("refine", [False, True])
def test_a_budget_below_generated_points_is_not_spent_on_them(budget, refine):
    solver = lp.NeighborGraph(generate="adaptive", refine=refine)
    result = explain(solver, STEEP, torch.ones(1, 2), torch.zeros(1, 2), max_gradients=budget)
    assert (result.n_gradients <= budget).all() and Outcome.FELL_BACK in result.status[0]


def test_a_built_graph_keeps_within_the_budget():
    graph = lp.NeighborGraph(CLOUD, 10).build(STEEP, lp.Conformal())
    for budget in (40, 150, 400):
        result = explain(graph, STEEP, torch.ones(2, 2), torch.zeros(1, 2), max_gradients=budget)
        assert (result.n_gradients <= budget).all()
        # 40 do not join it to the graph. 150 do, and measure neither route nor line, which takes no route's place then.
        assert ("max_gradients" in result.status[0].value) == (budget < 400)
        assert result.path.is_straight.all() == (budget == 40) and result.length_ratio.isnan().all() == (budget == 150)


def test_a_route_that_is_longer_gives_way_to_the_line():
    """No polyline is shorter than the line in Euclidean length; Enhanced IG keeps its routes all the same."""
    result = explain(lp.NeighborGraph(POINTS, 8), metric=lp.Euclidean())
    routes = lp.NeighborGraph(POINTS, 8).solve(SCORE.bind(X), lp.Euclidean(), BASE.expand_as(X), X, lp.Run()).path
    fell_back = torch.tensor([Outcome.FELL_BACK in status for status in result.status])
    assert result.path.is_straight.all() and torch.equal(fell_back, ~routes.is_straight) and fell_back.any()
    assert (explain(lp.NeighborGraph(POINTS, 8)).length_ratio <= 1.001).all()
    assert torch.equal(explain(lp.EnhancedIG(POINTS, 8)).path.is_straight, routes.is_straight)


def test_blocks_do_not_change_what_is_shortened(monkeypatch):
    """In double precision: a rounding of the order of summation would change which steps shorten the path."""
    score = lp.Score(moons_net(torch.float64), 1, "softmax")

    def explained():
        return explain(lp.NeighborGraph(POINTS.double(), 8, refine=True), score, X.double(), BASE.double())

    whole = explained()
    monkeypatch.setattr("leastpath.solvers.graph.solver.BLOCK_ELEMENTS", 1)
    one_by_one = explained()
    torch.testing.assert_close(whole.path.points, one_by_one.path.points)
    assert torch.equal(whole.n_gradients, one_by_one.n_gradients)


def test_interruption_gives_the_marked_straight_line():
    calls = []

    def interrupted(x):
        if x.requires_grad:
            calls.append(1)
            if len(calls) == 1:
                raise KeyboardInterrupt
        return moons_net()(x)

    with pytest.raises(lp.Interrupted) as stop:
        explain(lp.NeighborGraph(POINTS, 8), lp.Score(interrupted, 1))
    result = stop.value.result
    assert all(Outcome.INTERRUPTED in s for s in result.status) and result.path.is_straight.all()


def test_progress_bar_is_shown(capsys):
    explain(lp.NeighborGraph(POINTS, 8, refine=True), progress=True)
    shown = capsys.readouterr()
    assert "edges" in shown.out + shown.err and "shortening" in shown.out + shown.err


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_refinement_under_any_gradient_mode(mode):
    solver = lp.NeighborGraph(generate="adaptive", n_points=40, n_neighbors=6, refine=True)
    expected = explain(solver, inputs=X[:2])
    with mode():
        result = explain(solver, inputs=X[:2].clone(), baselines=BASE.clone())  # special tensors under inference mode
    assert torch.equal(result.values, expected.values) and torch.equal(result.path.points, expected.path.points)


def test_building_over_a_trainable_metric_leaves_no_graph():
    metric = lp.Reconstruction(torch.nn.Linear(2, 1).eval(), torch.nn.Linear(1, 2).eval(), scale=0.5)
    graph = lp.NeighborGraph(POINTS, 10).build(SCORE, metric, BASE)
    assert not explain(graph, metric=metric).length.requires_grad


def test_images_and_double_precision():
    model = torch.nn.Sequential(torch.nn.Flatten(), mlp(12, 2, activation=torch.nn.ReLU)).double().eval()
    points = flat_points(30, 12, dtype=torch.float64).reshape(30, 3, 2, 2)
    result = lp.attribute(lp.Score(model, 0), points[:3], method=lp.NeighborGraph(points, 5))
    assert result.values.shape == (3, 3, 2, 2) and result.values.dtype == torch.float64


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lp.NeighborGraph, "give either points or generate"),
        (lambda: lp.NeighborGraph(POINTS, generate="line"), "give either points or generate"),
        (lambda: lp.NeighborGraph(POINTS, 120), "n_neighbors=120 for 120 points, expected 1 to 119"),
        (lambda: lp.NeighborGraph(POINTS, 0), "n_neighbors=0 must be at least 1"),
        (lambda: lp.NeighborGraph(POINTS.numpy(), 5), "points is a ndarray, expected a tensor"),
        (lambda: lp.NeighborGraph(generate="circle"), "generate='circle' is unknown"),
        (lambda: lp.NeighborGraph(POINTS, search="magic"), "search='magic' is unknown"),
        (lambda: lp.NeighborGraph(POINTS, n_steps=0), "n_steps=0 must be at least 1"),
        (lambda: lp.NeighborGraph(POINTS, steiner=0.5), "steiner=0.5 must be above 1"),
        (lambda: lp.EnhancedIG(POINTS, 500), "n_neighbors=500"),
        (lambda: explain(lp.NeighborGraph(flat_points(30, 3), 4)), "expected the same features"),
        (lambda: lp.NeighborGraph(POINTS * torch.nan, 4), "hold NaN or infinite values"),
        (lambda: lp.NeighborGraph(POINTS.double() * 1e200, 4), "hold values above 1e\\+150, whose distances overflow"),
        (lambda: explain(lp.NeighborGraph(POINTS, 4), metric=Backwards(-1.0)), "Backwards.speed returned .*negative"),
        (lambda: explain(lp.NeighborGraph(POINTS, 4), metric=Backwards(torch.nan)), "Backwards.speed returned NaN"),
    ],
)
def test_errors_say_what_to_do(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


# ---- metrics of the data ------------------------------------------------------------------------------------------


def arc_of_data() -> torch.Tensor:
    """Around the upper half of the unit circle, whose two ends are (−1, 0) and (1, 0)."""
    noise = 0.05 * flat_points(300, 2, 5)
    angle = torch.linspace(0, torch.pi, 300)
    return torch.stack([angle.cos(), angle.sin()], 1) + noise


@pytest.mark.parametrize("solver", ["graph", "refined", "descent"])
def test_data_metric_bends_the_path_onto_the_data(solver):
    """Alone and mixed with a nearly flat model: the geodesic is the arc."""
    data = arc_of_data()
    solver = {
        "graph": lp.NeighborGraph(data, 10),
        "refined": lp.NeighborGraph(generate="sobol", n_points=150, spread=0.6, refine=True),
        "descent": lp.Descent(max_gradients=3000),
    }[solver]
    score = lp.Score(lambda x: torch.sigmoid(4 * x[:, 0] + 2 * x[:, 1]))
    x, base = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0]])
    for metric in (lp.DataDensity(data), lp.Mixed(lp.Conformal(), lp.DataDensity(data), 0.3)):
        result = lp.attribute(score, x, base, method=solver, metric=metric)
        points = result.path.at(torch.linspace(0, 1, 50))[0]
        assert (points.norm(dim=1) - 1).abs().mean() < 0.06 and float(result.length_ratio) < 0.5


# ---- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"no graph", b"PK\x03\x04 cut off", b"\x93NUMPY"])
def test_loading_something_else_is_a_clear_error(content, tmp_path):
    (tmp_path / "graph.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"is not a saved graph: expected a file written by Graph\.save"):
        lp.Graph.load(tmp_path / "graph.npz")


def test_loading_other_arrays_is_a_clear_error(tmp_path):
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.savez(tmp_path / "some.npz", points=np.zeros(3))
    for name in ("one.npy", "some.npz"):
        with pytest.raises(ValueError, match=f"{name} is not a saved graph"):
            lp.Graph.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        lp.Graph.load(tmp_path / "none.npz")


def test_repr_tells_the_settings_that_play_a_part():
    given, made = repr(lp.NeighborGraph(flat_points(30), 5)), repr(lp.NeighborGraph(generate="line", n_points=40))
    assert given.startswith("NeighborGraph(30 points, n_neighbors=5, refine=False") and "generate" not in given
    assert "n_points" not in given and "spread" not in given
    assert "generate='line'" in made and "n_points=40" in made and "spread=0.25" in made


def test_points_that_make_no_graph():
    with pytest.raises(ValueError, match=r"points have shape \(0, 2\), expected at least two"):
        lp.NeighborGraph(torch.zeros(0, 2))
    with pytest.raises(ValueError, match=r"points have shape \(7,\), expected"):
        lp.NeighborGraph(torch.zeros(7), 2)
    points = flat_points(30)
    points[[4, 9], 1] = torch.nan
    with pytest.raises(ValueError, match=r"2 of 30 points hold NaN .*first: row 4.*points\[points\.isfinite\(\)"):
        lp.NeighborGraph(points)
    good = points[points.isfinite().flatten(1).all(1)]
    assert len(good) == 28 and "28 points" in repr(lp.NeighborGraph(good))
