"""Verdict: what the test by removal says of an explanation, in numbers and in words. `referee.py` runs the test."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from leastpath._support.checks import write_number
from leastpath.removal.chance import Tail
from leastpath.result.attribution import Attribution
from leastpath.result.status import Note, Outcome, Status

ALPHA = 0.05
NEARLY = 0.2  # p-values up to this are no evidence, and none against: more removals may decide
LEAST_UNITS = 4  # fewer can be ordered in at most six ways, and no p-value reaches .05
CLEARLY = 0.25  # of the line's support that an explanation must lack to be called worse, beside p ≤ .05
ASK = Note(Outcome.NOT_TESTED, "the explanation was not tested: support=True tests it")
NO_ORDER = Note(
    Outcome.NOT_TESTED, "the explanation was not tested: removal needs at least two features with finite values"
)


@dataclass(frozen=True)
class Judgment:
    """What removal says of explanations: numbers (batch,) in float64 on the CPU, and a status for each example.

    `status[i].outcomes[0]` is SUPPORTED (both p-values are at most .05; only this one is `ok`), BETTER_THAN_CHANCE (the
    first alone), UNDECIDED (the first is at most .2, or not even an ideal explanation would pass) or UNSUPPORTED.

    Example:
        >>> leave_untested(1).status[0].value
        'The explanation was not tested: support=True tests it.'
    """

    support: Tensor  #: symmetric relevance gain by the baselines, in probability for class scores; chance is 0
    chance: Tensor  #: its standard deviation over random orders
    p_value: Tensor  #: of "no better than chance"
    p_model: Tensor  #: of "no better than what the input shows without the model"
    status: tuple[Status, ...]
    n_forwards: Tensor  #: model evaluations for each example, whole numbers
    by_fill: Mapping[str, Tensor] = field(default_factory=dict)  #: support by each of the fills that are tested
    line: Tensor | None = None  #: support of the straight line, NaN where it was not measured

    @property
    def p(self) -> Tensor:
        """(batch,) of both questions together: the larger of the two p-values."""
        return torch.maximum(self.p_value, self.p_model)

    def add_to(self, result: Attribution) -> Attribution:
        """The result with this test: its numbers, the forwards that it took, and its sentence first in the status."""
        like, also = result.completeness_gap, {"chance": self.chance, "support_by_fill": dict(self.by_fill)}
        numbers = {name: getattr(self, name).to(like.device, like.dtype) for name in ("support", "p_value", "p_model")}
        return replace(
            result,
            **numbers,
            status=tuple(_put_first(*pair) for pair in zip(self.status, result.status, strict=True)),
            n_forwards=result.n_forwards + self.n_forwards.to(result.n_forwards),
            stats={**result.stats, "line_support": self.line, **also},
        )


def _put_first(test: Status, others: Status) -> Status:
    """The test first, or last what was not tested. What was said before of a test is not true any more."""
    rest = tuple(note for note in others.notes if note.outcome is not Outcome.NOT_TESTED)
    return Status((*rest, *test.notes) if Outcome.NOT_TESTED in test else (*test.notes, *rest))


def leave_untested(examples: int, note: Note = ASK) -> Judgment:
    """Of results that nobody asked to test, or that could not be tested for the reason in the note."""
    unknown = torch.full((examples,), torch.nan, dtype=torch.float64)
    none = torch.zeros(examples, dtype=torch.long)
    return Judgment(unknown, unknown, unknown, unknown, (Status((note,)),) * examples, none, line=unknown)


class Evidence(NamedTuple):
    """What the tests found for one example."""

    by_chance: Tail
    by_input: Tail
    spread: float  # of chance
    is_decidable: bool  # an ideal explanation would have passed
    is_moved: bool  # chance means the map itself, moved elsewhere
    is_worse: bool = False  # than the straight line, clearly


def say(evidence: Evidence, support: float, line: float = math.nan) -> Note:
    """The outcome, in words with its numbers.

    Example:
        >>> found = Evidence(Tail(1, 499), Tail(4, 499), 0.08, is_decidable=True, is_moved=False)
        >>> print(say(found, 0.31).sentence[:64])
        support 0.31, chance ±0.08: better than 498 of 499 random orders
    """
    by_chance, by_input = evidence.by_chance, evidence.by_input
    beside = "" if math.isnan(line) else f" (straight line {write_number(line, 2)})"
    # A moved copy stays as smooth as the map, so that its support varies more than that of random orders does.
    chance = "" if evidence.is_moved else f", chance ±{write_number(evidence.spread, 2)}"
    what = f"support {write_number(support, 2)}{beside}{chance}"
    orders = f"{by_chance.draws} {'moved copies of the map' if evidence.is_moved else 'random orders'}"
    better = f"{what}: better than {by_chance.beaten} of {orders}"
    blind = f"than {by_input.beaten} of {by_input.draws} that know the input but not the model"
    if evidence.is_worse:
        found = f"removal confirms the straight line better: support {write_number(support, 2)}, straight line "
        return Note(Outcome.UNSUPPORTED, f"{found}{write_number(line, 2)}, beyond chance; try method=StraightLine()")
    if by_chance.p <= ALPHA and by_input.p <= ALPHA:
        return Note(Outcome.SUPPORTED, f"{better}, and {blind}")
    if by_chance.p <= ALPHA:
        return Note(Outcome.BETTER_THAN_CHANCE, f"{better}, but only {blind}: the input alone may show as much")
    more = 'support="full", more removals, finer groups or another baseline may decide it'
    if by_chance.p <= NEARLY:
        return Note(Outcome.UNDECIDED, f"{better}, which is too few to tell from chance; {more}")
    if evidence.is_decidable:
        remedy = "try another method, several baselines or another output"
        only = f"{what}: better than only {by_chance.beaten} of {orders}"
        return Note(Outcome.UNSUPPORTED, f"removal does not confirm this explanation: {only}; {remedy}")
    why = "not even an ideal explanation would stand out, as there are too few features or the score hardly moves"
    return Note(Outcome.UNDECIDED, f"{what}: {why}; {more}")


def say_too_few(units: int, support: float) -> Note:
    """Of an example with too few features for any test."""
    has = f"{units} feature{'s have' if units != 1 else ' has'}"
    found = f"support {write_number(support, 2)}, but {has} too few orders"
    return Note(Outcome.UNDECIDED, f"{found} to tell from chance: at least {LEAST_UNITS} are needed")


def headline(status: Sequence[Status]) -> str:
    """What is shown of some examples before all else: the verdict on one in words, or on many in numbers.

    Example:
        >>> fine = Status((Note(Outcome.SUPPORTED, "support 0.31, chance ±0.08: better than 498 of 499 orders"),))
        >>> headline([fine])
        'supported: support 0.31, chance ±0.08: better than 498 of 499 orders'
        >>> headline([fine, fine])
        'supported: 2 of 2 (95 % interval 0.34 to 1)'
    """
    if len(status) > 1:
        others = [one.value for one in status if one.ok is False and not _is_tested(one)]
        return count_supported(status) + (f"; {len(others)} to look at, e.g.: {others[0]}" if others else "")
    (one,) = status
    tests = [note for note in one.notes if note.outcome in TESTED]
    others = [note.sentence for note in one.notes if note.outcome not in TESTED and not note.outcome.ok]
    why = [note.sentence for note in one.notes if note.outcome is Outcome.NOT_TESTED]
    said = [f"{note.outcome.value}: {note.sentence}" for note in tests] or why or ["the explanation was not tested"]
    return "; ".join([*said, *others])


TESTED = (Outcome.SUPPORTED, Outcome.BETTER_THAN_CHANCE, Outcome.UNDECIDED, Outcome.UNSUPPORTED)


def _is_tested(status: Status) -> bool:
    return any(outcome in TESTED for outcome in status.outcomes)


def count_supported(status: Sequence[Status]) -> str:
    """How many explanations are supported, of those that were tested, with the interval of the share.

    Example:
        >>> count_supported([Status((ASK,))])
        'not tested'
    """
    return count_outcomes([outcome.value for one in status for outcome in one.outcomes if outcome in TESTED])


def count_outcomes(found: Iterable[str]) -> str:
    """The same, of the outcomes' words: supported, better than chance, undecided, unsupported.

    Example:
        >>> count_outcomes(["supported", "supported", "undecided"])
        'supported: 2 of 3 (95 % interval 0.21 to 0.94), undecided 1'
    """
    counts = Counter(found)
    total, good = counts.total(), counts[Outcome.SUPPORTED.value]
    if not total:
        return "not tested"
    low, high = bound_share(good, total)
    interval = f"95 % interval {write_number(low, 2)} to {write_number(high, 2)}"
    others = [f", {kind.value} {counts[kind.value]}" for kind in TESTED[1:] if counts[kind.value]]
    return f"supported: {good} of {total} ({interval}){''.join(others)}"


def bound_share(hits: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of the share hits / n.

    Example:
        >>> [round(end, 2) for end in bound_share(8, 10)]
        [0.49, 0.94]
    """
    from scipy.stats import binomtest  # late: importing leastpath needs no scipy

    low, high = binomtest(hits, n).proportion_ci(level, method="wilson")
    return float(low), float(high)
