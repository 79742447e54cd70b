"""Methods that are a path and one integral: each is a solver given to `attribute`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any

from leastpath.attribution import attribute
from leastpath.integral.weightings import Weighting
from leastpath.result.attribution import Attribution
from leastpath.score.score import Baselines, Inputs, Score
from leastpath.solvers.solution import Solver

INTEGRAL: Mapping[str, Any] = {
    "metric": None, "geometry": None, "support": None, "tolerance": 0.01, "n_steps": None, "rule": "gauss_legendre",
    "max_gradients": None, "max_seconds": None, "measure": "all",
}  # fmt: skip
NEEDED = {  # what a method needs, and the settings that give it
    "points": ("data points", "points=train_inputs"),
    "decoder": ("an autoencoder", "encoder=vae.encoder, decoder=vae.decoder"),
}


@dataclass(frozen=True)
class PathExplainer:
    """`attribute` with one kind of solver. Settings are the solver's and the integral's.

    Where both have one of the same name (`max_gradients`, `tolerance`, `n_steps`), it is the integral's, unless `own`
    lists it. A solver made by hand, `solver=`, keeps all of its own.
    """

    name: str
    make: type[Solver]
    weighting: Weighting | None = None
    needs: tuple[str, ...] = ()  # settings of which one must be given
    own: tuple[str, ...] = ()  # settings that are the solver's where the integral has one of the same name
    changed: Mapping[str, Any] = field(default_factory=dict)  # defaults that differ from the solver's or integral's

    @property
    def defaults(self) -> dict[str, Any]:
        """All settings with their defaults."""
        own = {f.name: None if f.default is MISSING else f.default for f in fields(self.make)}  # type: ignore[arg-type]
        integral = {name: value for name, value in INTEGRAL.items() if name not in self.own}
        return {**own, **integral, "solver": None, **self.changed}

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines = None, *, seed: int, progress: bool, **settings: Any
    ) -> Attribution:
        integral = {name: settings.pop(name) for name in INTEGRAL if name not in self.own}
        if integral["tolerance"] is None:  # fixed steps: as many as the solver takes
            integral |= {name: settings[name] for name in self.own}
        solver = settings.pop("solver")
        if solver is None and self.needs and all(settings[name] is None for name in self.needs):
            what, given = NEEDED[self.needs[0]]
            raise ValueError(f"{self.name} needs {what}: pass {self.needs[0]}, as in method(score, inputs, {given})")
        return attribute(
            score, inputs, baselines, solver=solver or self.make(**settings), weighting=self.weighting,
            seed=seed, progress=progress, **integral,
        )  # fmt: skip


@dataclass(frozen=True)
class SolverExplainer:
    """`attribute` with a solver that somebody made. Settings are the integral's, and fields of the solver.

    Where both have one of the same name it is the integral's; the solver keeps its own.
    """

    solver: Solver

    @property
    def defaults(self) -> dict[str, Any]:
        """All settings with their defaults."""
        solver: Any = self.solver
        own = [f.name for f in fields(solver) if f.init] if is_dataclass(solver) else []
        return {**{name: getattr(solver, name) for name in own}, **INTEGRAL}

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines = None, *, seed: int, progress: bool, **settings: Any
    ) -> Attribution:
        integral = {name: settings.pop(name) for name in INTEGRAL}
        solver = replace(self.solver, **settings) if settings else self.solver  # type: ignore[type-var]
        return attribute(score, inputs, baselines, solver=solver, seed=seed, progress=progress, **integral)
