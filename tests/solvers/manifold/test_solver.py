"""Manifold against closed-form geodesics of known embeddings, and what it promises about ends, notes and modes."""

import math

import pytest
import torch
from torch import Tensor, nn

import leastpath as lp
from helpers import Counted, autoencoder, flat_points, mlp, seeded
from leastpath import Outcome
from leastpath.solvers.manifold.solver import _Curves

SCORE = lp.Score(lambda x: (x**2).sum(1) + x[:, 0])


def sphere(z: Tensor) -> Tensor:
    """Longitude and latitude to the unit sphere."""
    return torch.stack([z[:, 1].cos() * z[:, 0].cos(), z[:, 1].cos() * z[:, 0].sin(), z[:, 1].sin()], 1)


def on_sphere(x: Tensor) -> Tensor:
    return torch.stack([torch.atan2(x[:, 1], x[:, 0]), torch.asin(x[:, 2] / x.norm(dim=1))], 1)


def cylinder(z: Tensor) -> Tensor:
    """An isometry: the plane rolled up, so that straight latent lines are geodesics (helices)."""
    return torch.stack([z[:, 0].cos(), z[:, 0].sin(), z[:, 1]], 1)


def on_cylinder(x: Tensor) -> Tensor:
    return torch.stack([torch.atan2(x[:, 1], x[:, 0]), x[:, 2]], 1)


def solve(solver, start, end, **settings) -> lp.Solution:
    return solver.solve(SCORE.bind(end), lp.Euclidean(), start, end, lp.Run(**settings))


def knots(solution: lp.Solution) -> Tensor:
    return torch.stack([solution.path[b] for b in range(len(solution.path))])


def sphere_ends(dtype=torch.float64) -> tuple[Tensor, Tensor]:
    """Pairs in the north, whose great circles run far from their parallels."""
    z = flat_points(12, 2, 4, dtype).sigmoid()
    return sphere(z[:6] * 1.2), sphere(z[6:] * torch.tensor([-1.0, 1.2], dtype=dtype))


def test_sphere_against_great_circles():
    start, end = sphere_ends()
    solution = solve(lp.Manifold(on_sphere, sphere, tolerance=1e-8), start, end)
    normal = nn.functional.normalize(torch.linalg.cross(start, end), dim=1)
    path = knots(solution)
    assert (path * normal[:, None]).sum(2).abs().max() < 1e-4  # in the plane of both ends and the centre
    arc = torch.acos((start * end).sum(1))
    steps = path.diff(dim=1).norm(dim=2)
    torch.testing.assert_close(steps.sum(1), 2 * 31 * torch.sin(arc / 2 / 31), rtol=1e-6, atol=0)
    assert (solution.stats["energy"] < 0.999 * solution.stats["line_energy"]).any()  # the chart's line was no geodesic


def test_cylinder_against_its_helix():
    """On an isometry the latent line is the geodesic already: length √(Δangle² + Δheight²), and nothing moves."""
    z = torch.tensor([[[0.1, 0.0], [2.5, 1.0]], [[-1.0, 2.0], [1.5, -1.0]]])
    start, end = cylinder(z[:, 0]), cylinder(z[:, 1])
    solution = solve(lp.Manifold(on_cylinder, cylinder), start, end)
    line = torch.lerp(z[:, :1], z[:, 1:], torch.linspace(0, 1, 32)[None, :, None])
    torch.testing.assert_close(solution.stats["latent"], line, rtol=0, atol=1e-4)
    length = knots(solution).diff(dim=1).norm(dim=2).sum(1)
    turn, rise = (z[:, 1] - z[:, 0]).abs().unbind(1)
    torch.testing.assert_close(length, 31 * torch.sqrt((2 * torch.sin(turn / 62)) ** 2 + (rise / 31) ** 2))


def test_linear_decoder_gives_the_straight_line():
    w = flat_points(2, 5, 1)
    pinv = torch.linalg.pinv(w)
    start, end = flat_points(3, 2, 2) @ w, flat_points(3, 2, 3) @ w
    path = knots(solve(lp.Manifold(lambda x: x @ pinv, lambda z: z @ w), start, end))
    t = torch.linspace(0, 1, 32)[None, :, None]
    torch.testing.assert_close(path[:, 1:-1], torch.lerp(start[:, None], end[:, None], t), rtol=0, atol=1e-4)
    result = lp.attribute(SCORE, end, start, method=lp.Manifold(lambda x: x @ pinv, lambda z: z @ w), tolerance=1e-3)
    line = lp.attribute(SCORE, end, start, method=lp.StraightLine(), tolerance=1e-3)
    torch.testing.assert_close(result.values, line.values, rtol=1e-2, atol=1e-2)


def test_stretched_latent_space_changes_nothing():
    """Geodesics do not depend on coordinates: θ ↦ θ³ as latent variable gives evenly spaced points of the circle."""
    decode = lambda z: torch.cat([(z**3).cos(), (z**3).sin()], 1)  # noqa: E731
    encode = lambda x: torch.atan2(x[:, 1:], x[:, :1]) ** (1 / 3)  # noqa: E731
    start, end = (torch.tensor([[math.cos(a), math.sin(a)]], dtype=torch.float64) for a in (0.2, 2.0))
    path = knots(solve(lp.Manifold(encode, decode, tolerance=1e-9), start, end))[0, 1:-1]
    angle = torch.atan2(path[:, 1], path[:, 0])
    torch.testing.assert_close(angle, torch.linspace(0.2, 2.0, 32, dtype=torch.float64), rtol=0, atol=1e-3)


def test_batch_equals_loop():
    start, end = sphere_ends(torch.float32)
    solver = lp.Manifold(on_sphere, sphere, n_knots=12, tolerance=1e-5)
    together = knots(solve(solver, start, end))
    for b in range(len(start)):
        alone = knots(solve(solver, start[b : b + 1], end[b : b + 1]))
        torch.testing.assert_close(together[b], alone[0], rtol=1e-4, atol=1e-4)


def test_blocks_equal_one_block(monkeypatch):
    start, end = sphere_ends()
    whole = solve(lp.Manifold(on_sphere, sphere), start, end)
    monkeypatch.setitem(lp.Manifold.solve.__globals__, "BLOCK_ELEMENTS", 2 * 32 * 3)
    parts = solve(lp.Manifold(on_sphere, sphere), start, end)
    torch.testing.assert_close(knots(parts), knots(whole))
    assert parts.stats["latent"].shape == (6, 32, 2) and len(parts.notes) == 6


def test_ends_are_exact_and_joined_by_straight_pieces():
    """Ends at radius 4 and 2 are rebuilt at radius 1: the pieces are 3 and 1 long, and the status says so."""
    start, end = sphere_ends()
    result = lp.attribute(SCORE, 2 * end, 4 * start, method=lp.Manifold(on_sphere, sphere))
    assert torch.equal(result.path.start, 4 * start) and torch.equal(result.path.end, 2 * end)
    path = torch.stack([result.path[b] for b in range(6)])
    torch.testing.assert_close(path[:, 1], start)
    torch.testing.assert_close(path[:, -2], end)
    total = path.diff(dim=1).norm(dim=2).sum(1)
    shares = torch.stack([3 / total, 1 / total], 1)
    torch.testing.assert_close(result.stats["end_share"], shares)
    assert f"takes {shares[0, 0]:.0%} and {shares[0, 1]:.0%} of the path" in result.status[0].value
    assert "fit it better" in result.status[0].value and (shares.sum(1) > 0.5).all()
    assert "fit it better" not in lp.attribute(SCORE, end, start, method=lp.Manifold(on_sphere, sphere)).status[0].value


def test_decoder_gradients_are_not_the_models():
    model = Counted(lambda x: x.prod(1))
    start, end = sphere_ends()
    result = lp.attribute(lp.Score(model), end, start, method=lp.Manifold(on_sphere, sphere))
    assert int(result.n_gradients.sum()) == model.gradient_rows


def test_modules_keep_mode_gradients_and_dtype():
    """A float32 autoencoder serves float64 inputs, and is left as it was."""
    encoder, decoder = mlp(3, 2, 1), mlp(2, 3, 2)
    decoder(torch.zeros(1, 2)).sum().backward()
    before = [p.grad.clone() for p in decoder.parameters()]
    result = lp.attribute(SCORE, flat_points(2, 3, 1, torch.float64), method=lp.Manifold(encoder, decoder))
    assert result.values.dtype == torch.float64 and result.path.points.isfinite().all()
    assert all(torch.equal(p.grad, g) for p, g in zip(decoder.parameters(), before, strict=True))
    assert all(p.grad is None for p in encoder.parameters())


def test_image_shapes_and_tuple_encoders():
    encode = lambda x: (x.flatten(1)[:, :2], None)  # noqa: E731
    decode = lambda z: nn.functional.pad(z, (0, 6)).view(-1, 2, 2, 2)  # noqa: E731
    x = flat_points(3, 8).view(3, 2, 2, 2)
    result = lp.attribute(lp.Score(lambda x: x.flatten(1).sum(1)), x, method=lp.Manifold(encode, decode, n_knots=5))
    torch.testing.assert_close(result.values, x, rtol=1e-3, atol=1e-4)
    assert result.path[0].shape == (7, 2, 2, 2)


def test_budget_makes_curves_coarser_and_then_straight():
    start, end = sphere_ends()
    for budget, count in ((60, 21), (9, 2)):
        result = lp.attribute(SCORE, end, start, method=lp.Manifold(on_sphere, sphere), max_gradients=budget)
        assert (result.n_gradients <= budget).all() and len(result.path[0]) == count
    assert Outcome.BUDGET_SPENT in result.status[0] and "raise it" in result.status[0].value


def test_unfinished_curves_say_so():
    start, end = sphere_ends()
    notes = solve(lp.Manifold(on_sphere, sphere, n_iterations=1, tolerance=1e-9), start, end).notes
    assert all(said[0].outcome is Outcome.NOT_CONVERGED and "1 iterations" in said[0].sentence for said in notes)


def test_interruption_keeps_the_best_so_far(monkeypatch):
    start, end = sphere_ends()
    calls = []

    def decode(z):
        calls.append(len(z))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return sphere(z)

    monkeypatch.setitem(lp.Manifold.solve.__globals__, "BLOCK_ELEMENTS", 3 * 32 * 3)
    solution = solve(lp.Manifold(on_sphere, decode, tolerance=1e-9), start, end)
    outcomes = [[note.outcome for note in said] for said in solution.notes]
    assert all(Outcome.INTERRUPTED in said for said in outcomes)
    assert torch.equal(solution.path.end, end)
    assert (solution.stats["energy"][:3] < solution.stats["line_energy"][:3]).any()


def test_undefined_decoder_falls_back_for_its_example_only():
    def decode(z):
        return torch.where((z[:, :1] > 0.5) & (z[:, :1] < 1), torch.nan, cylinder(z))

    start, end = cylinder(torch.tensor([[0.0, 0.0], [0.0, 0.0]])), cylinder(torch.tensor([[1.5, 0.0], [-1.5, 0.0]]))
    result = lp.attribute(SCORE, end, start, method=lp.Manifold(on_cylinder, decode))
    assert Outcome.FELL_BACK in result.status[0] and "NaN or infinite" in result.status[0].value
    assert Outcome.FELL_BACK not in result.status[1] and result.path.n_knots.tolist() == [2, 34]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: lp.Manifold(3, sphere), "encoder=3 is not a function"),
        (lambda: lp.Manifold(on_sphere, nn.Linear), "is not a function: Manifold"),
        (lambda: lp.Manifold(on_sphere, sphere, n_knots=2), "n_knots=2 must be at least 3"),
        (lambda: lp.Manifold(on_sphere, sphere, tolerance=0), "tolerance=0 must be positive"),
    ],
)
def test_bad_settings(change, words):
    with pytest.raises(ValueError, match=words):
        change()


@pytest.mark.parametrize(
    ("encoder", "decoder", "words"),
    [
        (lambda x: x.sum(), sphere, r"the encoder returned .* for points"),
        (lambda x: None, sphere, r"the encoder returned NoneType"),
        (on_sphere, lambda z: z, r"the decoder returned \(\d+, 2\), expected \(\d+, 3\)"),
        (on_sphere, lambda z: (z,), "the decoder returned"),
        (seeded(lambda: nn.Linear(3, 2)).train(), sphere, r"the encoder is in training mode.*encoder\.eval\(\)"),
    ],
)
def test_bad_autoencoders(encoder, decoder, words):
    with pytest.raises(ValueError, match=words):
        lp.attribute(SCORE, flat_points(2, 3), method=lp.Manifold(encoder, decoder))


def test_energy_gradient_against_finite_differences():
    start, end = sphere_ends()
    curves = _Curves(lp.Manifold(on_sphere, sphere), 6, start, end, False)
    rows = torch.arange(6)
    inner = curves.search.x + 0.1 * flat_points(48, 1, 5, torch.float64).view(6, 4, 2)
    _, gradient = curves._energy(inner, rows)
    move = flat_points(48, 1, 6, torch.float64).view(6, 4, 2)
    ahead, behind = (curves._energy(inner + h * move, rows)[0] for h in (1e-6, -1e-6))
    torch.testing.assert_close((gradient * move).sum((1, 2)), (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-8)


def test_a_stuck_search_is_not_told_to_go_on():
    """A decoder whose gradient points the wrong way: no step along it makes the curve shorter."""

    def decoder(z):
        point = torch.cat([z, (3 * z).sin()], 1)
        return 2 * point.detach() - point

    solver = lp.Manifold(lambda x: x[:, :1], decoder)
    status = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.tensor([[1.0, 0.1]]), method=solver).status[0]
    assert lp.Outcome.NOT_CONVERGED in status and "No step made the latent curve any shorter" in status.value
    assert "raise n_iterations" not in status.value


@pytest.fixture(scope="module")
def arc() -> Tensor:
    """Two thirds of a tilted circle."""
    angle = torch.linspace(0, 4, 400)
    return torch.stack([angle.cos(), angle.sin(), 0.5 * angle.cos()], 1)


@pytest.fixture(scope="module")
def learnt(arc) -> tuple[nn.Module, nn.Module]:
    return autoencoder(arc)


def test_the_autoencoder_of_these_tests_rebuilds_what_it_has_learnt(learnt, arc):
    encoder, decoder = learnt
    error = (decoder(encoder(arc)) - arc).norm(dim=1).mean()
    assert error < 0.1 * arc.norm(dim=1).mean()


def test_reconstruction_tells_data_from_what_is_off_them(learnt, arc):
    metric = lp.Reconstruction(*learnt, scale=0.1)
    assert metric.error(arc).mean() < 0.3 * metric.error(arc + torch.tensor([0.0, 0.0, 1.0])).mean()


def test_manifold_follows_the_learnt_data(learnt, arc):
    """The decoded geodesic stays nearer the data than the straight line between the arc's ends does."""
    x, base = arc[:1], arc[-1:]
    path = lp.attribute(lp.Score(lambda x: x.sum(1)), x, base, method=lp.Manifold(*learnt)).path
    line = lp.Path.straight(base, x)
    far = [torch.cdist(p.at(torch.linspace(0, 1, 50))[0], arc).amin(1).mean() for p in (path, line)]
    assert far[0] < 0.5 * far[1]
