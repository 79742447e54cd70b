"""The table of methods that experiments, the command line and the documentation share."""

from __future__ import annotations

from typing import Any

from leastpath.integral.pieces import Weighting
from leastpath.integral.weightings import IDG, IDGI, AsPrinted
from leastpath.methods.captum_peers import deep_lift, gradient_shap, input_x_gradient, kernel_shap, lime, occlusion
from leastpath.methods.floor import random
from leastpath.methods.method import Method, Methods, settings_of
from leastpath.methods.paths import PathExplainer
from leastpath.methods.smoothing import smooth
from leastpath.solution import Solver
from leastpath.solvers import (
    BlurIG,
    Descent,
    ElasticBand,
    EnhancedIG,
    GuidedIG,
    Manifold,
    NeighborGraph,
    StraightLine,
    Variational,
)

FIXED = {"tolerance": None, "n_steps": 50}  # for integrands whose error nothing controls


def _peer(title: str, explain: Any, summary: str, *, complete: bool = False) -> Method:
    return Method(explain.__name__, title, "peer", summary, complete, explain, settings_of(explain), "captum")


def _path(name: str, title: str, solver: type[Solver], summary: str, extra: str | None = None, **more: Any) -> Method:
    explain = PathExplainer(name, solver, **more)
    takes_baselines = not getattr(solver, "chooses_start", False)
    return Method(name, title, "path", summary, True, explain, explain.defaults, extra, takes_baselines)


def _weighted(name: str, title: str, solver: type[Solver], weighting: Weighting, summary: str) -> Method:
    explain = PathExplainer(name, solver, weighting, changed={} if weighting.complete else FIXED)
    return Method(name, title, "weighting", summary, weighting.complete, explain, explain.defaults)


_integrated_gradients = _path(
    "integrated_gradients",
    "Integrated Gradients",
    StraightLine,
    "The line integral of the gradient along the straight line, with error control.",
)

METHODS = Methods(
    (
        Method(
            "random", "Random", "floor", "Normal numbers that know nothing of the model.", False, random,
            settings_of(random),
        ),
        _peer("Input × Gradient", input_x_gradient, "The input times the gradient at the input."),
        _integrated_gradients,
        _peer("Gradient SHAP", gradient_shap, "Gradients at random points between input and baselines, averaged."),
        _peer("DeepLift", deep_lift, "Secants in place of gradients at activations (rescale rule).", complete=True),
        smooth(_integrated_gradients.with_settings(tolerance=None, n_steps=20), name="smooth_grad"),
        _peer("Occlusion", occlusion, "How much the score falls when a window is hidden."),
        _peer("Kernel SHAP", kernel_shap, "Shapley values of groups of features, by regression.", complete=True),
        _peer("LIME", lime, "A sparse linear model of the score around the input."),
        _path(
            "guided_ig", "Guided IG", GuidedIG, "Features with small gradients move first, in a band around the line.",
            own=("n_steps",),
        ),
        _path("blur_ig", "Blur IG", BlurIG, "From the blurred image to the image, through all scales in between."),
        _path(
            "enhanced_ig", "Enhanced IG", EnhancedIG, "Shortest route over data points by Euclidean length.",
            needs=("points",),
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
