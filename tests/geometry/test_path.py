"""Path against brute force: one Python loop per example."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, strategies as st

from helpers import flat_points
from leastpath import Path


@st.composite
def paths(draw, min_knots=1):
    """Ragged routes through a small shared pool, so that segments are shared, reversed, repeated and degenerate."""
    n_points = draw(st.integers(2, 6))
    routes = draw(
        st.lists(st.lists(st.integers(0, n_points - 1), min_size=min_knots, max_size=6), min_size=1, max_size=5)
    )
    points = flat_points(n_points, draw(st.integers(1, 3)), draw(st.integers(0, 99)), torch.float64)
    return from_routes(points, routes), routes


def from_routes(points, routes) -> Path:
    offsets = torch.tensor([0, *(len(r) for r in routes)]).cumsum(0)
    return Path(points, torch.tensor([i for r in routes for i in r]), offsets)


def walk(knots, fraction):
    """The point at a fraction of a polyline's length, step by step."""
    sizes = [float((b - a).norm()) for a, b in pairwise(knots)]
    left = fraction * sum(sizes)
    for a, b, size in zip(knots[:-1], knots[1:], sizes, strict=True):
        if left <= size and size > 0:
            return a + (b - a) * left / size
        left -= size
    return knots[-1]


@given(paths())
def test_getitem_start_end_against_brute_force(drawn):
    path, routes = drawn
    assert len(path) == len(routes)
    for b, route in enumerate(routes):
        assert torch.equal(path[b], path.points[route])
        assert torch.equal(path.start[b], path.points[route[0]])
        assert torch.equal(path.end[b], path.points[route[-1]])
        assert torch.equal(path[b - len(path)], path[b])
        assert path.n_knots[b] == len(route) and path.is_straight[b] == (len(route) <= 2)


@given(paths(), st.data())
def test_select_against_brute_force(drawn, data):
    path, routes = drawn
    chosen = data.draw(st.lists(st.integers(0, len(routes) - 1), min_size=1, max_size=6))
    selected = path.select(torch.tensor(chosen))
    assert len(selected) == len(chosen)
    for i, b in enumerate(chosen):
        assert torch.equal(selected[i], path[b])


@given(paths(), st.data())
def test_segments_against_brute_force(drawn, data):
    """Every leg is its segment in the direction of its sign, and legs share one exactly when ends and group agree."""
    path, routes = drawn
    groups = torch.tensor(data.draw(st.lists(st.integers(0, 1), min_size=len(routes), max_size=len(routes))))
    segments = path.segments(groups)
    legs = [(b, i, j) for b, route in enumerate(routes) for i, j in pairwise(route)]
    assert segments.leg_example.tolist() == [b for b, _, _ in legs]
    distinct = {}
    for (b, i, j), s, sign in zip(legs, segments.leg_segment.tolist(), segments.leg_sign.tolist(), strict=True):
        ends = (int(segments.tail[s]), int(segments.head[s]))
        assert ends == ((i, j) if sign == 1 else (j, i))
        assert groups[segments.owner[s]] == groups[b]
        assert distinct.setdefault((int(groups[b]), frozenset((i, j))), s) == s
    assert len(segments) == len(distinct) == len(set(distinct.values()))


def test_ragged_polylines_come_back_as_they_were():
    lines = [torch.zeros(2, 3), torch.arange(12.0).view(4, 3)]
    path = Path.ragged(lines)
    assert all(torch.equal(path[b], line) for b, line in enumerate(lines))


def test_segments_without_groups_are_shared_by_all():
    path = from_routes(torch.eye(3), [[0, 1, 2], [2, 1, 0], [0, 1]])
    assert len(path.segments()) == 2
    assert len(path.segments(torch.tensor([0, 1, 0]))) == 4
    assert len(path.segments(torch.tensor([0, 1, 2]))) == 5


@given(paths(), st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_at_against_brute_force(drawn, fractions):
    path, _ = drawn
    at = path.at(torch.tensor(fractions, dtype=torch.float64))
    assert at.shape == (len(path), len(fractions), *path.points.shape[1:])
    for b in range(len(path)):
        expected = torch.stack([walk(path[b], f) for f in fractions])
        torch.testing.assert_close(at[b], expected, rtol=0, atol=1e-9)


@given(paths(min_knots=2), st.integers(2, 9))
def test_resample_keeps_ends_and_lies_on_the_curve(drawn, knots):
    path, _ = drawn
    resampled = path.resample(knots)
    assert resampled.n_knots.tolist() == [knots] * len(path)
    assert torch.equal(resampled.start, path.start) and torch.equal(resampled.end, path.end)
    for b in range(len(path)):
        expected = torch.stack([walk(path[b], i / (knots - 1)) for i in range(knots)])
        torch.testing.assert_close(resampled[b], expected, rtol=0, atol=1e-9)


@given(paths(), st.integers(1, 5))
def test_subdivide_against_brute_force(drawn, pieces):
    path, _ = drawn
    divided = path.subdivide(pieces)
    for b in range(len(path)):
        knots = path[b]
        expected = [a + (c - a) * k / pieces for a, c in pairwise(knots) for k in range(pieces)]
        torch.testing.assert_close(divided[b], torch.stack([*expected, knots[-1]]), rtol=0, atol=1e-12)
        assert torch.equal(divided[b][::pieces], knots)


def test_polyline_and_straight_against_their_knots():
    knots = flat_points(6, 8).view(2, 3, 2, 4)
    path = Path.polyline(knots)
    assert all(torch.equal(path[b], knots[b]) for b in range(2))
    line = Path.straight(knots[:, 0], knots[:, 2])
    assert torch.equal(line[1], knots[1, [0, 2]]) and line.is_straight.all() and not path.is_straight.any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_keeps_dtype_and_ends(dtype):
    path = Path.straight(flat_points(2, 3, 0, dtype), flat_points(2, 3, 1, dtype))
    assert path.resample(7).points.dtype == dtype == path.subdivide(3).points.dtype
    assert torch.equal(path.resample(7).end, path.end)


def test_path_is_frozen():
    with pytest.raises(AttributeError):
        Path.straight(torch.zeros(1, 2), torch.ones(1, 2)).points = torch.zeros(2, 2)


ERRORS = {
    "one knot": (
        lambda: Path.polyline(torch.zeros(2, 1, 3)),
        r"shape \(batch, knots ≥ 2, \*features\), got \(2, 1, 3\)",
    ),
    "shapes": (lambda: Path.straight(torch.zeros(2, 3), torch.zeros(2, 4)), r"start \(2, 3\) and end \(2, 4\) differ"),
    "float route": (lambda: Path(torch.eye(2), torch.tensor([0.0, 1.0]), torch.tensor([0, 2])), "pass integer tensors"),
    "short": (lambda: Path(torch.eye(2), torch.tensor([0, 1]), torch.tensor([0, 1])), r"rise from 0 to len\(route\)=2"),
    "late": (lambda: Path(torch.eye(2), torch.tensor([0, 1]), torch.tensor([1, 2])), "offsets must rise from 0"),
    "empty example": (lambda: Path(torch.eye(2), torch.tensor([0, 1]), torch.tensor([0, 0, 2])), "at least one knot"),
    "no such point": (lambda: Path(torch.eye(2), torch.tensor([0, 2]), torch.tensor([0, 2])), "points has 2"),
    "negative point": (lambda: Path(torch.eye(2), torch.tensor([0, -1]), torch.tensor([0, 2])), "visits rows -1 to 0"),
    "resample": (
        lambda: Path.straight(torch.zeros(1, 2), torch.ones(1, 2)).resample(1),
        "knots=1 must be at least 2: .* its two ends",
    ),
    "subdivide": (lambda: Path.straight(torch.zeros(1, 2), torch.ones(1, 2)).subdivide(0), "pieces=0 must be at least"),
}


@pytest.mark.parametrize(("make", "match"), ERRORS.values(), ids=ERRORS)
def test_errors(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize("example", [2, -3])
def test_no_such_example(example):
    with pytest.raises(IndexError, match=f"example {example} of a path with 2 examples"):
        Path.straight(torch.zeros(2, 3), torch.ones(2, 3))[example]


def test_only_keeps_the_first_knot_of_the_others():
    path = Path.polyline(torch.arange(12.0).view(2, 3, 2))
    one = path.only(torch.tensor([False, True]))
    assert one.n_knots.tolist() == [1, 3]
    assert torch.equal(one[0], path[0][:1]) and torch.equal(one[1], path[1])
