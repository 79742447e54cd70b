"""Units of work: one net, one candidate, one block of examples. Explained once, then measured."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows
from leastpath._support.store import Store
from leastpath.account.run import Run
from leastpath.evaluation.support import prepare_fill
from leastpath.removal.curves import Order, group_strengths, judged_score, measure_curves
from studies.findings.config import Setting
from studies.findings.measuring import listed
from studies.findings.shortcut import mark_ranks
from studies.findings.study import Record
from studies.truth.candidates import Candidate, explained
from studies.truth.problem import HALVES, Half, Net, Opened, Problem

TURN = 12  # examples of a net, then it is the next net's turn
MEASURES = 3
"""Raised when what is measured changes: explanations are kept, and are measured anew."""


@dataclass(frozen=True)
class Piece:
    """A unit of work.

    Example:
        >>> from studies.truth.candidates import CANDIDATES
        >>> from studies.truth.nets import NETS
        >>> Piece(NETS["text"], CANDIDATES["ig"], "development", range(5)).name
        'text ig development 000-004'
    """

    net: Net
    candidate: Candidate
    half: Half
    rows: range

    @property
    def name(self) -> str:
        """For readers."""
        return f"{self.net.name} {self.candidate.name} {self.half} {self.rows[0]:03d}-{self.rows[-1]:03d}"

    @property
    def explained(self) -> str:
        """The key of the explanation."""
        return f"explained {self.name} {self.candidate.digest}"

    @property
    def measured(self) -> str:
        """The key of its measures."""
        return f"measured {self.name} {self.candidate.digest} v{MEASURES}"

    @property
    def about(self) -> Record:
        """What the measures are of."""
        return {
            "net": self.net.name, "method": self.candidate.name, "digest": self.candidate.digest, "half": self.half,
            "rows": list(self.rows), "explained": self.explained, "version": MEASURES,
        }  # fmt: skip

    @property
    def seconds(self) -> float:
        """What it takes, roughly."""
        return len(self.rows) * self.net.seconds * (self.candidate.gradients + 40)


def pieces(
    nets: Sequence[Net],
    candidates: Sequence[Candidate],
    halves: Sequence[Half] = HALVES,
    *,
    images: int | None = None,
    named: bool = False,
) -> Iterator[Piece]:
    """All units of work, in the order in which they are done: the first examples of every net, then the next ones.

    So a run that is stopped has all candidates on the same examples of every net.

    Args:
        nets: in this order.
        candidates: in this order, for each net.
        halves: of the examples.
        images: at most so many in each half.
        named: the candidates were named by the user, so those that are not `main` are reported, too.
    """
    turns: dict[tuple[int, int], list[Piece]] = {}
    for at, net in enumerate(nets):
        for candidate in candidates:
            for half in halves:
                if half == "development" and net.reporting_only:
                    continue
                if net.kind not in candidate.kinds or (half == "reporting" and not (named or candidate.main)):
                    continue
                n = net.few if candidate.few else net.examples[half]
                rows = net.rows(half, n if images is None else min(n, images))
                for first in range(0, len(rows), net.block):
                    piece = Piece(net, candidate, half, rows[first : first + net.block])
                    turns.setdefault((first // TURN, at), []).append(piece)
    for _, turn in sorted(turns.items()):
        yield from sorted(turn, key=lambda piece: piece.rows[0])  # a problem serves all candidates, then the next


class Workshop:
    """Opens nets when they are needed, does pieces of work and keeps them.

    Args:
        store: of the run.
        data: folder of shared data; None: only nets that need none.
        quick: train little.
        known: net, half, method and row of examples that an earlier run measured: they are not done again.
    """

    def __init__(
        self, store: Store, data: Path | None, quick: bool = False, known: Iterable[tuple[str, str, str, int]] = ()
    ) -> None:
        self.store, self._data, self._setting = store, data, Setting(store, quick)
        self._known = frozenset(known)
        self._opened: dict[str, Opened] = {}
        self._missing: dict[str, str] = {}
        self._problem: tuple[str, Problem] | None = None

    def opened(self, net: Net) -> Opened | None:
        """The net at work; None, after a sentence that says why, where something is missing."""
        if net.name not in self._opened and net.name not in self._missing:
            try:
                opened = net.open(self._setting, self._data)
            except (ValueError, ImportError) as error:
                self._missing[net.name] = str(error)
                print(f"{net.title} is left out: {error}")
                return None
            self._opened[net.name] = opened
            self.store.write(f"quality {net.name}", dict(opened.quality))
        return self._opened.get(net.name)

    def problem(self, piece: Piece) -> Problem | None:
        """The examples of a piece, the last ones kept for the next candidate."""
        opened = self.opened(piece.net)
        if opened is None or piece.rows[-1] >= opened.examples:
            return None
        key = f"{piece.net.name} {piece.rows}"
        if self._problem is None or self._problem[0] != key:
            self._problem = key, opened.problem(piece.rows)
        return self._problem[1]

    def is_done(self, piece: Piece) -> bool:
        """Whether it is in the store, was measured by an earlier run, or never will be."""
        here = (piece.net.name, piece.half, piece.candidate.name)
        return (
            piece.net.name in self._missing
            or piece.measured in self.store
            or all((*here, row) in self._known for row in piece.rows)
        )

    def do(self, piece: Piece) -> None:
        """Explain and measure, unless that is in the store."""
        problem = self.problem(piece)
        if problem is None or not piece.candidate.fits(problem):
            return
        if piece.explained not in self.store:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # statuses are counted, not read
                found = explained(piece.candidate, problem)
            record = {
                "change": listed(found.change), "gradients": found.gradients.tolist(),
                "length_ratio": listed(found.length_ratio), "seconds": found.seconds,
            }  # fmt: skip
            self.store.write(piece.explained, record, {"values": found.values})
        values = self.store.read(piece.explained).arrays["values"]
        found_record, strengths = measured(problem, values)
        self.store.write(piece.measured, piece.about | found_record, {"strengths": strengths})


def do_all(
    workshop: Workshop, work: Sequence[Piece], *, progress: bool = False, minutes: float | None = None
) -> list[Piece]:
    """Do what is left; what is left after `minutes`.

    An interruption loses at most the piece that is being worked on.
    """
    until = None if minutes is None else time.monotonic() + 60 * minutes
    todo = [piece for piece in work if not workshop.is_done(piece)]
    with Run(progress=progress).bar("explaining", sum(piece.seconds for piece in todo)) as bar:
        for at, piece in enumerate(todo):
            if until is not None and time.monotonic() > until:
                return todo[at:]
            workshop.do(piece)
            bar.advance(piece.seconds, piece.name)
    return []


def measured(problem: Problem, values: Tensor) -> tuple[Record, Tensor]:
    """What an explanation's values (n, *features) are worth: numbers per example, and how strong each feature is."""
    record: Record = {"gain": gains_of(problem, values)}
    if problem.objects is not None:
        record["objects"] = listed(on_object(values, problem.objects))
    if problem.marks is not None and problem.unmarked is not None:
        record |= _on_mark(problem, values, problem.marks, problem.unmarked)
    strengths = strengths_of(problem, values)
    return record | {"total": listed(strengths.nansum(1))}, strengths


def gains_of(problem: Problem, values: Tensor) -> dict[str, list[float | None]]:
    """By fill, the symmetric relevance gain of each example: one stream of full batches over all fills."""
    judged, scale = judged_score(problem.score(problem.output))
    bound = judged.bind(problem.inputs)
    order = Order.of(values, problem.labels, problem.rank)
    fills = [
        prepare_fill(fill, bound, problem.inputs, problem.baselines[:, 0], 0) for fill in problem.fills.values()
    ]  # fmt: skip
    gains = measure_curves(bound, scale, order, fills, problem.shares)[0]
    return dict(zip(problem.fills, map(listed, gains[0]), strict=True))


def strengths_of(problem: Problem, values: Tensor) -> Tensor:
    """How much each feature gets, whatever its sign: (n, features), NaN for features that an example lacks."""
    strengths = group_strengths(values, problem.labels, problem.size)
    return torch.where(strengths > -torch.inf, strengths, torch.nan)


def on_object(values: Tensor, objects: Tensor) -> Tensor:
    """The share of Σ|A| on the object over the object's share of the area: (n,), NaN where there is no object.

    Example:
        >>> on_object(torch.ones(1, 3, 2, 2), torch.tensor([[[[True, False], [False, False]]]]))
        tensor([1.], dtype=torch.float64)
    """
    sizes = values.abs().double().sum(1, keepdim=True)
    inside = flat_rows(sizes * objects).sum(1) / flat_rows(sizes).sum(1)
    area = flat_rows(objects.double()).mean(1)
    return torch.where((area > 0) & (area < 1), inside / area, torch.nan)


def _on_mark(problem: Problem, values: Tensor, marks: Tensor, unmarked: Tensor) -> Mapping[str, Any]:
    bound = problem.score(problem.output).bind(problem.inputs)
    rows = torch.arange(bound.batch)
    effect = bound.values(problem.inputs, rows) - bound.values(unmarked, rows)
    total = flat_rows(values).abs().sum(1).clamp_min(1e-30)
    return {
        "mark rank": mark_ranks(values, marks).tolist(),
        "mark share": listed(flat_rows(values.abs() * marks).sum(1) / total),
        "mark sum": listed(flat_rows(values * marks).sum(1)),
        "mark effect": listed(effect),
    }
