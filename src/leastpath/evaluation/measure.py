"""Measure: a number per example that says how good its explanation is, and what it cost to find out."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor

from leastpath._support.checks import check_kind, check_settings_of, check_tensor, seed_of
from leastpath._support.rows import flat_rows
from leastpath.features.groups import Kind
from leastpath.methods.explainer import Contender, Explainer, explainer_of
from leastpath.result.attribution import Attribution, without_path
from leastpath.result.status import Note, Outcome, Status
from leastpath.score.calls import Baselines, Inputs
from leastpath.score.score import BoundScore, Score, baselines_per_example

Explain = Contender
"""What explains again: a method, its name, a solver, or a function (score, inputs, baselines, seed) -> Attribution."""

OF_INPUTS: tuple[Kind, ...] = tuple(kind for kind in get_args(Kind) if kind != "tokens")
"""The kinds that are inputs themselves, and not a layer's output: for measures that change the inputs."""


@dataclass(frozen=True)
class Measured:
    """What a measure found for a batch.

    Example:
        >>> Measured.of(torch.tensor([0.2, 0.4])).n_forwards
        tensor([0, 0])
    """

    values: Tensor  #: (batch,): NaN where the measure is not defined, which its documentation explains
    curves: Mapping[str, Tensor]  #: behind the values: (batch, points) each, and "x", their common axis (points,)
    n_forwards: Tensor  #: (batch,) int64: model evaluations without gradient
    n_gradients: Tensor  #: (batch,) int64: model gradients

    @staticmethod
    def of(
        values: Tensor,
        curves: Mapping[str, Tensor] | None = None,
        n_forwards: Tensor | int = 0,
        n_gradients: Tensor | int = 0,
    ) -> Measured:
        """Values (batch,), with costs that may be one number for all examples."""

        def counts(n: Tensor | int) -> Tensor:
            return torch.as_tensor(n).cpu().long().expand(len(values)).clone()

        return Measured(values.detach().cpu(), dict(curves or {}), counts(n_forwards), counts(n_gradients))

    def __post_init__(self) -> None:
        for name in ("values", "n_forwards", "n_gradients"):
            shape = tuple(getattr(self, name).shape)
            if shape != (len(self.values),):
                raise ValueError(f"{name} has shape {shape}, expected one number per example: (batch,)")


@runtime_checkable
class Measure(Protocol):
    """A frozen dataclass of settings with one call. Values of a batch are those of a loop over its examples.

    A measure may also be `Staged` or one that `HoldsExamples`; one that says `needs_method = True` is called with one
    more keyword, `explain`, to explain other inputs with the method that it judges: all of robustness does. `register`
    gives a measure a name in `MEASURES`.

    Example:
        >>> @dataclass(frozen=True)
        ... class Magnitude:
        ...     name: str = "magnitude"
        ...     higher_is_better: bool = False
        ...
        ...     def __call__(self, score, inputs, baselines, result, *, seed=0):
        ...         return Measured.of(result.values.abs().flatten(1).sum(1))
        >>> isinstance(Magnitude(), Measure)
        True
    """

    @property
    def name(self) -> str:
        """The column's name in tables, as in "comprehensiveness"."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger value means a better explanation."""

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Judge the explanation `result` of these inputs."""


@runtime_checkable
class HoldsExamples(Protocol):
    """A measure that holds something for each example, such as masks of the true objects."""

    def select(self, rows: range) -> Measure:
        """The measure for these examples alone."""


@runtime_checkable
class Staged(Protocol):
    """A measure in two steps, the first of which several measures may share: all masking curves of one ranking do."""

    @property
    def stage_key(self) -> Any:
        """Measures with equal keys share their first step."""

    def stage(self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, seed: int) -> Any:
        """The first step, which runs the model."""

    def read(self, staged: Any) -> Measured:
        """The second step: this measure's numbers out of what the first one found."""


def column_of(measure: type) -> str:
    """The column that a class of measures fills, and its name in `MEASURES`: the class name in small letters."""
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", measure.__name__).lower()


@dataclass(frozen=True, kw_only=True)
class NamedMeasure:
    """What our own measures share: a name that follows from that of the class, and settings that are checked."""

    fits: ClassVar[tuple[Kind, ...]] = get_args(Kind)
    """The kinds of input that it is for. A measure with curves also says what their `axis` is."""
    name: str = ""
    """The column's name; by default that of `column_of`."""

    def __post_init__(self) -> None:
        check_settings_of(self)
        object.__setattr__(self, "name", self.name or column_of(type(self)))


def needs_method(measure: Measure) -> bool:
    """Whether a measure explains again, and so must be called with `explain=`, the method that it judges."""
    return bool(getattr(measure, "needs_method", False))


def required_method(explain: Explain | None, name: str) -> Explainer:
    """What explains again, for the measure `name`, which needs it."""
    if explain is None:
        raise ValueError(f"{name} explains other inputs too: pass explain=, the method that made the result")
    return explainer_of(explain, name)


class Again:
    """The judged method, asked once more, and what that has cost so far."""

    def __init__(
        self, explain: Explain | None, name: str, score: Score, inputs: Inputs, baselines: Baselines, seed: int
    ) -> None:
        self._method = required_method(explain, name)
        self.score, self.inputs, self.baselines, self.seed = score, inputs, baselines, seed
        self.n_forwards, self.n_gradients = torch.zeros(2, 1, dtype=torch.long)

    def __call__(
        self, *, score: Score | None = None, inputs: Inputs | None = None, baselines: Baselines = None
    ) -> Attribution:
        """Explain the same with another score, other inputs or other baselines."""
        start = self.baselines if baselines is None else baselines
        asked = self.inputs if inputs is None else inputs
        result = self._method(score or self.score, asked, start, self.seed, support=False)
        self.n_forwards = self.n_forwards + result.n_forwards.cpu()
        self.n_gradients = self.n_gradients + result.n_gradients.cpu()
        return result


@dataclass(frozen=True, kw_only=True)
class ExplainingMeasure(NamedMeasure):
    """What our own measures share that explain again."""

    needs_method: ClassVar[bool] = True

    def _judge(self, again: Again, result: Attribution) -> Measured:
        """The values, with what they cost beside the explanations."""
        raise NotImplementedError

    def __call__(
        self,
        score: Score,
        inputs: Inputs,
        baselines: Baselines,
        result: Attribution,
        *,
        seed: int = 0,
        explain: Explain | None = None,
    ) -> Measured:
        """Values (batch,)."""
        again = Again(explain, self.name, score, inputs, baselines, seed)
        found = self._judge(again, result)
        costs = found.n_forwards + again.n_forwards, found.n_gradients + again.n_gradients
        return Measured.of(found.values, found.curves, *costs)


def measure_all(
    measures: Sequence[Measure],
    score: Score,
    inputs: Inputs,
    baselines: Baselines,
    result: Attribution,
    *,
    explain: Explain | None = None,
    seed: int = 0,
) -> list[Measured]:
    """Several measures of one explanation. Masking measures over one `Masking` run the model once between them.

    The first measure that needs a shared step counts its cost; for the others it is free.

    Args:
        explain: what made the explanation, for measures that explain again: a method, a solver or a function
            (score, inputs, baselines, seed) -> Attribution.

    Example:
        >>> import leastpath as lp
        >>> from leastpath.evaluation.masking import Comprehensiveness, LogOdds
        >>> score, inputs = lp.Score(torch.nn.Linear(8, 2).eval(), 1), torch.rand(3, 8)
        >>> result = lp.attribute(score, inputs, method=lp.StraightLine())
        >>> found = measure_all([Comprehensiveness(), LogOdds()], score, inputs, None, result)
        >>> [int(m.n_forwards[0]) > 0 for m in found]
        [True, False]
    """
    check_result(result)
    for measure in measures:
        if isinstance(measure, type):
            raise ValueError(f"{measure.__name__} is a class: pass an instance, {measure.__name__}()")
    staged: dict[Any, Any] = {}
    found = []
    for measure in measures:
        if isinstance(measure, Staged):
            paid = measure.stage_key in staged
            if not paid:
                staged[measure.stage_key] = measure.stage(score, inputs, baselines, result, seed)
            read = measure.read(staged[measure.stage_key])
            found.append(Measured.of(read.values, read.curves) if paid else read)
        elif needs_method(measure):
            method = required_method(explain, measure.name)
            anew: Any = measure
            found.append(anew(score, inputs, baselines, result, seed=seed, explain=method))
        else:
            found.append(measure(score, inputs, baselines, result, seed=seed))
    return found


def given_attribution(values: Inputs, score_change: Tensor | None = None) -> Attribution:
    """Attributions from elsewhere as a result that can be measured: values (batch, *features), or a tuple of such.

    Args:
        score_change: (batch,), f(x) − f(x̄). Without it, what depends on it is NaN.

    Example:
        >>> given_attribution(torch.tensor([[2.0, -1.0]]), torch.tensor([1.0])).cancellation
        tensor([2.])
    """
    parts = _parts(values)
    for part in parts:
        check_tensor("values", part)
    flat = torch.cat([flat_rows(part.detach()) for part in parts], 1)
    unknown = torch.full((len(flat),), torch.nan, dtype=flat.dtype, device=flat.device)
    change = unknown if score_change is None else score_change.to(flat)
    note = Note(
        Outcome.SOLVER_NOTE, "the values were given from outside, so their path and its certificate are not known"
    )
    none = torch.zeros(len(flat), dtype=torch.long)
    return without_path(
        values,
        flat.sum(1) - change,
        flat.abs().sum(1) - change.abs(),
        change,
        (Status((note,)),) * len(flat),
        n_gradients=none,
        n_forwards=none,
        method="given",
    )


def check_result(result: Any) -> None:
    check_kind("result", result, Attribution, "an Attribution: given_attribution(values)")


def read_attributions(bound: BoundScore, result: Attribution) -> Tensor:
    """The attributions as points of the explained space: (batch, *shape), finite and on its device."""
    check_result(result)
    parts, explained = _parts(result.values), _parts(bound.space.split(bound.space.points()))
    got, expected = (", ".join(str(tuple(part.shape)) for part in side) for side in (parts, explained))
    if got != expected:
        remedy = "pass the score and the inputs that the result was made for"
        raise ValueError(f"the attributions have shape {got}, what is explained has {expected}: {remedy}")
    joint = torch.cat([flat_rows(part) for part in parts], 1).detach().to(bound.device, bound.work_dtype)
    bad = ~torch.isfinite(joint).all(1)
    if bad.any():
        first = int(bad.nonzero()[0, 0])
        raise ValueError(f"the attributions of example {first} hold NaN or infinite values: see its status, or drop it")
    return joint.reshape(-1, *bound.shape)


def one_start(bound: BoundScore, inputs: Inputs, baselines: Baselines, what: str) -> Tensor:
    """The baselines as points (batch, *shape), for what can use only one per example."""
    m = baselines_per_example(baselines, inputs, bound.shape if bound.score.layer is not None else None)
    if m > 1:
        instead = 'Masking(fill="mean")'
        raise ValueError(f"{what} needs one baseline per example, got {m}: pass baselines[:, 0], or use {instead}")
    return bound.space.ends(baselines)[0]


def generators(inputs: Inputs, seed: int) -> list[torch.Generator]:
    """One random generator per example, seeded by the example itself.

    So noise differs between examples but not with their place in a batch: a batch gives what a loop gives, and methods
    are compared under the same noise. Equal examples get equal noise.
    """
    made = []
    for example in zip(*_parts(inputs), strict=True):
        values = [x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for x in example]
        made.append(torch.Generator().manual_seed((seed_of(seed) * 1_000_003 + zlib.crc32(b"".join(values))) % 2**63))
    return made


def _parts(inputs: Inputs) -> tuple[Tensor, ...]:
    return inputs if isinstance(inputs, tuple) else (inputs,)
