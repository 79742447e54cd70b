"""The table of methods that comparisons, jobs and the command line share, and `register`, which adds to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

from leastpath.integral.weightings import IDG, IDGI, AsPrinted, Weighting
from leastpath.methods.adversarial import agi, mfaba
from leastpath.methods.boundary import BoundaryIG
from leastpath.methods.cam import grad_cam, grad_cam_plus_plus, hires_cam, layer_cam, xgrad_cam
from leastpath.methods.captum_peers import (
    deep_lift,
    gradient_shap,
    input_x_gradient,
    kernel_shap,
    lime,
    occlusion,
    saliency,
)
from leastpath.methods.counterfactual import ig2
from leastpath.methods.fisher_rao import FisherRaoPath
from leastpath.methods.floor import random
from leastpath.methods.manipulation import samp, samp_plus_plus
from leastpath.methods.method import Kind, Method, Methods, settings_of
from leastpath.methods.paths import PathExplainer, SolverExplainer
from leastpath.methods.permutation import permutation_shap
from leastpath.methods.references import expected_gradients, lpi
from leastpath.methods.sequential import sequential_ig
from leastpath.methods.smoothing import smooth
from leastpath.methods.staircase import staircase
from leastpath.result.attribution import Attribution
from leastpath.solvers import (
    BlurIG,
    Descent,
    DiscretizedIG,
    ElasticBand,
    EnhancedIG,
    GuidedIG,
    Manifold,
    NeighborGraph,
    SpectralIG,
    StraightLine,
    Variational,
)
from leastpath.solvers.solution import Solver, chooses_start

FIXED = {"tolerance": None, "n_steps": 50}  # for integrands whose error nothing controls


def _peer(title: str, explain: Any, summary: str, *, complete: bool = False) -> Method:
    return Method(explain.__name__, title, "peer", summary, complete, explain, settings_of(explain), "captum")


def _own(title: str, explain: Any, summary: str, *, complete: bool = False, takes_baselines: bool = True) -> Method:
    settings, name = settings_of(explain), explain.__name__
    return Method(name, title, "peer", summary, complete, explain, settings, takes_baselines=takes_baselines)


def _path(name: str, title: str, solver: type[Solver], summary: str, extra: str | None = None, **more: Any) -> Method:
    explain = PathExplainer(name, solver, **more)
    return Method(name, title, "path", summary, True, explain, explain.defaults, extra, not chooses_start(solver))


def _weighted(name: str, title: str, solver: type[Solver], weighting: Weighting, summary: str) -> Method:
    explain = PathExplainer(name, solver, weighting, changed={} if weighting.complete else FIXED)
    return Method(name, title, "weighting", summary, weighting.complete, explain, explain.defaults)


_integrated_gradients = _path(
    "integrated_gradients", "Integrated Gradients", StraightLine,
    "The line integral of the gradient along the straight line, with error control.",
)  # fmt: skip

METHODS = Methods(
    (
        Method("random", "Random", "floor", "Normal numbers that know nothing of the model.", False, random),
        _peer("Input × Gradient", input_x_gradient, "The input times the gradient at the input."),
        _peer("Saliency", saliency, "The size of the gradient at the input."),
        _peer("Grad-CAM", grad_cam, "The last convolution's maps, weighted by their mean gradients."),
        _peer("Grad-CAM++", grad_cam_plus_plus, "The last convolution's maps, weighted by positive gradients."),
        _peer("XGrad-CAM", xgrad_cam, "The last convolution's maps, weighted by gradients where they are active."),
        _peer("HiRes-CAM", hires_cam, "Gradient times activation, place by place, of the last convolution."),
        _peer("Layer-CAM", layer_cam, "Positive gradient times activation, place by place, of any convolution."),
        _integrated_gradients,
        _peer("Gradient SHAP", gradient_shap, "Gradients at random points between input and baselines, averaged."),
        _own("Expected Gradients", expected_gradients, "Gradients between the input and random references, averaged."),
        _peer("DeepLift", deep_lift, "Secants in place of gradients at activations (rescale rule).", complete=True),
        smooth(_integrated_gradients.with_settings(tolerance=None, n_steps=20), name="smooth_grad"),
        _peer("Occlusion", occlusion, "How much the score falls when a window is hidden."),
        _peer("Kernel SHAP", kernel_shap, "Shapley values of groups of features, by regression.", complete=True),
        _own(
            "Permutation SHAP", permutation_shap, "Shapley values of groups of features, by orders and their reverses.",
            complete=True,
        ),
        _own(
            "Random staircases", staircase, "One patch, token or feature after another enters and gets what is gained.",
            complete=True,
        ),
        _peer("LIME", lime, "A sparse linear model of the score around the input."),
        _path(
            "guided_ig", "Guided IG", GuidedIG, "Features with small gradients move first, in a band around the line.",
            own=("n_steps",),
        ),
        _own("SAMP", samp, "Features whose move changes the score most move first, and get gradient × move."),
        _own("SAMP++", samp_plus_plus, "SAMP in small steps, with a running mean of gradients."),
        _path("spectral_ig", "Spectral IG", SpectralIG, "Singular components of the difference, the largest first."),
        _path("blur_ig", "Blur IG", BlurIG, "From the blurred image to the image, through all scales in between."),
        _path(
            "enhanced_ig", "Enhanced IG", EnhancedIG, "Shortest route over data points by Euclidean length.",
            needs=("points",),
        ),
        _path(
            "discretized_ig", "Discretised IG", DiscretizedIG, "Each token walks over words, and never turns back.",
            needs=("points",),
        ),
        _own("Sequential IG", sequential_ig, "The line of each token by itself, all others as they are."),
        _own(
            "Local path integration", lpi, "Integrated Gradients from references of the input's own neighbourhood.",
            takes_baselines=False,
        ),
        _own("IG²", ig2, "The descent from the input to the representation of a reference."),
        _own("AGI", agi, "The way back from adversarial examples of other classes.", takes_baselines=False),
        _own("MFABA", mfaba, "The attack that lowers the score until the class changes.", takes_baselines=False),
        _path("boundary_ig", "Boundary IG", BoundaryIG, "The line from the nearest point found of another class."),
        _path(
            "fisher_rao", "Fisher–Rao path", FisherRaoPath,
            "From an input that the model knows nothing about, along the natural gradient of its prediction.",
        ),
        _path(
            "manifold_ig", "Manifold IG", Manifold, "Geodesic of an autoencoder's decoder, which follows the data.",
            needs=("decoder",),
        ),
        _path(
            "geodesic_graph", "Geodesic IG (graph)", NeighborGraph,
            "Shortest route over a nearest-neighbour graph, measured by the model's gradient.",
            needs=("points", "generate"),
        ),
        _path(
            "geodesic_variational", "Geodesic IG (variational)", Variational,
            "The paper's path energy, minimised by stochastic variational inference.", "svi",
        ),
        _path(
            "geodesic_descent", "Geodesic IG (descent)", Descent,
            "Length under the model's metric, minimised with first-order gradients in any dimension.",
        ),
        _path(
            "elastic_band", "Elastic band", ElasticBand,
            "Length plus stiffness × stretching: a path that bends where that saves length, each feature one way only.",
        ),
        _weighted(
            "idg", "Integrated Decision Gradients", StraightLine, IDG(),
            "Integrated Gradients weighted by how fast the score changes, with steps where it does.",
        ),
        _weighted(
            "idgi", "IDGI", StraightLine, IDGI(),
            "Each step's change of score, shared out by squared gradients, along the straight line.",
        ),
        _weighted(
            "geodesic_idgi", "Geodesic IDGI (descent)", Descent, IDGI(),
            "Each step's change of score, shared out by squared gradients, along the path of geodesic_descent.",
        ),
        _weighted(
            "as_printed", "Geodesic IG as printed", Descent, AsPrinted(),
            "The paper's printed equation, difference times summed gradients, along the path of geodesic_descent.",
        ),
    )
)  # fmt: skip
"""Every method by its name."""


def register(
    explain: Method | Solver | Callable[..., Attribution],
    name: str | None = None,
    *,
    title: str | None = None,
    summary: str | None = None,
    kind: Kind | None = None,
    complete: bool | None = None,
) -> Method:
    """Add a method of your own to the table. From then on comparisons, jobs and commands know it by its name.

    Each process has its own table: put the call at the top of a module that every process imports. Jobs send their
    method to their workers, which need not know its name.

    Args:
        explain: a function `(score, inputs, baselines=None, *, seed=0, progress=False, **settings) -> Attribution`,
            whose other keyword-only parameters become the method's settings; a solver; or a `Method`.
        name: in the table; the function's own by default.
        title: as tables print it; the name by default.
        summary: one sentence, for `leastpath methods`.
        kind: "path" by default for a solver, "peer" for a function.
        complete: whether attributions add up to f(x) − f(x̄); by default they do for a solver, whose path is integrated.

    Example:
        >>> import leastpath as lp, torch
        >>> def ten_steps(score, inputs, baselines=None, *, n_steps=10, seed=0, progress=False):
        ...     return lp.attribute(score, inputs, baselines, solver=lp.StraightLine(), tolerance=None, n_steps=n_steps)
        >>> method = register(ten_steps, complete=True)
        >>> METHODS["ten_steps"](lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), n_steps=4).n_gradients
        tensor([4])
    """
    made = explain
    if not isinstance(made, Method):
        made = _of_solver(made) if isinstance(made, Solver) else _of_function(made)
    given = {"name": name, "title": title or name, "summary": summary, "kind": kind, "complete": complete}
    method = replace(made, **{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]
    if method.kind not in get_args(Kind):
        raise ValueError(f"kind={method.kind!r} is unknown: use one of {', '.join(get_args(Kind))}")
    METHODS.add(method)
    return method


def _of_solver(solver: Solver) -> Method:
    if isinstance(solver, type):
        raise ValueError(f"{solver.__name__} is a class: register an instance, {solver.__name__}()")
    name, explain = type(solver).__name__, SolverExplainer(solver)
    summary = "The line integral of the gradient along a path of your own."
    takes_baselines = not chooses_start(solver)
    return Method(name, name, "path", summary, True, explain, explain.defaults, takes_baselines=takes_baselines)


def _of_function(explain: Callable[..., Attribution]) -> Method:
    if not callable(explain):
        raise ValueError(f"{explain!r} is not a method: register a function, a solver or a Method")
    name = getattr(explain, "__name__", type(explain).__name__)
    try:
        inspect.signature(explain).bind(None, None, None, seed=0, progress=False)
    except TypeError as error:
        raise ValueError(
            f"{name} cannot be called as a method ({error}): define it as {name}(score, inputs, baselines=None, *, "
            "seed=0, progress=False), and give each setting that it has a name and a default"
        ) from None
    return Method(name, name, "peer", "A method of your own.", False, explain, settings_of(explain))
