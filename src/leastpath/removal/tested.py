"""The test that a result carries: its support, by removal, beside that of the straight line.

Features are removed in the order of the explanation, by putting the baseline's values in their place. Support is the
symmetric relevance gain of `gain.py`: how much more the score loses with the most important features than with the
least important ones. Where a probability is tested, features are ordered by their signed values: first what
speaks for the class, last what speaks against it. Where it is not, they are ordered by size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import cast

import torch
from torch import Tensor

from leastpath._support.numbers import written
from leastpath._support.rows import flat_rows
from leastpath.account.run import Run
from leastpath.features.kinds import kind_of
from leastpath.removal.gain import SHARES, Rank, default_rank, judged_score, patches, removal_places, symmetric_gain
from leastpath.removal.gain import Kind as JudgedKind
from leastpath.result.status import Note, Outcome, Status
from leastpath.score.bound import BoundScore
from leastpath.score.score import Inputs, Score

MARGIN = 0.05  # of the line's support: nine shares cannot tell smaller differences
FORWARD_COST = 1 / 3  # of a gradient, roughly
ASK = Note(Outcome.NOT_TESTED, "the explanation was not tested: support=True tests it")
NO_ORDER = Note(
    Outcome.NOT_TESTED, "the explanation was not tested: removal needs at least two features with finite values"
)
PART = 0.1  # of a call's budget that its test may cost, at most


@dataclass(frozen=True)
class Tested:
    """Support of the explanation and of the straight line (examples,), NaN where not measured, and what was spent."""

    support: Tensor
    line: Tensor
    n_forwards: Tensor
    unit: str
    unknown: Sequence[Note]  # what is said of each example that has no number
    bent: Sequence[bool] = ()  # whether a path is not the straight line itself

    def told(self, example: int, others: Status) -> Status:
        """The whole status of an example: the test first, or last what was not tested."""
        note = self.note(example)
        return Status((*others.notes, note) if note.outcome is Outcome.NOT_TESTED else (note, *others.notes))

    @cached_property
    def _numbers(self) -> list[tuple[float, float]]:
        """Support of the explanation and of the line, for each example: one number of a tensor at a time is slow."""
        return list(zip(*(of.cpu().numpy().tolist() for of in (self.support, self.line)), strict=True))

    def note(self, example: int) -> Note:
        """What became of the test."""
        mine, line = self._numbers[example]
        if math.isnan(mine):
            return self.unknown[example]
        is_line = bool(self.bent) and not self.bent[example]
        beside = "" if math.isnan(line) or is_line else f" (straight line {written(line, 2)})"
        support = f"support {written(mine, 2)}"
        if mine <= 0:
            return Note(
                Outcome.UNSUPPORTED,
                f"removal does not confirm this explanation: {support}{beside}, which should be above 0; "
                f"try {'' if is_line else 'StraightLine(), '}several baselines or another output",
            )
        if mine < line - MARGIN * abs(line):
            return Note(
                Outcome.UNSUPPORTED,
                f"removal confirms the straight line better: {support}, straight line {written(line, 2)}; "
                "try solver=StraightLine()",
            )
        return Note(Outcome.SUPPORTED, f"{support} {self.unit}{beside}")


def headline(support: Tensor, line: Tensor, status: Sequence[Status]) -> str:
    """What is shown of some examples before all else: support, the straight line's beside it, and the status in words.

    Example:
        >>> fine = Status((Note(Outcome.REACHED, "the integral is within tolerance 0.01"),))
        >>> headline(torch.tensor([0.31]), torch.tensor([0.28]), [fine])
        'support 0.31 (straight line 0.28); status ok'
    """
    mine, beside = float(support.nanmedian()), float(line.nanmedian())
    if math.isnan(mine) and all(one.ok for one in status):
        why = [note.sentence for one in status for note in one.notes if note.outcome is Outcome.NOT_TESTED]
        return f"{why[0] if why else 'the explanation was not tested'}; the integral is ok"
    median = "median " if len(status) > 1 else ""
    said = "the explanation was not tested" if math.isnan(mine) else f"{median}support {written(mine, 2)}"
    said += "" if math.isnan(beside) or beside == mine else f" (straight line {written(beside, 2)})"
    bad = [one.value for one in status if not one.ok]
    if not bad:
        return f"{said}; status ok"
    return f"{said}; {f'{len(bad)} of {len(status)} to look at, e.g.: ' * (len(status) > 1)}{bad[0]}"


def not_tested(examples: int) -> Tested:
    """Of results whose support was not asked for."""
    unknown = torch.full((examples,), torch.nan, dtype=torch.float64)
    return Tested(unknown, unknown, torch.zeros(examples, dtype=torch.long), "", [ASK] * examples)


def tested(
    bound: BoundScore,
    inputs: Inputs,
    starts: Tensor,
    values: Tensor,
    line: Tensor | None = None,
    bent: Tensor | None = None,
    labels: Tensor | None = None,
    run: Run | None = None,
    wanted: bool = True,
) -> Tested:
    """Measure the support of explanations, and that of the straight line where the path is bent.

    Args:
        bound: the explained score.
        inputs: as the user gave them.
        starts: (examples, baselines, *features) what stands in for removed features.
        values: (examples, *features) attributions.
        line: the same of the straight line, NaN where it was not measured; None: there is no line to compare with.
        bent: (examples,) whether a path is not the straight line itself.
        labels: (1 or examples, *features) integers, the features that are removed together; None: each by itself.
        run: of the call; a small budget gets a coarser test, and one without time left none.
        wanted: False: nothing is tested.
    """
    examples, is_bent = len(starts), torch.zeros(len(starts), dtype=torch.bool) if bent is None else bent
    if not wanted:
        return not_tested(examples)
    if run is not None and run.clock.left() <= 0:
        return _failed(examples, Outcome.BUDGET_SPENT, "max_seconds left no time to test it; raise max_seconds")
    score, kind = judged_score(cast(Score, bound.score), "sigmoid" if bound.score.output == "sigmoid" else "auto")
    rank = default_rank(kind_of(bound), kind)
    try:
        judged = score.bind(inputs)
        test = _Test(judged, kind, starts, labels, rank, None if run is None else run.max_gradients)
        mine = test.of(values)
        of_line = mine if line is not None else torch.full_like(mine, torch.nan)
        if line is not None and is_bent.any():  # a line that was not measured is not tested
            tests_line = bool(torch.isfinite(line).any())
            of_line = torch.where(is_bent, test.of(line) if tests_line else torch.nan, mine)
    except KeyboardInterrupt:
        return _failed(examples, Outcome.INTERRUPTED, "the test was interrupted")
    except Exception as error:  # the explanation stands, but the model may refuse inputs that lack features as it likes
        return _failed(examples, Outcome.UNSUPPORTED, str(error).partition("\n")[0] or type(error).__name__)
    unit = "in probability" if kind == "log_odds" else "in units of the score"
    straight = [] if bent is None else bent.tolist()
    return Tested(mine, of_line, torch.as_tensor(judged.forwards_spent).long(), unit, [NO_ORDER] * examples, straight)


def _failed(examples: int, outcome: Outcome, why: str) -> Tested:
    return replace(not_tested(examples), unknown=[Note(outcome, f"support is not known: {why}")] * examples)


@dataclass(frozen=True)
class _Test:
    judged: BoundScore
    kind: JudgedKind
    starts: Tensor  # (examples, baselines, *features)
    labels: Tensor | None
    rank: Rank
    max_gradients: int | None

    def of(self, values: Tensor) -> Tensor:
        """(examples,) the mean over the baselines that features are replaced by; NaN where values are not finite
        or nothing is ranked."""
        # One thing alone has no order that removal could test.
        known = (
            flat_rows(torch.isfinite(values)).all(1).cpu()
            & (removal_places(values, self.labels, self.rank)[1] > 1).cpu()
        )
        gains = [
            symmetric_gain(
                self.judged, self.kind, values.nan_to_num(), partial(_started, start),
                labels=self.labels, shares=self._shares(), rank=self.rank,
            )
            for start in self.starts.unbind(1)
        ]  # fmt: skip
        return torch.where(known, torch.stack(gains).mean(0), torch.nan)

    def _shares(self) -> tuple[float, ...]:
        """All of them, or as many as a small budget pays for: two forwards each, for the path and for the line."""
        if self.max_gradients is None:
            return SHARES
        paid = PART * self.max_gradients / FORWARD_COST / (4 * self.starts.shape[1])
        n = int(min(len(SHARES), max(1, paid)))
        return tuple(SHARES[(2 * k + 1) * len(SHARES) // (2 * n)] for k in range(n))


def _started(start: Tensor, rows: Tensor, masked: Tensor) -> Tensor:
    """What stands in for removed features: the baselines of some rows."""
    return start[rows.to(start.device)]


def removed_together(bound: BoundScore, groups: Tensor | None, examples: int) -> Tensor | None:
    """What is removed together, as labels (1 or examples, *features); None: every feature by itself."""
    shape, kind = bound.shape, kind_of(bound)
    if groups is not None:
        fits = groups.shape[1:] == shape and groups.ndim == len(shape) + 1 and len(groups) in (1, examples)
        if groups.is_floating_point() or groups.dtype == torch.bool or not fits:
            raise ValueError(
                f"groups have dtype {groups.dtype} and shape {tuple(groups.shape)}, expected integer labels of shape "
                f"{(1, *shape)} or {(examples, *shape)}"
            )
        return groups
    if kind == "tokens":
        return torch.arange(shape[0])[None, :, None].expand(1, *shape)
    if kind == "image":
        return patches(*shape[-2:])[None].expand(1, *shape)
    return None
