"""The calls of `same_numbers.py` that are about the settings of `lp.attribute`: metrics, outputs, budgets, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from same_numbers_calls import SOLVERS, Call, attribute, bent, problem_of
from same_numbers_problems import Problem, mlp, normal
from torch import nn

import leastpath as lp

METRICS: dict[str, Callable[[Problem], Any]] = {
    "damped conformal": lambda p: lp.Conformal(0.1),
    "rank one": lambda p: lp.RankOne(),
    "damped rank one": lambda p: lp.RankOne(0.05),
    "no cancellation": lambda p: lp.NoCancellation(),
    "euclidean": lambda p: lp.Euclidean(),
    "density": lambda p: lp.DataDensity(p.points),
    "reconstruction": lambda p: lp.Reconstruction(nn.Identity().eval(), bent, 0.5),
    "mixed": lambda p: lp.Mixed(lp.Conformal(), lp.DataDensity(p.points, 1.0), 0.3),
    "fisher": lambda p: lp.Fisher(),
    "pull-back of logits": lambda p: lp.Pullback(),
    "pull-back of softmax": lambda p: lp.Pullback(0.01, outputs="softmax"),
    "pull-back of a layer": lambda p: lp.Pullback(layer=p.score.model[1]),
}
MEASURED = {
    "moons": ("straight", "elastic", "descent", "graph"),
    "few": ("straight", "elastic"),
    "images": ("default",),
}
OUTPUTS = ("raw", "softmax", "log_softmax", "sigmoid", "logit_margin")
EXPLAINED = {"moons": "descent", "few": "default", "images": "elastic", "tokens": "straight"}

Make = Callable[[Problem], dict[str, Any]]
SETTINGS: dict[str, Make] = {
    "tolerance 0.1": lambda p: {"tolerance": 0.1},
    "tolerance 0.001": lambda p: {"tolerance": 0.001, "n_steps": 20},
    "5 steps": lambda p: {"tolerance": None, "n_steps": 5},
    "30 steps, midpoint": lambda p: {"tolerance": None, "n_steps": 30, "rule": "midpoint"},
    "30 steps, trapezoid": lambda p: {"tolerance": None, "n_steps": 30, "rule": "trapezoid"},
    "midpoint": lambda p: {"rule": "midpoint"},
    "idgi": lambda p: {"weighting": lp.IDGI()},
    "idg": lambda p: {"weighting": lp.IDG(), "tolerance": None, "n_steps": 30},
    "as printed": lambda p: {"weighting": lp.AsPrinted(), "tolerance": None, "n_steps": 30},
    "as printed, by length": lambda p: {"weighting": lp.AsPrinted("length"), "tolerance": None, "n_steps": 30},
    "8 gradients": lambda p: {"max_gradients": 8},
    "60 gradients": lambda p: {"max_gradients": 60},
    "an hour": lambda p: {"max_seconds": 3600},
    "support": lambda p: {"support": True},
    "no support": lambda p: {"support": False},
    "support in groups": lambda p: {"support": torch.arange(p.points[0].numel()).view(1, *p.points.shape[1:]) // 2},
    "geometry of the margin": lambda p: {"geometry": "logit_margin"},
    "geometry of another score": lambda p: {"geometry": replace(p.score, target=0, output="raw")},
    "values only": lambda p: {"measure": "values"},
    "a later seed": lambda p: {"seed": 7, "on_interrupt": "return"},
}
SET = {"moons": ("elastic", "descent"), "few": ("default",), "images": ("straight",), "several": ("straight",)}


def with_metric(name: str, solver: str, problem_name: str) -> Any:
    """One metric for one solver."""
    problem = problem_of(problem_name)
    return attribute(problem, SOLVERS[solver](problem), metric=METRICS[name](problem), seed=2)


def with_output(output: str, solver: str, problem_name: str) -> Any:
    """One output of the model, and whether removal confirms the explanation."""
    problem = problem_of(problem_name).with_output(output)
    return attribute(problem, SOLVERS[solver](problem), support=True)


def with_settings(name: str, solver: str, problem_name: str) -> Any:
    """One line of the settings above."""
    problem = problem_of(problem_name)
    return attribute(problem, SOLVERS[solver](problem), **SETTINGS[name](problem))


# ---- other models, baselines and inputs ----------------------------------------------------------------------------


def wave(x: torch.Tensor) -> torch.Tensor:
    """A score that is no module: on the diagonal its two waves cancel."""
    return torch.sin(20 * x[:, 0]) - torch.sin(20 * x[:, 1]) + x[:, 0]


def of_estimator() -> Any:
    """A model of scikit-learn, trained on a table that it brings along."""
    from sklearn.datasets import load_wine
    from sklearn.linear_model import LogisticRegression

    x, y = load_wine(return_X_y=True)
    x = (x - x.mean(0)) / x.std(0)
    fitted = LogisticRegression(max_iter=200).fit(x, y)
    return lp.attribute(lp.Score(fitted, 1, "softmax"), torch.tensor(x[:4]).float(), 0.0)


def integrated() -> Any:
    """The integral alone, along given paths."""
    p = problem_of("moons")
    knots = torch.stack([p.baselines, p.inputs * torch.tensor([1.0, 0.2]), p.inputs], 1)
    return lp.integrate(p.score, lp.Path.polyline(knots), lp.Conformal())


MOONS, FEW, IMAGES, SEVERAL = (partial(problem_of, name) for name in ("moons", "few", "images", "several"))
OTHERS: dict[str, Callable[[], Any]] = {
    "a function": lambda: lp.attribute(lp.Score(wave), normal(3, 2, seed=71), 0.1),
    "a target that is a function": lambda: attribute(FEW(), score=lp.Score(FEW().score.model, lambda z: z.amax(1))),
    "an estimator": of_estimator,
    "an integral": integrated,
    "float64": lambda: lp.attribute(lp.Score(mlp(5, 3, nn.Tanh, 72).double(), 1), normal(2, 5, seed=73).double()),
    "one row in a call": lambda: attribute(FEW(), score=replace(FEW().score, batch_size=1)),
    "zeros by default": lambda: attribute(MOONS(), baselines=None),
    "a baseline equal to the input": lambda: attribute(FEW(), baselines=FEW().inputs),
    "baselines by name": lambda: attribute(IMAGES(), baselines=lp.baselines.several("black", "white", "mean", "blur")),
    "several baselines, bent": lambda: attribute(SEVERAL(), lp.ElasticBand(groups=4), support=True),
    "activations as baselines": lambda: attribute(problem_of("tokens"), baselines=normal(2, 3, 6, 5, seed=74)),
    "one example": lambda: attribute(
        MOONS(), inputs=torch.ones(1, 2), baselines=0.0, score=replace(MOONS().score, target=1)
    ),
}
REFUSED: dict[str, Callable[[], Any]] = {
    "a model for a score": lambda: lp.attribute(FEW().score.model, FEW().inputs),
    "a class for a solver": lambda: attribute(FEW(), lp.Descent),
    "a number for a solver": lambda: attribute(FEW(), 3),
    "a class for a metric": lambda: attribute(FEW(), metric=lp.RankOne),
    "a word for a weighting": lambda: attribute(FEW(), weighting="idgi"),
    "a tolerance of 0": lambda: attribute(FEW(), tolerance=0.0),
    "no steps": lambda: attribute(FEW(), tolerance=None),
    "an unknown rule": lambda: attribute(FEW(), rule="simpson"),
    "an unknown geometry": lambda: attribute(FEW(), geometry="entropy"),
    "an incomplete weighting": lambda: attribute(FEW(), weighting=lp.IDG()),
    "labels of another shape": lambda: attribute(FEW(), support=torch.zeros(1, 7, dtype=torch.long)),
    "baselines for a solver that starts by itself": lambda: attribute(IMAGES(), lp.BlurIG()),
    "NaN": lambda: attribute(FEW(), inputs=FEW().inputs / 0),
    "baselines of another shape": lambda: attribute(FEW(), baselines=torch.zeros(2, 13)),
    "a target too large": lambda: attribute(FEW(), score=replace(FEW().score, target=9)),
}  # fmt: skip


def settings_calls() -> Iterator[Call]:
    """All calls about settings."""
    for problem, solvers in MEASURED.items():
        for solver in solvers:
            for name in METRICS:
                yield Call(f"metric {name}, {solver} on {problem}", partial(with_metric, name, solver, problem))
    for problem, solver in EXPLAINED.items():
        for output in OUTPUTS:
            yield Call(f"output {output}, {solver} on {problem}", partial(with_output, output, solver, problem))
    for problem, solvers in SET.items():
        for solver in solvers:
            for name in SETTINGS:
                yield Call(f"setting {name}, {solver} on {problem}", partial(with_settings, name, solver, problem))
    for name, run in OTHERS.items():
        yield Call(f"other: {name}", run)
    for name, run in REFUSED.items():
        yield Call(f"refused: {name}", run)
