"""The calls of `same_numbers.py`: every method, every solver, and the settings of `lp.attribute`, on small problems.

Names of methods and settings are written out here, and nothing is asked of leastpath but what it offers to users, so
that the same list runs before and after a change of its inside.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from same_numbers_problems import PROBLEMS, Problem
from torch import Tensor, nn

import leastpath as lp

try:
    METHODS = lp.METHODS  # type: ignore[attr-defined]
except AttributeError:
    from leastpath.methods import METHODS

KEYWORD = "method" if "method" in inspect.signature(lp.attribute).parameters else "solver"
problem_of = cache(lambda name: PROBLEMS[name]())


@dataclass(frozen=True)
class Call:
    """A name, unique in the list, and what is run."""

    name: str
    run: Callable[[], Any]


def attribute(problem: Problem, solver: Any = None, **settings: Any) -> Any:
    """`lp.attribute` of a problem, with the keyword that this version has for the solver."""
    score, baselines = settings.pop("score", problem.score), settings.pop("baselines", problem.baselines)
    inputs = settings.pop("inputs", problem.inputs)
    chosen = {} if solver is None else {KEYWORD: solver}
    return lp.attribute(score, inputs, baselines, **chosen, **settings)


# ---- every method of the table, on every problem -------------------------------------------------------------------

OWN_START = {"blur_ig", "lpi", "agi", "mfaba", "boundary_ig", "fisher_rao"}
QUICK: dict[str, dict[str, Any]] = {  # settings that keep a call short
    "smooth_integrated_gradients": {"n_samples": 3, "n_steps": 4},
    "geodesic_variational": {"n_iterations": 12, "n_points": 5, "n_samples": 2},
    "geodesic_descent": {"max_gradients": 200},
    "geodesic_idgi": {"max_gradients": 150},
    "as_printed": {"max_gradients": 150, "n_steps": 40},
    "guided_ig": {"n_steps": 12},
    "blur_ig": {"n_knots": 7},
    "manifold_ig": {"n_knots": 6, "n_iterations": 20},
    "gradient_shap": {"n_samples": 8},
    "kernel_shap": {"n_samples": 40},
    "lime": {"n_samples": 40},
    "expected_gradients": {"n_samples": 10},
    "permutation_shap": {"n_permutations": 2},
    "staircase": {"n_orders": 2},
    "sequential_ig": {"n_steps": 5},
    "ig2": {"n_steps": 6},
    "agi": {"n_steps": 5},
    "mfaba": {"n_steps": 5},
    "discretized_ig": {"n_words": 5, "n_neighbors": 8},
    "boundary_ig": {"attack_steps": 10},
    "fisher_rao": {"n_pieces": 6},
    "geodesic_graph": {"n_neighbors": 6},
    "enhanced_ig": {"n_neighbors": 6},
    "lpi": {"n_centers": 4, "n_references": 3},
}


def bent(z: Tensor) -> Tensor:
    """A decoder whose space is that of the inputs."""
    return z + 0.2 * torch.sin(2 * z)


def by_name(name: str, problem_name: str) -> Any:
    """One method of the table on one problem."""
    problem, settings = problem_of(problem_name), dict(QUICK.get(name, {}))
    if name in ("enhanced_ig", "geodesic_graph", "lpi"):
        settings["points"] = problem.points
    elif name == "discretized_ig":
        settings["points"] = problem.words
    elif name == "manifold_ig":
        settings |= {"encoder": nn.Identity().eval(), "decoder": bent}
    baselines = None if name in OWN_START else problem.baselines
    return METHODS[name](problem.score, problem.inputs, baselines, seed=3, **settings)


# ---- every solver --------------------------------------------------------------------------------------------------


def built(p: Problem, **settings: Any) -> Any:
    """A graph whose edges are measured before it is used."""
    return lp.NeighborGraph(p.points, 6).build(p.score, lp.Conformal(), **settings)


def amortized(p: Problem) -> Any:
    """A network that predicts paths, with weights that nobody has trained."""
    predictor = sys.modules[lp.Amortized.__module__].PathPredictor(p.points.shape[1:], 4, 4)
    generator = torch.Generator().manual_seed(9)
    for parameter in predictor.parameters():
        parameter.data = 0.1 * torch.randn(parameter.shape, generator=generator)
    return lp.Amortized(predictor.eval().requires_grad_(False), lp.Descent(60))


def warm(p: Problem) -> Any:
    """A descent that starts from paths of an earlier result."""
    return lp.Descent(80).warm(attribute(p, lp.Descent(80)), p.inputs)


def groups_of(p: Problem) -> Any:
    """Tokens, patches of pixels, or labels for pairs of features."""
    features = p.points.shape[1:]
    return {1: torch.arange(features.numel()) // 2, 2: "token", 3: 4}[len(features)]


SOLVERS: dict[str, Callable[[Problem], Any]] = {
    "default": lambda p: None,
    "straight": lambda p: lp.StraightLine(),
    "graph": lambda p: lp.NeighborGraph(p.points, 6),
    "graph refined": lambda p: lp.NeighborGraph(p.points, 6, refine=True),
    "graph steiner": lambda p: lp.NeighborGraph(p.points, 6, steiner=1.2),
    "graph line": lambda p: lp.NeighborGraph(generate="line", n_points=25, n_neighbors=5),
    "graph sobol": lambda p: lp.NeighborGraph(generate="sobol", n_points=25, n_neighbors=5),
    "graph adaptive": lambda p: lp.NeighborGraph(generate="adaptive", n_points=25, n_neighbors=5),
    "built graph": built,
    "enhanced": lambda p: lp.EnhancedIG(p.points, 6),
    "descent": lambda p: lp.Descent(150),
    "descent of few knots": lambda p: lp.Descent(100, n_knots=5, n_rounds=6),
    "descent on a coarse grid": lambda p: lp.Descent(100, resolution=4),
    "descent by double backward": lambda p: lp.Descent(100, hessian="double_backward"),
    "warm descent": warm,
    "elastic": lambda p: lp.ElasticBand(),
    "elastic free": lambda p: lp.ElasticBand(stiffness=0.2, monotone=False, n_rounds=4),
    "elastic grouped": lambda p: lp.ElasticBand(groups=groups_of(p), n_knots=3),
    "amortized": amortized,
    "guided": lambda p: lp.GuidedIG(max_distance=0.1, n_steps=12),
    "blur": lambda p: lp.BlurIG(max_sigma=2.0, n_knots=7),
    "spectral": lambda p: lp.SpectralIG(n_knots=7),
    "samp": lambda p: lp.SAMP(n_portions=4),
    "samp backwards": lambda p: lp.SAMP("deletion", n_portions=3, max_step=0.3, momentum=0.5),
    "discretized": lambda p: lp.DiscretizedIG(p.words, 8, 5),
    "discretized maxcount": lambda p: lp.DiscretizedIG(p.words, 8, 4, "maxcount"),
    "manifold": lambda p: lp.Manifold(nn.Identity().eval(), bent, n_knots=6, n_iterations=20),
    "ode": lambda p: lp.GeodesicODE(9, n_starts=1, floor=0.5, tolerance=0.5, max_nodes=12),
    "variational": lambda p: lp.Variational(15, 5, n_samples=2),
    "hamiltonian": lambda p: lp.Hamiltonian(4, 2, n_points=3, max_tree_depth=2, n_paths=2),
}


def solved(name: str, problem_name: str) -> Any:
    """One solver on one problem."""
    problem = problem_of(problem_name)
    chosen = {"baselines": None} if name == "blur" else {}
    return attribute(problem, SOLVERS[name](problem), seed=2, **chosen)


def method_calls() -> Iterator[Call]:
    """Every method of the table on every problem."""
    for problem in PROBLEMS:
        for name in METHODS:
            yield Call(f"method {name} on {problem}", partial(by_name, name, problem))


def solver_calls() -> Iterator[Call]:
    """Every solver on every problem."""
    for problem in PROBLEMS:
        for name in SOLVERS:
            yield Call(f"solver {name} on {problem}", partial(solved, name, problem))
