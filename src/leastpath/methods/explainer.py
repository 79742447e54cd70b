"""Explainer: a method's name, a `Method`, a solver or a function as one kind of object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from leastpath._support.fingerprint import described
from leastpath.attribution import attribute
from leastpath.methods import METHODS, Method
from leastpath.result.attribution import Attribution
from leastpath.result.status import finished
from leastpath.score.score import Baselines, Inputs, Score
from leastpath.solvers.solution import Solver, chooses_start

Contender = str | Method | Solver | Callable[[Score, Inputs, Baselines, int], Attribution]
"""What `explainer_of` takes."""


@dataclass(frozen=True)
class Explainer:
    """A method under a name. Called with (score, inputs, baselines, seed).

    Example:
        >>> import leastpath as lp, torch
        >>> explain = explainer_of(lp.StraightLine())
        >>> explain.name, explain(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), None, 0).values.shape
        ('StraightLine', torch.Size([1, 2]))
    """

    name: str
    explain: Callable[[Score, Inputs, Baselines, int], Attribution]
    depends_on: Any
    """All that its results depend on."""

    @cached_property
    def what(self) -> Any:
        """A description as JSON, from `fingerprint.described`."""
        return described(self.depends_on)

    def __call__(self, score: Score, inputs: Inputs, baselines: Baselines, seed: int) -> Attribution:
        """Explain inputs (batch, *features). Raises KeyboardInterrupt if Ctrl-C ended the work early."""
        result = self.explain(score, inputs, baselines, seed)
        if not isinstance(result, Attribution):
            raise ValueError(f"{self.name} returned a {type(result).__name__}, expected an Attribution")
        return finished(result)


def explainer_of(given: Contender, name: str | None = None, **settings: Any) -> Explainer:
    """A name of `leastpath.methods.METHODS`, a `Method`, a solver, or a callable
    `(score, inputs, baselines, seed) -> Attribution`, as an explainer.

    Args:
        given: what explains.
        name: what to call it; a callable needs one.
        settings: of a method that the table has.
    """
    if isinstance(given, str):
        given = METHODS[given]
    if isinstance(given, Method):
        method = given.with_settings(**settings)
        # A user's own method is also described by its code, as another method may get the same name.
        code = [] if method.name in METHODS.built_in else [method.explain]
        return Explainer(name or method.name, partial(_call, method), [method.name, method.defaults, *code])
    if settings:
        raise ValueError(f"settings {sorted(settings)} are for methods that have a name: give {given!r} its own")
    if isinstance(given, type):
        raise ValueError(f"{given.__name__} is a class: pass an instance, {given.__name__}()")
    if isinstance(given, Solver):
        return Explainer(name or type(given).__name__, partial(_solve, given), given)
    if not callable(given):
        raise ValueError(
            f"{given!r} is not a method: pass a name of leastpath.methods.METHODS, a Method, a solver, or a callable "
            "(score, inputs, baselines, seed) -> Attribution"
        )
    if name is None:
        raise ValueError(f"the method {given!r} needs a name: pass a mapping, methods={{'mine': …}}")
    return Explainer(name, given, given)


# Functions of the module and not closures, so that they can be pickled for other processes.


def _call(method: Method, score: Score, inputs: Inputs, baselines: Baselines, seed: int) -> Attribution:
    return method(score, inputs, baselines if method.takes_baselines else None, seed=seed)


def _solve(solver: Solver, score: Score, inputs: Inputs, baselines: Baselines, seed: int) -> Attribution:
    given = None if chooses_start(solver) else baselines  # such a solver refuses baselines
    return attribute(score, inputs, given, solver=solver, seed=seed)
