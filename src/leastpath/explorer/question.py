"""Question: a subject with the choices made: class, output and baselines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from leastpath.explorer.removal import fills_of, outputs_of, rows_of_start
from leastpath.explorer.subject import CLASS_OUTPUTS, ONE_OUTPUT, Subject
from leastpath.score.calls import scalar_output
from leastpath.score.failures import reason_of
from leastpath.score.score import Score

MOST_CLASSES = 50


@dataclass(frozen=True)
class Question:
    """Why this score, and not the score at the baselines?"""

    subject: Subject
    score: Score
    starts: Mapping[str, Tensor]
    """The chosen baselines, (m, *shape) each."""
    logits: Tensor
    """(1, classes) or (1,): what the model says of the input."""
    score_here: float
    score_there: float
    """At the baselines, on average."""

    @classmethod
    def about(
        cls,
        subject: Subject,
        target: int | None = None,
        output: str | None = None,
        baseline: Sequence[str] | None = None,
    ) -> Question:
        """What is not chosen is as the subject has it: its score's class, or the predicted one; its first baseline."""
        logits = _answer(subject)
        score = _choose_score(subject, logits, target, output)
        usual = [name for name, start in subject.starts.items() if start.is_usual] or list(subject.starts)[:1]
        names = list(dict.fromkeys(baseline or usual))
        unknown = [name for name in names if name not in subject.starts]
        if unknown:
            raise ValueError(f"baseline {unknown[0]!r} is unknown: use one of {', '.join(subject.starts)}")
        starts = {name: rows_of_start(subject.starts[name].make(score), subject).detach() for name in names}
        there = _scores(score, outputs_of(score, subject.inputs, torch.cat(list(starts.values()))))
        return cls(subject, score, starts, logits, float(_scores(score, logits)[0]), float(there.mean()))

    def is_same(self, other: Question) -> bool:
        """Whether another question asks the same: it may have been asked for another method."""
        mine, theirs = ((q.target, q.output, *q.starts) for q in (self, other))
        return mine == theirs and torch.equal(self.subject.inputs, other.subject.inputs)

    @property
    def baselines(self) -> Tensor:
        """(1, *shape), or (1, m, *shape) for several."""
        rows = torch.cat(list(self.starts.values()))
        return rows if len(rows) == 1 else rows[None]

    @property
    def m(self) -> int:
        """How many baselines there are."""
        return sum(map(len, self.starts.values()))

    @property
    def target(self) -> int | None:
        """The class; None where the model has one output."""
        return self.score.target if isinstance(self.score.target, int) else None

    @property
    def output(self) -> str:
        """By name; "given" for a function of the user's own."""
        return self.score.output if isinstance(self.score.output, str) else "given"

    @property
    def outputs(self) -> tuple[str, ...]:
        """What may be chosen."""
        if not isinstance(self.score.output, str) or callable(self.score.target):
            return (self.output,)
        return CLASS_OUTPUTS if self.target is not None else ONE_OUTPUT

    @property
    def fills(self) -> dict[str, Tensor]:
        """What removed features may be filled with, (m, *shape) each."""
        return fills_of(self.subject, self.score, self.starts)

    @property
    def curve_fills(self) -> dict[str, Tensor]:
        """Those that removal curves are measured with."""
        return fills_of(self.subject, self.score, self.starts, for_curves=True)

    def key(self, sample: int, method: str, stiffness: float | None) -> str:
        """Names the result of a method for this question."""
        parts = (sample, self.target, self.output, *self.starts, method, stiffness)
        return f"{method}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:12]}"

    def classes(self, logits: Tensor | None = None, most: int = MOST_CLASSES) -> list[dict[str, Any]]:
        """The first classes with their probabilities; empty where the model has one output.

        `logits` (m, classes): of other inputs, whose probabilities are averaged.
        """
        logits = self.logits if logits is None else logits
        if self.target is None or logits.ndim < 2:
            return []
        chances = logits.double().softmax(1).mean(0)
        best = chances.topk(min(most, len(chances)))
        found = {int(i): float(p) for p, i in zip(best.values, best.indices, strict=True)}
        found.setdefault(self.target, float(chances[self.target]))
        return [{"index": i, "label": class_name(self.subject.classes, i), "probability": p} for i, p in found.items()]

    def score_of(self, logits: Tensor) -> float:
        """The explained score of what the model returned, (m, …), on average."""
        return float(_scores(self.score, logits).mean())


def class_name(names: Sequence[str] | None, index: int) -> str:
    """What a class is called: its name, or its number."""
    return str(names[index]) if names is not None and index < len(names) else f"class {index}"


def _answer(subject: Subject) -> Tensor:
    try:
        return outputs_of(subject.score, subject.inputs, subject.inputs).float()
    except Exception as error:  # the user's model may raise anything
        raise ValueError(f"the model fails on {subject.title}: {reason_of(error)}") from error


def _choose_score(subject: Subject, logits: Tensor, target: int | None, output: str | None) -> Score:
    """The subject's score with another class or output. None: its own, the predicted class, the usual output."""
    score: Any = subject.score
    if callable(score.target) or callable(score.output):
        return subject.score
    n = logits.shape[1] if logits.ndim == 2 else 1
    known = CLASS_OUTPUTS if n > 1 else ONE_OUTPUT
    if output is not None and output not in known:
        raise ValueError(f"output {output!r} does not fit this model: use one of {', '.join(known)}")
    if n == 1:
        chosen = score.target if score.target == 0 and logits.ndim == 2 else None
        return replace(score, target=chosen, output=output or (score.output if score.output in known else "raw"))
    is_given = isinstance(score.target, int)
    target = target if target is not None else score.target if is_given else int(logits[0].argmax())
    if not 0 <= target < n:
        raise ValueError(f"class {target} is none of the model's, which has 0 to {n - 1}")
    usual = score.output if is_given and score.output in known else "softmax"
    return replace(score, target=target, output=output or usual)


def _scores(score: Score, logits: Tensor) -> Tensor:
    """(m,) the explained score of what the model returned (m, …)."""
    target: Any = score.target
    return scalar_output(logits, target, score.output, len(logits), score.class_dim).detach()
