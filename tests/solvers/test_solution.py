"""What a solver may declare; solutions of parts, joined in the order of the examples, with all that they say."""

from typing import ClassVar

import pytest
import torch

import leastpath as lp
from helpers import Polyline
from leastpath.evaluation import compare
from leastpath.integral.pieces import Estimate, KnownSegments
from leastpath.solvers.solution import chooses_start, join_solutions


class Reverser(Polyline):
    """Declares that it chooses its start, and begins at minus the input."""

    chooses_start: ClassVar[bool] = True

    def solve(self, score, metric, start, end, run):
        return lp.Solution(lp.Path.straight(-end, end))


class Undecided(Polyline):
    chooses_start: ClassVar[bool] = False


@pytest.mark.parametrize(
    ("solver", "expected"),
    [
        (Polyline(), False),
        (Undecided(), False),
        (Reverser(), True),
        (lp.BlurIG(), True),
        (lp.BlurIG, True),
        (None, False),
    ],
)
def test_who_chooses_its_start(solver, expected):
    """A solver with nothing but `solve` says nothing, which means no."""
    assert chooses_start(solver) is expected


def test_a_solver_that_chooses_its_start_gets_no_baselines():
    score, x = lp.Score(lambda x: x[:, 0] ** 3), torch.tensor([[1.0, 2.0]])
    result = lp.attribute(score, x, method=Reverser())
    torch.testing.assert_close(result.values, torch.tensor([[2.0, 0.0]]))
    with pytest.raises(ValueError, match="Reverser chooses its own start, so baselines cannot be given"):
        lp.attribute(score, x, 0.0, method=Reverser())
    found = compare({"reversed": Reverser(), "undecided": Undecided()}, score, x, torch.zeros(1, 2), fail_fast=True)
    assert len(found.per_example) == 2


def part(examples: list[int], offset: float, n_samples: int, note: str = "") -> tuple[torch.Tensor, lp.Solution]:
    """Bent paths from example number to example number + 1, and some more bent elsewhere."""
    start = torch.tensor(examples, dtype=torch.float32)[:, None]

    def bent(by: float) -> lp.Path:
        return lp.Path.polyline(torch.stack([start, start + by, start + 1], 1))

    notes = ((lp.Note(lp.Outcome.SOLVER_NOTE, note),),) * len(examples) if note else None
    samples = tuple(bent(offset + 10 * (k + 1)) for k in range(n_samples))
    return torch.tensor(examples), lp.Solution(bent(offset), notes, {note or "none": 1}, samples=samples)


def test_joined_is_in_the_order_of_the_examples():
    whole = join_solutions([part([2, 0], 0.25, 0, "a"), part([1], 0.75, 0)])
    assert [whole.path[b][:, 0].tolist() for b in range(3)] == [[0, 0.25, 1], [1, 1.75, 2], [2, 2.25, 3]]
    assert [len(said) for said in whole.notes] == [1, 0, 1] and whole.stats == {"a": 1, "none": 1}
    assert whole.samples == ()


def test_joined_keeps_samples_and_repeats_the_path_where_there_are_none():
    whole = join_solutions([part([2, 0], 0.25, 2), part([1], 0.75, 0)])
    assert len(whole.samples) == 2
    for k, sample in enumerate(whole.samples):
        bends = [float(sample[b][1, 0]) - b for b in range(3)]
        assert bends == [0.25 + 10 * (k + 1), 0.75, 0.25 + 10 * (k + 1)]


def test_what_is_known_of_lines_stays_with_its_example():
    """Two parts in another order than the examples: line b has the points 2 b and 2 b + 1."""

    def part(examples: list[int]) -> tuple[torch.Tensor, lp.Solution]:
        n, of = len(examples), torch.tensor(examples)
        one = torch.arange(n)
        estimate = Estimate(of[:, None].expand(n, 3).float(), of.float(), of.float(), of.float())
        span = torch.tensor([[0.0, 1.0]]).double().repeat(n, 1)
        line = KnownSegments(2 * one, 2 * one + 1, torch.zeros(n).long(), estimate, span)
        return of, lp.Solution(lp.Path.straight(torch.zeros(n, 3), torch.ones(n, 3)), line=line)

    line = join_solutions([part([3, 0]), part([1, 2])]).line
    assert line is not None and line.span is not None
    assert torch.equal(line.tail, 2 * line.estimate.length.long()) and torch.equal(line.head, line.tail + 1)
    assert len(line.span) == 4
