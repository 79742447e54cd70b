"""Verdict: the test that a result carries. Its support, by removal, beside that of the straight line.

Features are removed in the order of the explanation, by putting the baseline's values in their place. Support is the
symmetric relevance gain of `support.py`: how much more the score loses with the most important features than with the
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

from leastpath._support.checks import write_number
from leastpath._support.rows import flat_rows
from leastpath.account.run import Run
from leastpath.features.groups import Groups, Kind, default_groups, kind_of, label_groups
from leastpath.removal.curves import Order, Rank, Scale, default_rank
from leastpath.removal.fills import Filling
from leastpath.removal.support import SHARES, judged_score, measure_curves
from leastpath.result.status import Note, Outcome, Status
from leastpath.score.score import BoundScore, Inputs, Score

MARGIN = 0.05  # of the line's support: nine shares cannot tell smaller differences
FORWARD_COST = 1 / 3  # of a gradient, roughly
ASK = Note(Outcome.NOT_TESTED, "the explanation was not tested: support=True tests it")
NO_ORDER = Note(
    Outcome.NOT_TESTED, "the explanation was not tested: removal needs at least two features with finite values"
)
PART = 0.1  # of a call's budget that its test may cost, at most


@dataclass(frozen=True)
class Verdict:
    """Support of the explanation and of the straight line (examples,), NaN where not measured, and what was spent."""

    support: Tensor
    line: Tensor
    n_forwards: Tensor
    scale: Scale
    unknown: Sequence[Note]  # what is said of each example that has no number
    bent: Sequence[bool] = ()  # whether a path is not the straight line itself

    def status_with(self, example: int, others: Status) -> Status:
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
        beside = "" if math.isnan(line) or is_line else f" (straight line {write_number(line, 2)})"
        support = f"support {write_number(mine, 2)}"
        if mine <= 0:
            return Note(
                Outcome.UNSUPPORTED,
                f"removal does not confirm this explanation: {support}{beside}, which should be above 0; "
                f"try {'' if is_line else 'StraightLine(), '}several baselines or another output",
            )
        if mine < line - MARGIN * abs(line):
            return Note(
                Outcome.UNSUPPORTED,
                f"removal confirms the straight line better: {support}, straight line {write_number(line, 2)}; "
                "try method=StraightLine()",
            )
        unit = "in probability" if self.scale == "log_odds" else "in units of the score"
        return Note(Outcome.SUPPORTED, f"{support} {unit}{beside}")


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
    said = "the explanation was not tested" if math.isnan(mine) else f"{median}support {write_number(mine, 2)}"
    said += "" if math.isnan(beside) or beside == mine else f" (straight line {write_number(beside, 2)})"
    bad = [one.value for one in status if not one.ok]
    if not bad:
        return f"{said}; status ok"
    return f"{said}; {f'{len(bad)} of {len(status)} to look at, e.g.: ' * (len(status) > 1)}{bad[0]}"


def leave_untested(examples: int, note: Note = ASK) -> Verdict:
    """Of results whose support was not asked for, or is not known for the reason in the note."""
    unknown = torch.full((examples,), torch.nan, dtype=torch.float64)
    return Verdict(unknown, unknown, torch.zeros(examples, dtype=torch.long), "score", [note] * examples)


def test_by_removal(
    bound: BoundScore,
    inputs: Inputs,
    values: Tensor,
    starts: Tensor,
    *,
    groups: Tensor | None = None,
    line: Tensor | None = None,
    bent: Tensor | None = None,
    run: Run | None = None,
) -> Verdict:
    """Measure the support of explanations, and that of the straight line where the path is bent.

    Args:
        bound: the explained score.
        inputs: as the user gave them.
        values: (examples, *features), the explanations.
        starts: (examples, baselines, *features) what stands in for removed features: the mean over baselines counts.
        groups: (1 or examples, *features) integers, the features that are removed together, as `removal_groups` gives
            them; None: each by itself.
        line: values of the straight line, NaN where they were not measured; None: there is no line to compare with.
        bent: (examples,) whether a path is not the straight line itself.
        run: of the call; a small budget gets a coarser test, and one without time left none.

    Example:
        >>> import leastpath as lp
        >>> score, inputs = lp.Score(lambda x: x @ torch.tensor([3.0, 0.0, 1.0])), torch.ones(1, 3)
        >>> values, black = torch.tensor([[3.0, 0.0, 1.0]]), torch.zeros(1, 1, 3)
        >>> test_by_removal(score.bind(inputs), inputs, values, black).note(0).outcome
        <Outcome.SUPPORTED: 'supported'>
    """
    examples = len(values)
    if run is not None and run.clock.left() <= 0:
        return _leave_unknown(examples, Outcome.BUDGET_SPENT, "max_seconds left no time to test it; raise max_seconds")
    score, scale = judged_score(cast(Score, bound.score))
    try:
        # Where memory ran out, batches are smaller by now: they need not be halved, and warned of, again.
        judged = replace(score, batch_size=bound.batch_size).bind(inputs)
        rank, fills = default_rank(kind_of(bound), scale), starts.unbind(1)
        shares = _affordable_shares(None if run is None else run.max_gradients, len(fills))
        measure = partial(_measure, judged, scale, fills=fills, groups=groups, shares=shares, rank=rank)
        mine = measure(values)
        of_line = mine if line is not None else torch.full_like(mine, torch.nan)
        if line is not None and bent is not None and bent.any():  # a line that was not measured is not tested
            of_line = torch.where(bent, measure(line) if torch.isfinite(line).any() else torch.nan, mine)
    except KeyboardInterrupt:
        return _leave_unknown(examples, Outcome.INTERRUPTED, "the test was interrupted")
    except Exception as error:  # the explanation stands, but the model may refuse inputs that lack features as it likes
        return _leave_unknown(examples, Outcome.UNSUPPORTED, str(error).partition("\n")[0] or type(error).__name__)
    spent = torch.as_tensor(judged.forwards_spent).long()
    return Verdict(mine, of_line, spent, scale, [NO_ORDER] * examples, [] if bent is None else bent.tolist())


def _measure(
    judged: BoundScore, scale: Scale, values: Tensor, *, fills: Sequence[Filling], groups: Tensor | None,
    shares: Sequence[float], rank: Rank,
) -> Tensor:  # fmt: skip
    """(examples,) the mean over fills; NaN where values are not finite, or rank one thing alone, which has no order."""
    order = Order.of(values.nan_to_num(), groups, rank)
    gains = measure_curves(judged, scale, order, fills, shares)[0][0]
    known = flat_rows(torch.isfinite(values)).all(1).cpu() & (order.sizes > 1)
    return torch.where(known, gains.mean(0), torch.nan)


def _affordable_shares(max_gradients: int | None, baselines: int) -> tuple[float, ...]:
    """All of them, or as many as a small budget pays for: two forwards each, for the path and for the line."""
    if max_gradients is None:
        return SHARES
    paid = PART * max_gradients / FORWARD_COST / (4 * baselines)
    n = int(min(len(SHARES), max(1, paid)))
    return tuple(SHARES[(2 * k + 1) * len(SHARES) // (2 * n)] for k in range(n))


def _leave_unknown(examples: int, outcome: Outcome, why: str) -> Verdict:
    return leave_untested(examples, Note(outcome, f"support is not known: {why}"))


def removal_groups(groups: Groups, points: Tensor, kind: Kind) -> Tensor | None:
    """What is removed together, as labels (1 or examples, *features); None: every feature by itself.

    A whole number of superpixels is a method's own business; as without groups, the kind of input decides.
    """
    return label_groups(default_groups(kind) if groups is None or isinstance(groups, int) else groups, points)
