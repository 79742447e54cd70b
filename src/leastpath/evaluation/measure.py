"""Measure: a number per example that says how good its explanation is, and what it cost to find out."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

import torch
from torch import Tensor

from leastpath.attribution import Attribution, without_path
from leastpath.bound import BoundScore
from leastpath.explainer import Explainer, explainer_of
from leastpath.guards import Baselines, Inputs, baselines_per_example
from leastpath.methods.method import Method
from leastpath.score import Score
from leastpath.solution import Solver
from leastpath.status import Note, Outcome, Status

INSTEAD = 'mask with another fill, Masking(fill="mean")'

Explain = str | Method | Solver | Callable[[Score, Inputs, Baselines, int], Attribution]
"""How robustness measures explain anew: a method or its name, a solver, or a function (score, inputs, baselines, seed)
-> Attribution."""


@dataclass(frozen=True)
class Measured:
    """What a measure found for a batch.

    Example:
        >>> Measured.of(torch.tensor([0.2, 0.4])).n_forwards
        tensor([0, 0])
    """

    values: Tensor
    """(batch,): one number an example; NaN where the measure is not defined, which its documentation explains."""
    curves: Mapping[str, Tensor]
    """Curves behind the values: (batch, points) each, and "x", their common axis (points,). Empty where there is none.
    """
    n_forwards: Tensor
    """(batch,) int64: model evaluations without gradient."""
    n_gradients: Tensor
    """(batch,) int64: model gradients."""

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
        for name, part in (("values", self.values), ("n_forwards", self.n_forwards), ("n_gradients", self.n_gradients)):
            if part.shape != (len(self.values),):
                raise ValueError(f"{name} has shape {tuple(part.shape)}, expected one number an example: (batch,)")


@runtime_checkable
class Measure(Protocol):
    """A frozen dataclass of settings with one call. Values of a batch are those of a loop over its examples.

    What it may declare besides: `ExplainsAnew`, `HoldsExamples`, `Staged`.

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
        """Whether a larger value speaks for the explanation."""

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Judge the explanation `result` of these inputs."""


@runtime_checkable
class ExplainsAnew(Measure, Protocol):
    """A measure that explains other inputs too, with the method that it judges: all of robustness does.

    Example:
        >>> from leastpath.evaluation import Comprehensiveness, MaxSensitivity
        >>> needs_method(MaxSensitivity()), needs_method(Comprehensiveness())
        (True, False)
    """

    @property
    def needs_method(self) -> bool:
        """True: it must be called with `explain=`."""

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
        """Judge the explanation `result` of these inputs, which `explain` made."""


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
        """The first step: everything that runs the model."""

    def read(self, staged: Any) -> Measured:
        """The second step: this measure's numbers out of what the first one found."""


def needs_method(measure: Measure) -> TypeGuard[ExplainsAnew]:
    """Whether a measure explains anew and must be called with `explain=`. One that does not say so does not."""
    return isinstance(measure, ExplainsAnew) and measure.needs_method


def required_method(explain: Explain | None, name: str) -> Explainer:
    """How to explain anew, which the measure `name` cannot do without."""
    if explain is None:
        raise ValueError(
            f'{name} explains anew: pass explain=METHODS["…"], or a function (score, inputs, baselines, seed) -> '
            "Attribution"
        )
    return explainer_of(explain, name)


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

    What is shared is charged to the first measure that needed it; the others then cost nothing.

    Args:
        explain: how the explanation was made, a method, a solver or (score, inputs, baselines, seed) -> Attribution;
            for measures that explain anew.

    Example:
        >>> import leastpath as lp
        >>> from leastpath.evaluation.masking import Comprehensiveness, LogOdds
        >>> score, inputs = lp.Score(torch.nn.Linear(8, 2).eval(), 1), torch.rand(3, 8)
        >>> result = lp.attribute(score, inputs, solver=lp.StraightLine())
        >>> found = measure_all([Comprehensiveness(), LogOdds()], score, inputs, None, result)
        >>> [int(m.n_forwards[0]) > 0 for m in found]
        [True, False]
    """
    staged: dict[Any, Any] = {}
    found = []
    for measure in measures:
        if isinstance(measure, Staged):
            key = measure.stage_key
            if key in staged:
                shared = measure.read(staged[key])
                free = torch.zeros_like(shared.n_forwards)
                found.append(Measured(shared.values, shared.curves, free, free.clone()))
                continue
            staged[key] = measure.stage(score, inputs, baselines, result, seed)
            found.append(measure.read(staged[key]))
        elif needs_method(measure):
            anew = required_method(explain, measure.name)
            found.append(measure(score, inputs, baselines, result, seed=seed, explain=anew))
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
    parts = values if isinstance(values, tuple) else (values,)
    for part in parts:
        if not isinstance(part, Tensor):
            raise ValueError(f"values is a {type(part).__name__}, expected a tensor: use torch.as_tensor(values)")
    flat = torch.cat([part.detach().reshape(len(part), -1) for part in parts], 1)
    unknown = torch.full((len(flat),), torch.nan, dtype=flat.dtype, device=flat.device)
    change = unknown if score_change is None else score_change.to(flat)
    note = Note(Outcome.SOLVER_NOTE, "the values were given from outside, so nothing certifies them")
    none = torch.zeros(len(flat), dtype=torch.long)
    return without_path(
        values,
        flat.sum(1) - change,
        flat.abs().sum(1) - change.abs(),
        change,
        (Status((note,)),) * len(flat),
        n_gradients=none,
        n_forwards=none,
        solver="given",
    )


def checked_attributions(bound: BoundScore, result: Attribution) -> Tensor:
    """The attributions as points of the explained space: (batch, *shape), finite and on its device."""
    if not isinstance(result, Attribution):
        raise ValueError(
            f"result is a {type(result).__name__}, expected an Attribution: given_attribution(values) makes one of a "
            "tensor"
        )
    parts = result.values if isinstance(result.values, tuple) else (result.values,)
    expected = bound.split(bound.explained())
    shapes = [tuple(part.shape) for part in (expected if isinstance(expected, tuple) else (expected,))]
    if [tuple(part.shape) for part in parts] != shapes:
        got = ", ".join(str(tuple(part.shape)) for part in parts)
        raise ValueError(
            f"the attributions have shape {got}, what is explained has {', '.join(map(str, shapes))}: "
            "measure the result with the score and inputs that it was made for"
        )
    joint = torch.cat([part.reshape(len(part), -1) for part in parts], 1) if len(parts) > 1 else parts[0]
    joint = joint.detach().to(bound.device, bound.work_dtype)
    bad = ~torch.isfinite(joint).reshape(len(joint), -1).all(1)
    if bad.any():
        raise ValueError(
            f"the attributions of example {int(bad.nonzero()[0, 0])} hold NaN or infinite values, which rank nothing: "
            "explain it again (its status says what happened), or drop it"
        )
    return joint.reshape(-1, *bound.shape)


def one_start(bound: BoundScore, inputs: Inputs, baselines: Baselines, what: str) -> Tensor:
    """The baselines as points (batch, *shape), for what can use only one an example."""
    m = baselines_per_example(baselines, inputs, bound.shape if bound.score.layer is not None else None)
    if m > 1:
        raise ValueError(
            f"{what} needs one baseline an example, got {m}: pass one, as in baselines[:, 0], or {INSTEAD}"
        )
    return bound.ends(baselines)[0]


def generators(inputs: Inputs, seed: int) -> list[torch.Generator]:
    """One random generator an example, seeded by the example itself.

    Noise then differs between examples, and yet does not depend on their place in a batch: a batch gives what a loop
    gives, and methods are compared under the same noise. Equal examples get equal noise.
    """
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    rows = []
    for b in range(len(parts[0])):
        digest = 0
        for part in parts:
            digest = zlib.crc32(
                part[b].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(), digest
            )
        rows.append(torch.Generator().manual_seed((seed * 1_000_003 + digest) % 2**63))
    return rows
