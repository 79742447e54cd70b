"""Field: samples against plain autograd, sampled lengths against dense quadrature."""

import pytest
import torch

import leastpath as lp
from helpers import field_of, mlp
from leastpath.solvers.descent.field import LINE_PIECES, PathSamples, line_estimates, segment_estimates
from oracles import SPEEDS, dense

NET = mlp(3).double()
PATHS = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0)).double()  # two polylines of five knots
METRICS = [lp.Conformal(), lp.RankOne(), lp.NoCancellation(), lp.Conformal(0.3)]


def field(metric=None, score=None):
    return field_of(score or lp.Score(NET, 1), PATHS[:, 0], PATHS[:, -1], metric=metric)


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_samples_against_autograd(metric):
    """Position 2.25 is a quarter of the way from the third knot to the fourth."""
    positions = torch.tensor([[0.0, 2.25, 3.5], [1.5, 1.75, 3.999]]).double()
    some = field(metric).sample(PATHS, positions, torch.arange(2))
    for b in range(2):
        for i, at in enumerate(positions[b].tolist()):
            k = int(at)
            x = (PATHS[b, k] + (at - k) * (PATHS[b, k + 1] - PATHS[b, k])).requires_grad_()
            value = NET(x)[1]
            (gradient,) = torch.autograd.grad(value, x)
            step = PATHS[b, k + 1] - PATHS[b, k]
            speed = SPEEDS[type(metric).__name__](gradient[None], step[None], metric.damping)[0]
            found = (some.points, some.steps, some.value, some.gradient, some.speed)
            for part, expected in zip(found, (x, step, value, gradient, speed), strict=True):
                torch.testing.assert_close(part[b, i], expected.detach())


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_sampled_lengths_against_dense_quadrature(metric):
    """One draw is rough; the mean over draws is the length."""
    found, everyone = field(metric), torch.arange(2)
    mean = torch.stack([found.length(PATHS, 12, everyone, draw) for draw in range(200)]).mean(0)
    for b in range(2):
        expected = dense(lambda x: NET(x)[:, 1], PATHS[b], metric, 4000).length
        assert float(mean[b]) == pytest.approx(expected, rel=0.02)


def test_an_example_meets_the_same_numbers_in_any_batch():
    both, alone = field().spread_out(PATHS, 7, draw=3), field().spread_out(PATHS[1:], 7, draw=3)
    for one, other in zip(both, alone, strict=True):
        assert torch.equal(one[1:], other)
    assert not torch.equal(both[0], field().spread_out(PATHS, 7, draw=4)[0])


def test_gradients_are_charged_to_their_rows():
    found = field()
    found.sample(PATHS[1:], torch.tensor([[0.5, 1.5, 2.5]]).double(), torch.tensor([1]))
    assert found.spent.tolist() == [0, 3]


def test_where_the_model_has_no_value_the_ground_is_endless():
    found = field(score=lp.Score(lambda x: x[:, 0].log()))
    points = torch.tensor([[2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]).double()
    assert found.speed(points, torch.ones_like(points), torch.arange(2)).tolist() == [0.5 * 3**0.5, torch.inf]
    assert not found.gradient(points, torch.arange(2))[1][1].any()


def test_segments_by_their_samples_against_means():
    """A repeated knot is no segment, a segment without samples is not known, and one with a bad sample neither."""
    path = torch.cat([PATHS[0, :2], PATHS[0, 1:]])  # the second knot twice: segments 0, (1), 2, 3, 4
    positions = torch.tensor([0.2, 0.7, 2.5, 4.1]).double()
    some = field().sample(path[None], positions[None], torch.arange(1)).row(0)
    number, estimate = segment_estimates(path, some, positions)
    assert number.tolist() == [0, 1, 3]  # of the path without the repeated knot
    torch.testing.assert_close(estimate.attributions[0], some.gradient[:2].mean(0) * (path[1] - path[0]))
    torch.testing.assert_close(estimate.length, torch.stack([some.speed[:2].mean(), some.speed[2], some.speed[3]]))
    assert (float(estimate.low[0]), float(estimate.high[0])) == (
        float(some.value[:2].min()),
        float(some.value[:2].max()),
    )
    some.speed[3] = torch.inf
    assert segment_estimates(path, some, positions)[0].tolist() == [0, 1]


def test_samples_are_put_together_and_taken_apart():
    positions = torch.tensor([[0.5, 1.5, 2.5], [1.0, 2.0, 3.0]]).double()
    some = field().sample(PATHS, positions, torch.arange(2))
    whole = PathSamples.join([some, some])
    assert whole.points.shape == (2, 6, 3) and torch.equal(whole.speed[:, 3:], some.speed)
    room = some.blank(4, 2)
    room.put(torch.tensor([3, 1]), some, torch.arange(2))
    assert torch.equal(room.take(torch.tensor([3, 1])).gradient, some.gradient[:, :2]) and not room.value[0].any()


@pytest.mark.parametrize("n", [2, 4, 9])
def test_every_segment_has_a_position_if_there_are_enough(n):
    """The mean over draws of Σ weight · speed is the length, however positions are spread."""
    found, everyone = field(), torch.arange(2)
    lengths = []
    for draw in range(0, 600, 2):
        positions, weights = found.one_each(PATHS, n, draw)
        assert positions.shape == weights.shape == (2, n)
        assert n < 4 or all(set(row) == {0, 1, 2, 3} for row in positions.floor().long().tolist())
        lengths.append((found.sample(PATHS, positions, everyone).speed * weights).sum(1))
    for b in range(2):
        expected = dense(lambda x: NET(x)[:, 1], PATHS[b], lp.Conformal(), 4000).length
        assert float(torch.stack(lengths).mean(0)[b]) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("n", [4, 16])
def test_pieces_of_a_line_by_their_samples_against_dense_quadrature(n):
    """Pieces cover the line, and what they add comes to the attributions and the length of all of it."""
    lines = PATHS[:, [0, -1]]
    found = field()
    estimates = []
    for draw in range(100):
        positions, _ = found.spread_out(lines, n, draw)
        span, estimate = line_estimates(found.sample(lines, positions, torch.arange(2)))
        estimates.append([part.unflatten(0, (2, -1)).sum(1) for part in estimate[:2]])
    assert len(span) == min(n, LINE_PIECES) and torch.equal(span[1:, 0], span[:-1, 1])
    assert (float(span[0, 0]), float(span[-1, 1])) == (0, 1)
    for b in range(2):
        expected = dense(lambda x: NET(x)[:, 1], lines[b], lp.Conformal(), 4000)
        values, length = (torch.stack(of).mean(0)[b] for of in zip(*estimates, strict=True))
        torch.testing.assert_close(values, expected.values.to(values), rtol=0.02, atol=1e-3)
        assert float(length) == pytest.approx(expected.length, rel=0.02)
