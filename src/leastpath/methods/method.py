"""Method: one way to explain, which knows its name, its settings, its cost and what it fits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_setting, kinds_of, show_value
from leastpath._support.registry import Registry
from leastpath.account.run import Bar, Run
from leastpath.features.groups import Kind
from leastpath.geometry.path import Path
from leastpath.result.attribution import Attribution
from leastpath.result.status import Note
from leastpath.score.baselines import Several
from leastpath.score.calls import class_scores, ordinary
from leastpath.score.score import Baselines, BoundScore, Inputs, Score, bind_paths


@dataclass(frozen=True)
class Problem:
    """What is explained, as points of one space: (rows, *shape), one row per example and baseline.

    Row b · m + j is baseline j of example b.
    """

    score: Score
    bound: BoundScore
    inputs: Inputs  # as the user gave them
    baselines: Baselines
    start: Tensor  # (rows, *shape)
    end: Tensor  # (rows, *shape)
    m: int  # baselines per example
    run: Run
    bar: Bar = field(default_factory=Bar)  # of a method that shows its progress by rows
    classes: Tensor | None = None  # explained at once, by methods that say `every_class`

    @classmethod
    def bind(cls, score: Score, inputs: Inputs, baselines: Baselines, run: Run) -> Problem:
        """The score over a batch, an example counted once for each of its baselines."""
        bound, start, end, m = bind_paths(score, inputs, baselines)
        return cls(score, bound, inputs, baselines, ordinary(start), ordinary(end), m, run)

    def __len__(self) -> int:
        return len(self.end)

    @property
    def seed(self) -> int:
        """Of everything random."""
        return self.run.seed

    @cached_property
    def change(self) -> Tensor:
        """(rows, …) f(end) − f(start)."""
        rows = torch.arange(len(self.end))
        return (self.scores(self.end, rows) - self.scores(self.start, rows)).detach()

    def scores(self, points: Tensor, rows: Tensor) -> Tensor:
        """f at points (n, *shape) of rows (n,): (n,), or that of all `classes`: (n, classes)."""
        if self.classes is None:
            return self.bound.values(points, rows)
        output = self.bound.outputs(points, rows)
        return class_scores(output, self.score.output)[:, self.classes.to(output.device)]

    def mean(self, of_rows: Tensor) -> Tensor:
        """(rows, …) -> (examples, …), the mean over each example's baselines."""
        return of_rows if self.m == 1 else of_rows.unflatten(0, (-1, self.m)).mean(1)

    def count(self, counts: Tensor) -> Tensor:
        """(rows,) -> (examples,) int64 with the same sum: gradients that several examples share come in fractions."""
        if len(counts) == 1:  # nothing is shared
            return counts.round().long()
        edges = np.rint(np.concatenate([[0.0], np.cumsum(counts.numpy())]))
        return torch.as_tensor(np.diff(edges).astype(np.int64).reshape(-1, self.m).sum(1))

    def spread(self, of_rows: Tensor) -> Tensor | None:
        """(rows, …) -> (examples, …), the standard deviation between an example's baselines; None if it has one."""
        return None if self.m == 1 else of_rows.unflatten(0, (-1, self.m)).std(1)


@dataclass(frozen=True)
class Along:
    """What only a method with a path knows, of each row."""

    path: Path
    line: Tensor  # (rows, *shape) attributions along the straight line, NaN where they were not measured
    gap: Tensor  # (rows,) of the integral
    length: Tensor
    length_error: Tensor
    length_ratio: Tensor
    certificate: Tensor
    attribution_error: Tensor
    gradients: Tensor  # (rows,) float64, those of a shared segment split
    samples: Sequence[Tensor] = ()  # (rows, *shape) attributions along further paths
    geometry: str = "none"
    metric: str = "none"
    interrupted: bool = False


@dataclass(frozen=True)
class Explained:
    """What a method found. Rows are those of the problem."""

    values: Tensor  #: (rows, *shape)
    stats: Mapping[str, Any] = field(default_factory=dict)  #: becomes `result.stats`
    remarks: Sequence[str] = ()  #: a sentence for each row, which may be empty
    change: Tensor | None = None  #: (rows,), the change of score to add up to; None: that between the ends
    uses_all_baselines: bool = False  #: the m rows of an example are one answer from all its baselines, m times
    notes: Sequence[tuple[Note, ...]] = ()  #: for each row, what the user should know, where remarks do not say it
    path_spread: Tensor | None = None  #: (rows, *shape), the standard error of values that were sampled
    certificate: Tensor | None = None  #: (rows,), of a method without one path that walks many
    along: Along | None = None  #: what is known of a path; None for methods without one
    run: Run | None = None  #: of a call with limits of its own, for the test's part of them
    described: str = ""  #: what the result calls the method, with its settings
    whole: Attribution | None = None  #: the answer of a function that gives results itself


Role = Literal["path", "weighting", "peer", "floor"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LIBRARIES = {"svi": "pyro"}  # of extras that are not called like the library that they bring
Cost = Callable[[Sequence[int], Mapping[str, Any]], "tuple[int, int] | None"]
"""From the shape of an input and the settings to gradients and forwards per baseline; None: nobody knows beforehand."""


@runtime_checkable
class Checks(Protocol):
    """What a method's explain may declare: settings that it refuses before the model runs."""

    def check(self, score: Score, settings: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, eq=False, repr=False)
class Method:
    """One way to explain a score: call it like `attribute`, get an `Attribution`.

    Args:
        name: key of the table, e.g. "guided_ig".
        title: as tables print it, e.g. "Guided IG".
        role: "path" (a path and the line integral), "weighting" (a path and another integrand), "peer" (no path:
            Captum's attributions, for instance), "floor" (what every method must beat).
        summary: one sentence.
        complete: whether attributions add up to f(x) − f(x̄), up to the error of the integral.
        unitless: whether they stay the same where a feature (of pictures, a channel) is given in another unit.
        explain: the function that is called: `explain(problem, **settings) -> Explained`.
        defaults: all settings with their defaults.
        takes_baselines: whether baselines may be given; a method that chooses its own start refuses them.
        extra: the extra of `pip install leastpath[extra]` that it needs, or None.
        needs: settings of which one must be given.
        fits: the kinds of input that it is made for.
        recommended: those of them for which the documentation recommends it.
        costs: see `cost`.
        settings_by_kind: other defaults for some kinds of input.
        every_class: whether one pass of forwards can serve all classes (`lp.every_class`).

    Example:
        >>> import leastpath as lp, torch
        >>> lp.METHODS["integrated_gradients"](lp.Score(lambda x: x.prod(1)), torch.ones(1, 2)).values
        tensor([[0.5000, 0.5000]])
    """

    name: str
    title: str
    role: Role
    summary: str
    complete: bool
    explain: Callable[..., Explained]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    extra: str | None = None
    unitless: bool = False
    takes_baselines: bool = True
    needs: tuple[str, ...] = ()
    fits: tuple[Kind, ...] = KINDS
    recommended: tuple[Kind, ...] = ()
    costs: Cost | tuple[int, int] | None = None
    settings_by_kind: Mapping[Kind, Mapping[str, Any]] = field(default_factory=dict)
    every_class: bool = False

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines | Several = None, **settings: Any
    ) -> Attribution:
        """Explain inputs (batch, *features): `lp.attribute(score, inputs, baselines, method=self, **settings)`."""
        # Called by itself, a method is a door to the verb, which stands above it.
        from leastpath import attribute

        result: Attribution = attribute(score, inputs, baselines, method=self, **settings)
        return result

    @property
    def has_path(self) -> bool:
        """Whether its values come from a path that can be walked."""
        return self.role in ("path", "weighting")

    @property
    def is_installed(self) -> bool:
        """Whether the library is there that its extra brings."""
        return self.extra is None or find_spec(LIBRARIES.get(self.extra, self.extra)) is not None

    def check(self, score: Score, baselines: Baselines | Several, settings: Mapping[str, Any]) -> None:
        """Refuse what cannot work, before the model runs."""
        if not self.takes_baselines and baselines is not None:
            raise ValueError(
                f"{self.name} chooses its own start, so baselines cannot be given: attribute(score, inputs, method=…)"
            )
        given = self.with_settings(**settings).defaults
        explain: Any = self.explain
        if isinstance(explain, Checks):
            explain.check(score, given)

    def with_settings(self, **settings: Any) -> Method:
        """The same method with other defaults.

        Example:
            >>> import leastpath as lp
            >>> lp.METHODS["integrated_gradients"].with_settings(tolerance=None, n_steps=50).defaults["n_steps"]
            50
        """
        unknown = sorted(set(settings) - set(self.defaults))
        if unknown:
            has = ", ".join(sorted(self.defaults)) or "none"
            raise ValueError(f"{self.name} has no setting {unknown[0]!r}: it has {has}")
        return replace(self, defaults={**self.defaults, **settings})

    def settings_for(self, kind: Kind) -> dict[str, Any]:
        """All settings with their defaults for a kind of input.

        Example:
            >>> import leastpath as lp
            >>> lp.METHODS["staircase"].settings_for("image")["n_orders"]
            4
        """
        return {**self.defaults, **self.settings_by_kind.get(kind, {})}

    def cost(self, shape: Sequence[int], max_gradients: float | None = None) -> tuple[int, int] | None:
        """About how many gradients and forwards it takes per example and baseline. None: nobody knows beforehand.

        Args:
            shape: of an input, without the batch.
            max_gradients: a limit that the user set.

        Example:
            >>> import leastpath as lp
            >>> lp.METHODS["saliency"].cost((3, 128, 128)), lp.METHODS["staircase"].cost((10,))
            ((1, 1), (0, 80))
        """
        if self.costs is None or isinstance(self.costs, tuple):
            return self.costs
        limit = (
            {} if max_gradients is None or "max_gradients" not in self.defaults else {"max_gradients": max_gradients}
        )
        return self.costs(shape, {**self.defaults, **limit})

    def __repr__(self) -> str:
        return f"Method({self.name!r}: {self.title}, {self.role}, {'complete' if self.complete else 'not complete'})"


# ---- making one --------------------------------------------------------------------------------------------------


def method(
    title: str,
    summary: str,
    *,
    complete: bool = False,
    role: Role = "peer",
    cost: Cost | tuple[int, int] | None = None,
    **more: Any,
) -> Callable[[Callable[..., Explained]], Method]:
    """Make a `Method` of a function `(problem, *, settings) -> Explained`, which finds values without a path.

    The function's name is the method's, and its keyword-only parameters are its settings. The arguments, and
    `more`, are those of `Method`; `cost` is a function, or (gradients, forwards) per baseline.

    Example:
        >>> import leastpath as lp
        >>> @method("Scaled change", "The difference from the baseline, times a number.")
        ... def scaled_change(problem: Problem, *, scale: float = 1.0) -> Explained:
        ...     return Explained(scale * (problem.end - problem.start))
        >>> scaled_change(lp.Score(lambda x: x.sum(1)), torch.ones(1, 2), scale=3.0).values
        tensor([[3., 3.]])
    """

    def make(function: Callable[..., Explained]) -> Method:
        name = function.__name__
        # The module has the Method under this name: so pickle finds the function as its attribute.
        function.__qualname__ = f"{function.__qualname__}.explain.function"
        explain, defaults = Rowwise(name, function), settings_of(function)
        made = Method(name, title, role, summary, complete, explain, defaults, costs=cost, **more)
        object.__setattr__(made, "__doc__", function.__doc__)  # what help() and the reference show
        return made

    return make


@dataclass(frozen=True, eq=False)
class Rowwise:
    """A function `(problem, **settings) -> Explained` without a path, with a progress bar and its name for results."""

    name: str
    function: Callable[..., Explained]

    def check(self, score: Score, settings: Mapping[str, Any]) -> None:
        """Refuse settings that are not what the function's types say, before the model runs."""
        for name, kind in kinds_of(self.function).items():
            if name in settings and name != "groups":  # `attribute` has checked these
                check_setting(f"{self.name}: {name}", settings[name], kind)

    def __call__(self, problem: Problem, **settings: Any) -> Explained:
        problem.change  # noqa: B018 - before the function, which may change what the model counts
        bar = problem.run.bar(self.name, len(problem))
        # Captum differentiates: the caller's gradient mode must not reach it.
        with torch.inference_mode(False), torch.enable_grad(), bar as shown_bar:
            explained = self.function(replace(problem, bar=shown_bar), **settings)
        return replace(explained, described=describe(self.name, settings))


@dataclass(frozen=True, eq=False)
class Whole:
    """A function `(score, inputs, baselines, *, seed, progress, **settings) -> Attribution` as a method's explain."""

    name: str
    function: Callable[..., Attribution]

    def __call__(self, problem: Problem, **settings: Any) -> Explained:
        run = problem.run
        result = self.function(
            problem.score, problem.inputs, problem.baselines, seed=run.seed, progress=run.progress, **settings
        )
        if not isinstance(result, Attribution):
            raise ValueError(f"{self.name} returned a {type(result).__name__}, expected an Attribution")
        return Explained(problem.end, whole=result)


def describe(name: str, settings: Mapping[str, Any]) -> str:
    """What a result calls a method: its name, and its settings where they can be written.

    Example:
        >>> describe("occlusion", {"window": 8, "groups": torch.zeros(2)})
        'occlusion(window=8, groups=given)'
    """

    def write(value: Any) -> str:
        if isinstance(value, Tensor):
            return "given"
        return type(value).__name__ if isinstance(value, torch.nn.Module) else show_value(value)

    return f"{name}({', '.join(f'{key}={write(value)}' for key, value in settings.items())})"


def settings_of(explain: Callable[..., Any]) -> dict[str, Any]:
    """The keyword-only parameters of an explaining function with their defaults, without seed and progress."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(explain).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in ("seed", "progress")
    }


# ---- the table ---------------------------------------------------------------------------------------------------


class Methods(Registry[Method]):
    """The table name -> Method, in the order in which reports show it. `register` adds to it, and so do installed
    packages by entry points of the group `leastpath.methods`; nothing is ever removed.

    Example:
        >>> import leastpath as lp
        >>> "random" in lp.METHODS, lp.METHODS["random"].role
        (True, 'floor')
    """

    def fitting(self, kind: Kind) -> list[Method]:
        """The methods that are made for a kind of input and need nothing that only their user has; the recommended
        ones first.

        Example:
            >>> import leastpath as lp
            >>> [method.name for method in lp.METHODS.fitting("few")][:2]
            ['integrated_gradients', 'occlusion']
        """
        found = [method for method in self.values() if kind in method.fits and not method.needs]
        return sorted(found, key=lambda method: kind not in method.recommended)

    def __repr__(self) -> str:
        rows = [f"  {m.name:<22}{m.role:<11}{m.title}" for m in self.values()]
        return "\n".join([f"{len(self)} methods", *rows])
