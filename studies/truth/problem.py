"""Net and Problem: what is explained in the study, and all that its explanations are judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from leastpath.removal.curves import Fill, Rank
from leastpath.score.calls import Output
from leastpath.score.score import Score
from studies.findings.config import Setting

Kind = Literal["image", "text", "table", "few"]
"""Kinds of input that have a default of their own: images, tokens, tables, and up to 20 features."""
Half = Literal["development", "reporting"]
HALVES: tuple[Half, ...] = ("development", "reporting")


@dataclass(frozen=True)
class Problem:
    """Some examples of a net.

    Args:
        score: an output -> the score of the predicted class, of these examples.
        output: that is explained unless a candidate says otherwise.
        inputs: (n, *features), or token ids (n, length).
        baselines: (n, m, *features); candidates with one baseline take the first.
        fills: by name, what stands in for removed features.
        labels: integers (1 or n, *features), what is removed together; None: single values.
        groups: by name, what a band moves together; None stands for single features.
        rank: how explanations are ordered for removal.
        size: how the size of what a feature gets is counted.
        shares: of features that are removed.
        objects: (n, 1, height, width) bool, where the object is; rows without one are all False.
        marks: (n, 1, height, width) bool, where a planted mark is.
        unmarked: (n, *features), the inputs without their marks.
        others: gives (m, *features), examples of the net that are in neither half: data for methods that need some.

    Example:
        >>> Problem(lambda output: Score(lambda x: x.sum(1)), "raw", torch.ones(2, 3), ...)  # doctest: +SKIP
    """

    score: Callable[[Output], Score]
    output: Output
    inputs: Tensor
    baselines: Tensor
    fills: Mapping[str, Fill | Tensor]
    labels: Tensor | None
    groups: Mapping[str, Any] = field(default_factory=dict)
    rank: Rank = "signed"
    size: Rank = "magnitude"
    shares: tuple[float, ...] = tuple(k / 10 for k in range(1, 10))
    objects: Tensor | None = None
    marks: Tensor | None = None
    unmarked: Tensor | None = None
    others: Callable[[], Tensor] | None = None


@dataclass(frozen=True)
class Opened:
    """A net at work: `problem` of some of its `examples`, and how good the net is."""

    examples: int
    problem: Callable[[Sequence[int]], Problem]
    quality: Mapping[str, float]


@dataclass(frozen=True)
class Net:
    """One row of the study.

    Args:
        name: as on the command line.
        title: as in tables.
        kind: of its inputs.
        open: trains or loads it; ValueError or ImportError with a sentence where something is missing.
        examples: how many are explained in each half.
        block: examples of a unit of work.
        few: how many examples the most expensive candidates explain in each half.
        seconds: of one gradient, roughly: for the estimate of the time left.
        reporting_only: settings are not chosen on this net.
        gate: "marks" and "control" serve the gate of the planted shortcut, "randomised" that of random weights. Only
            gains of nets without a gate, and of "marks", count.
        twin: of a randomised net, the trained one.

    Example:
        >>> from studies.truth.nets import NETS
        >>> NETS["digits-mlp"].kind
        'image'
    """

    name: str
    title: str
    kind: Kind
    open: Callable[[Setting, Path | None], Opened]
    examples: Mapping[Half, int]
    block: int = 10
    few: int = 10
    seconds: float = 1e-3
    reporting_only: bool = False
    gate: Literal["", "marks", "control", "randomised"] = ""
    twin: str = ""

    def rows(self, half: Half, n: int) -> range:
        """The examples of a half: no example is in both."""
        first = 0 if half == "development" else self.examples["development"]
        return range(first, first + min(n, self.examples[half]))
