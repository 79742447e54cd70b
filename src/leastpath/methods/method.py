"""Method: one way to explain, with its name, its settings and what may be expected of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from leastpath._support.checks import seed_of
from leastpath.result.attribution import Attribution
from leastpath.score.baselines import Several
from leastpath.score.score import Baselines, Inputs, Score

Kind = Literal["path", "weighting", "peer", "floor"]


@dataclass(frozen=True, eq=False, repr=False)
class Method:
    """One way to explain a score: call it like `attribute`, get an `Attribution`.

    Args:
        name: key of the table, e.g. "guided_ig".
        title: as tables print it, e.g. "Guided IG".
        kind: "path" (a path and the line integral), "weighting" (a path and another integrand), "peer" (no path:
            Captum's attributions, for instance), "floor" (what every method must beat).
        summary: one sentence.
        complete: whether attributions add up to f(x) − f(x̄), up to the error of the integral.
        explain: the function that is called: `explain(score, inputs, baselines, seed=…, progress=…, **settings)`.
        defaults: all settings with their defaults.
        takes_baselines: whether baselines may be given; a method that chooses its own start refuses them.
        extra: the extra of `pip install leastpath[extra]` that it needs, or None.

    Example:
        >>> import leastpath as lp, torch
        >>> from leastpath.methods import METHODS
        >>> METHODS["integrated_gradients"](lp.Score(lambda x: x.prod(1)), torch.ones(1, 2)).values
        tensor([[0.5000, 0.5000]])
    """

    name: str
    title: str
    kind: Kind
    summary: str
    complete: bool
    explain: Callable[..., Attribution]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    extra: str | None = None
    takes_baselines: bool = True

    def __call__(
        self,
        score: Score,
        inputs: Inputs,
        baselines: Baselines | Several = None,
        *,
        seed: int = 0,
        progress: bool = False,
        **settings: Any,
    ) -> Attribution:
        """Explain inputs (batch, *features); `settings` are those named in `defaults`."""
        if not isinstance(score, Score):
            raise ValueError(f"score is a {type(score).__name__}, expected a Score: use lp.Score(model, target)")
        given = self.with_settings(**settings).defaults
        if isinstance(baselines, Several):
            baselines = baselines.of(inputs, score)
        return self.explain(score, inputs, baselines, seed=seed_of(seed), progress=progress, **given)

    def with_settings(self, **settings: Any) -> Method:
        """The same method with other defaults.

        Example:
            >>> from leastpath.methods import METHODS
            >>> METHODS["integrated_gradients"].with_settings(tolerance=None, n_steps=50).defaults["n_steps"]
            50
        """
        unknown = sorted(set(settings) - set(self.defaults))
        if unknown:
            raise ValueError(f"{self.name} has no setting {unknown[0]!r}: it has {', '.join(sorted(self.defaults))}")
        return replace(self, defaults={**self.defaults, **settings})

    def __repr__(self) -> str:
        return f"Method({self.name!r}: {self.title}, {self.kind}, {'complete' if self.complete else 'not complete'})"


def settings_of(explain: Callable[..., Attribution]) -> dict[str, Any]:
    """The keyword-only parameters of an explaining function with their defaults, without seed and progress."""
    return {
        name: parameter.default
        for name, parameter in inspect.signature(explain).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in ("seed", "progress")
    }


class UnknownMethod(KeyError, ValueError):
    """The table has no method of this name. It is a KeyError, so `in` and `.get` work as in any mapping.

    Example:
        >>> from leastpath.methods import METHODS
        >>> METHODS.get("magic") is None
        True
    """

    def __str__(self) -> str:  # KeyError would show the repr of the sentence
        return str(self.args[0])


class Methods(Mapping[str, Method]):
    """A table name -> Method, in the order in which reports show it. `register` adds to it; nothing is ever removed.

    Example:
        >>> from leastpath.methods import METHODS
        >>> "random" in METHODS, METHODS["random"].kind
        (True, 'floor')
    """

    def __init__(self, methods: tuple[Method, ...]) -> None:
        self._methods = {method.name: method for method in methods}
        self.built_in = frozenset(self._methods)
        """Names whose meaning no user can change."""

    def add(self, method: Method) -> None:
        """Add a method of a user's own. Adding its name again replaces it."""
        if method.name in self.built_in:
            raise ValueError(f"{method.name!r} is a method of leastpath itself: give yours another name")
        if not re.fullmatch(r"[\w.-]+", method.name):
            raise ValueError(f"{method.name!r} is not a method's name: use letters, digits, '_', '-' and '.' only")
        self._methods[method.name] = method

    def __getitem__(self, name: str) -> Method:
        if name not in self._methods:
            known, own = ", ".join(self._methods), "in every process that asks for it, by leastpath.methods.register"
            raise UnknownMethod(f"no method is called {name!r}: use one of {known}; or add yours, {own}")
        return self._methods[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    def __repr__(self) -> str:
        rows = [f"  {m.name:<22}{m.kind:<11}{m.title}" for m in self.values()]
        return "\n".join([f"{len(self)} methods", *rows])
