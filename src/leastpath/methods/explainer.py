"""Explainer: a method's name, a `Method`, a solver or a function as one kind of object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from leastpath._support.fingerprint import describe
from leastpath.methods.method import Method
from leastpath.methods.table import METHODS, method_of
from leastpath.result.attribution import Attribution
from leastpath.result.status import finished
from leastpath.score.baselines import Several
from leastpath.score.score import Baselines, Inputs, Score
from leastpath.solvers.solution import Solver

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
    explain: Callable[[Score, Inputs, Any, int], Attribution]
    depends_on: Any
    """All that its results depend on."""
    takes_support: bool = False  #: whether its test can be left out

    @cached_property
    def what(self) -> Any:
        """A description as JSON, from `fingerprint.described`."""
        return describe(self.depends_on)

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines | Several, seed: int, *, support: bool = True
    ) -> Attribution:
        """Explain inputs (batch, *features). Raises KeyboardInterrupt if Ctrl-C ended the work early.

        Without `support`, a method of ours leaves out its test: whoever calls has one of its own.
        """
        explain: Callable[..., Attribution] = self.explain
        untested = {"support": False} if self.takes_support and not support else {}
        result = explain(score, inputs, baselines, seed, **untested)
        if not isinstance(result, Attribution):
            raise ValueError(f"{self.name} returned a {type(result).__name__}, expected an Attribution")
        return finished(result)


def explainer_of(given: Contender, name: str | None = None, **settings: Any) -> Explainer:
    """A name of the table, a `Method`, a solver, or a callable `(score, inputs, baselines, seed) -> Attribution`.

    Args:
        given: what explains.
        name: what to call it; a callable needs one.
        settings: of a method that the table has.
    """
    if isinstance(given, str | Method | Solver | type):
        method = method_of(given)
        if settings and isinstance(given, Solver):
            raise ValueError(f"settings {sorted(settings)} are for methods that have a name: give {given!r} its own")
        method = method.with_settings(**settings)
        if isinstance(given, Solver):
            return Explainer(name or method.name, partial(_call, method), given, takes_support=True)
        # A user's own method is also described by its code, as another method may get the same name.
        code = [] if method.name in METHODS.built_in else [method.explain]
        depends_on = [method.name, method.defaults, *code]
        return Explainer(name or method.name, partial(_call, method), depends_on, takes_support=True)
    if settings:
        raise ValueError(f"settings {sorted(settings)} are for methods that have a name: give {given!r} its own")
    if not callable(given):
        raise ValueError(
            f"{given!r} is not a method: pass a name of lp.METHODS, a Method, a solver, or a callable "
            "(score, inputs, baselines, seed) -> Attribution"
        )
    if name is None:
        raise ValueError(f"the method {given!r} needs a name: pass a mapping, methods={{'mine': …}}")
    return Explainer(name, given, given)


# A function of the module and not a closure, so that it can be pickled for other processes.


def _call(
    method: Method, score: Score, inputs: Inputs, baselines: Baselines, seed: int, support: bool = True
) -> Attribution:
    return method(score, inputs, baselines if method.takes_baselines else None, seed=seed, support=support)
