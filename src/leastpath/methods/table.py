"""The table of methods that comparisons, jobs and the command line share, and `register`, which adds to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

from leastpath.integral.pieces import IDG, IDGI, AsPrinted
from leastpath.methods.adversarial import agi, mfaba
from leastpath.methods.boundary import BoundaryIG
from leastpath.methods.by_path import method_of_solver, path_method
from leastpath.methods.cam import grad_cam, grad_cam_plus_plus, hires_cam, layer_cam, xgrad_cam
from leastpath.methods.captum_peers import deep_lift, gradient_shap, input_x_gradient, kernel_shap, lime, saliency
from leastpath.methods.controls import input_alone, other_class, random, untrained
from leastpath.methods.counterfactual import ig2
from leastpath.methods.fisher_rao import FisherRaoPath
from leastpath.methods.manipulation import samp, samp_plus_plus
from leastpath.methods.method import KINDS, Explained, Method, Methods, Role, Rowwise, Whole, settings_of
from leastpath.methods.noisy_gradients import smooth_grad, smooth_grad_squared, var_grad
from leastpath.methods.owen import owen
from leastpath.methods.references import expected_gradients, lpi
from leastpath.methods.relevance import lrp
from leastpath.methods.rise import rise
from leastpath.methods.sequential import sequential_ig
from leastpath.methods.shapley import exact_shapley, permutation_shap, staircase
from leastpath.methods.smoothing import smooth
from leastpath.methods.windows import occlusion
from leastpath.methods.windows_in_context import windows_in_context
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
from leastpath.solvers.solution import Solver

integrated_gradients = path_method(
    "integrated_gradients", "Integrated Gradients", StraightLine,
    "The line integral of the gradient along the straight line, with error control.", recommended=KINDS, unitless=True,
)  # fmt: skip

BUILT_IN = (
    random,
    input_alone,
    untrained,
    other_class,
    input_x_gradient,
    saliency,
    lrp,
    grad_cam,
    grad_cam_plus_plus,
    xgrad_cam,
    hires_cam,
    layer_cam,
    integrated_gradients,
    gradient_shap,
    expected_gradients,
    deep_lift,
    smooth_grad,
    smooth_grad_squared,
    var_grad,
    smooth(integrated_gradients.with_settings(tolerance=None, n_steps=20)),
    occlusion,
    windows_in_context,
    rise,
    kernel_shap,
    permutation_shap,
    exact_shapley,
    owen,
    staircase,
    lime,
    path_method(
        "guided_ig", "Guided IG", GuidedIG, "Features with small gradients move first, in a band around the line.",
        own=("n_steps",),
    ),
    samp,
    samp_plus_plus,
    path_method(
        "spectral_ig", "Spectral IG", SpectralIG, "Singular components of the difference, the largest first.",
    ),
    path_method(
        "blur_ig", "Blur IG", BlurIG, "From the blurred image to the image, through all scales in between.",
        fits=("image",), unitless=True,
    ),
    path_method(
        "enhanced_ig", "Enhanced IG", EnhancedIG, "Shortest route over data points by Euclidean length.",
        needs=("points",),
    ),
    path_method(
        "discretized_ig", "Discretised IG", DiscretizedIG, "Each token walks over words, and never turns back.",
        needs=("points",),
    ),
    sequential_ig,
    lpi,
    ig2,
    agi,
    mfaba,
    path_method(
        "boundary_ig", "Boundary IG", BoundaryIG, "The line from the nearest point found of another class.",
    ),
    path_method(
        "fisher_rao", "Fisher–Rao path", FisherRaoPath,
        "From an input that the model knows nothing about, along the natural gradient of its prediction.",
    ),
    path_method(
        "manifold_ig", "Manifold IG", Manifold, "Geodesic of an autoencoder's decoder, which follows the data.",
        needs=("decoder",),
    ),
    path_method(
        "geodesic_graph", "Geodesic IG (graph)", NeighborGraph,
        "Shortest route over a nearest-neighbour graph, measured by the model's gradient.",
        needs=("points", "generate"),
    ),
    path_method(
        "geodesic_variational", "Geodesic IG (variational)", Variational,
        "The paper's path energy, minimised by stochastic variational inference.", extra="svi",
    ),
    path_method(
        "geodesic_descent", "Geodesic IG (descent)", Descent,
        "Length under the model's metric, minimised with first-order gradients in any dimension.",
    ),
    path_method(
        "elastic_band", "Elastic band", ElasticBand,
        "Length plus stiffness × stretching: a path that bends where that saves length, each feature one way only.",
        recommended=("few", "table"),
    ),
    path_method(
        "idg", "Integrated Decision Gradients", StraightLine,
        "Integrated Gradients weighted by how fast the score changes, with steps where it does.", weighting=IDG(),
        unitless=True,
    ),
    path_method(
        "idgi", "IDGI", StraightLine,
        "Each step's change of score, shared out by squared gradients, along the straight line.", weighting=IDGI(),
        recommended=("image",),
    ),
    path_method(
        "geodesic_idgi", "Geodesic IDGI (descent)", Descent,
        "Each step's change of score, shared out by squared gradients, along the path of geodesic_descent.",
        weighting=IDGI(),
    ),
    path_method(
        "as_printed", "Geodesic IG as printed", Descent,
        "The paper's printed equation, difference times summed gradients, along the path of geodesic_descent.",
        weighting=AsPrinted(),
    ),
)  # fmt: skip


def _adopt(given: Any, name: str) -> Method:
    return replace(method_of(given), name=name)


METHODS = Methods(
    "method", {method.name: method for method in BUILT_IN}, group="leastpath.methods",
    adder="leastpath.methods.register", adopt=_adopt,
)  # fmt: skip
"""Every method by its name."""


def register(
    explain: Method | Solver | Callable[..., Explained] | Callable[..., Attribution],
    name: str | None = None,
    *,
    title: str | None = None,
    summary: str | None = None,
    role: Role | None = None,
    complete: bool | None = None,
) -> Method:
    """Add a method of your own to the table. From then on the verb, comparisons, jobs and commands know its name.

    Each process has its own table: put the call at the top of a module that every process imports. Jobs send their
    method to their workers, which need not know its name.

    Args:
        explain: a function `(problem, *, settings) -> Explained`; a function `(score, inputs, baselines=None, *,
            seed=0, progress=False, **settings) -> Attribution`; a solver; or a `Method`. Keyword-only parameters of a
            function are the method's settings.
        name: in the table; the function's own by default.
        title: as tables print it; the name by default.
        summary: one sentence, for `leastpath methods`; the first line of the function's docstring by default.
        role: "path" by default for a solver, "peer" for a function.
        complete: whether attributions add up to f(x) − f(x̄); by default they do for a solver, whose path is integrated.

    Example:
        >>> import leastpath as lp, torch
        >>> def even_share(problem, *, scale=1.0):
        ...     return lp.Explained(scale * torch.ones_like(problem.end))
        >>> method = register(even_share)
        >>> lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), method="even_share", scale=4.0).values
        tensor([[4., 4.]])
    """
    made = method_of(explain)
    given = {"name": name, "title": title or name, "summary": summary, "role": role, "complete": complete}
    method = replace(made, **{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]
    if method.role not in get_args(Role):
        raise ValueError(f"role={method.role!r} is unknown: use one of {', '.join(get_args(Role))}")
    METHODS.add(method.name, method)
    return method


def method_of(given: object) -> Method:
    """What `attribute(…, method=given)` means: a name of the table, a `Method`, a solver or a function as a `Method`.

    Example:
        >>> import leastpath as lp
        >>> method_of("idgi").title, method_of(lp.StraightLine()).name
        ('IDGI', 'StraightLine')
    """
    if isinstance(given, str):
        return METHODS[given]
    if isinstance(given, Method):
        return given
    if isinstance(given, type):
        raise ValueError(f"{given.__name__} is a class: pass an instance, lp.{given.__name__}()")
    if isinstance(given, Solver):
        return method_of_solver(given)
    if callable(given):
        return _method_of_function(given)
    raise ValueError(
        f"{given!r} is not a method: pass a name of lp.METHODS, a solver, as in method=lp.StraightLine(), a Method, or "
        "a function (problem, *, settings) -> Explained"
    )


def _method_of_function(function: Callable[..., Any]) -> Method:
    name = getattr(function, "__name__", type(function).__name__)
    positional = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    explain: Rowwise | Whole = Rowwise(name, function)
    if len(positional) != 1:
        explain = Whole(name, function)
        try:
            inspect.signature(function).bind(None, None, None, seed=0, progress=False)
        except TypeError as error:
            raise ValueError(
                f"{name} cannot be called as a method ({error}): define it as {name}(problem, *, settings) -> "
                f"Explained, or as {name}(score, inputs, baselines=None, *, seed=0, progress=False, settings) -> "
                "Attribution"
            ) from None
    summary = " ".join((inspect.getdoc(function) or "A method of your own.").partition("\n\n")[0].split())
    return Method(name, name, "peer", summary, False, explain, settings_of(function))
