"""The candidates: one line each. References are judged beside them and are never chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from time import perf_counter
from types import MappingProxyType
from typing import Any, Literal

import torch
from torch import Tensor, nn

import leastpath as lp
from leastpath._support.fingerprint import digest
from leastpath._support.rows import flat_rows, norms
from leastpath.methods import METHODS
from leastpath.methods.controls import name_controls
from studies.truth.problem import Kind, Problem
from studies.truth.references import REFERENCES

IG, IDGI, LINE = "ig", "idgi", "line"
STEPS = 50
SHOWN = (  # by picture and page, the other candidates being data
    "context", "context-fast", "rise-two", "owen-two", "lime-two", "windows-two", "staircase-two", "idgi-two",
    "ig-two", IG, "occlusion", "smooth-grad", "lrp", "descent", "edges", "distance", "random",
)  # fmt: skip
CLASSES: tuple[Kind, ...] = ("image", "text", "table")  # kinds of input whose nets are classifiers


@dataclass(frozen=True)
class Candidate:
    """A way to explain, as plain settings: results are kept under a digest of them.

    Args:
        name: as on the command line.
        title: as in tables.
        solver: its name in leastpath, or of one of `REFERENCES`, or of a method in `leastpath.methods.METHODS`.
        settings: of the solver or method; `groups` is a name that the problem knows, `points="words"` are the
            embeddings of all words, `points="others"` the problem's other examples, compared by the net's outputs.
        several: from all of the problem's baselines instead of the first.
        weighting: name of a weighting; None: the line integral.
        damping: of the metric, in units of the straight line's mean squared gradient along it.
        output: what is explained; None: as the problem says.
        geometry: the output whose score the path is found for; None: what is explained.
        tolerance: of the integral; None: 50 steps.
        max_gradients: of solver and integral; None: as leastpath says.
        gradients: spent on an example, about: for the estimate of the time left.
        main: also measured on the reporting half; the others only where they are named.
        few: on few examples only.
        reference: never chosen.
        kinds: of inputs that it is for.

    Example:
        >>> CANDIDATES["idgi-two"].several
        True
    """

    name: str
    title: str
    solver: str = "StraightLine"
    settings: Mapping[str, Any] = field(default_factory=dict)
    several: bool = False
    weighting: Literal["IDGI"] | None = None
    damping: float = 0.0
    output: str | None = None
    geometry: str | None = None
    tolerance: float | None = None
    max_gradients: int | None = None
    gradients: int = STEPS
    main: bool = False
    few: bool = False
    reference: bool = False
    kinds: tuple[Kind, ...] = ("image", "text", "table", "few")

    @property
    def digest(self) -> str:
        """Of all that the explanation depends on."""
        told = asdict(self)
        for word in ("title", "gradients", "main", "few", "reference", "kinds"):
            told.pop(word)
        return digest([told | {"settings": dict(self.settings)}])[:8]

    def fits(self, problem: Problem) -> bool:
        """Whether leastpath has the solver and the problem has the groups and baselines that are asked for."""
        known = self.solver in REFERENCES or hasattr(lp, self.solver)
        if self.solver in METHODS:
            model = _score_of(problem).model
            known = not self.solver.startswith("grad_cam") or _has_maps(model)
            known = known and (METHODS[self.solver].role != "floor" or self.solver in name_controls(_score_of(problem)))
            known = known and (self.settings.get("points") != "others" or problem.others is not None)
        grouped = self.settings.get("groups") is None or self.settings["groups"] in problem.groups
        return known and grouped and (not self.several or problem.baselines.shape[1] > 1)


@dataclass(frozen=True)
class Explained:
    """Values (n, *features) and what they cost: (n,) each."""

    values: Tensor
    change: Tensor
    gradients: Tensor
    length_ratio: Tensor
    seconds: float


def explained(candidate: Candidate, problem: Problem) -> Explained:
    """Explain a problem's examples.

    Example:
        >>> explained(CANDIDATES["ig"], problem).values.shape == problem.inputs.shape  # doctest: +SKIP
        True
    """
    began = perf_counter()
    baselines = problem.baselines if candidate.several else problem.baselines[:, :1]
    if candidate.solver in REFERENCES:
        values, change, cost = REFERENCES[candidate.solver](problem, baselines)
        ratio = torch.full_like(change, torch.nan)
    elif candidate.solver in METHODS:
        values, change, cost, ratio = _by_method(candidate, problem, baselines)
    else:
        values, change, cost, ratio = _integrated(candidate, problem, baselines)
    return Explained(values.float(), change.double(), cost, ratio.double(), perf_counter() - began)


def _by_method(candidate: Candidate, problem: Problem, baselines: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """By a method of the table. Paths are integrated at as many steps as IG's."""
    method, score = METHODS[candidate.solver], problem.score(candidate.output or problem.output)  # type: ignore[arg-type]
    settings = dict(candidate.settings)
    if settings.get("points") == "words":
        assert isinstance(score.layer, nn.Embedding)
        settings["points"] = score.layer.weight.detach()
    if settings.get("points") == "others" and problem.others is not None:
        settings |= {"points": problem.others(), "represent": score.model}
    if "limits" in method.defaults and problem.inputs.ndim == 4:
        settings["limits"] = (0.0, 1.0)  # the images of this study are RGB or grey in [0, 1]
    if {"tolerance", "n_steps"} <= method.defaults.keys():
        settings = {"tolerance": None, "n_steps": STEPS, **settings}
    result = method(
        score, problem.inputs, baselines if method.takes_baselines else None, support=False, **settings
    )  # fmt: skip
    assert isinstance(result.values, Tensor)
    return result.values, result.score_change, result.n_gradients + result.n_forwards // 3, result.length_ratio


def _score_of(problem: Problem) -> lp.Score:
    return problem.score(problem.output)


def _has_maps(model: Any) -> bool:
    return isinstance(model, nn.Module) and any(isinstance(module, nn.Conv2d) for module in model.modules())


def _integrated(candidate: Candidate, problem: Problem, baselines: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    score = problem.score(candidate.output or problem.output)  # type: ignore[arg-type]
    metric = lp.Conformal(damping=_damping(candidate, score, problem, baselines))
    how: dict[str, Any] = {"tolerance": candidate.tolerance, "n_steps": None if candidate.tolerance else STEPS}
    weighting = None if candidate.weighting is None else getattr(lp, candidate.weighting)()
    if candidate.geometry is None:
        result = lp.attribute(
            score, problem.inputs, baselines, method=_solver(candidate, problem), metric=metric, weighting=weighting,
            max_gradients=candidate.max_gradients, support=False, **how,
        )  # fmt: skip
        assert isinstance(result.values, Tensor)
        return result.values, result.score_change, result.n_gradients, result.length_ratio
    found = lp.attribute(
        problem.score(candidate.geometry), problem.inputs, baselines, method=_solver(candidate, problem),  # type: ignore[arg-type]
        metric=metric, tolerance=None, n_steps=STEPS // 5, max_gradients=candidate.max_gradients, support=False,
    )  # fmt: skip
    assert found.path is not None
    m = baselines.shape[1]
    integral = lp.integrate(score.bind(problem.inputs, m), found.path, metric, weighting=weighting, **how)
    values, change, cost = (x.unflatten(0, (-1, m)) for x in (integral.values, integral.change, integral.n_gradients))
    return values.mean(1), change.mean(1), found.n_gradients + cost.sum(1).long(), found.length_ratio


def _solver(candidate: Candidate, problem: Problem) -> Any:
    settings = dict(candidate.settings)
    if settings.get("groups") is not None:
        settings["groups"] = problem.groups[settings["groups"]]
    return getattr(lp, candidate.solver)(**settings)


def _damping(candidate: Candidate, score: lp.Score, problem: Problem, baselines: Tensor) -> float:
    """So much, in units of (Δf / ‖x − x̄‖)², the mean over the examples of a unit of work."""
    if not candidate.damping:
        return 0.0
    bound = score.bind(problem.inputs)
    start, end = bound.space.ends(baselines[:, 0])
    rows = torch.arange(bound.batch)
    change = bound.values(end, rows) - bound.values(start, rows)
    distance = norms(flat_rows(end - start), 1).clamp_min(1e-12)
    return candidate.damping * float(((change / distance) ** 2).mean())


def _band(stiffness: float, monotone: bool, groups: str | None = None) -> dict[str, Any]:
    return {"stiffness": stiffness, "monotone": monotone, "groups": groups}


def _rivals() -> tuple[Candidate, ...]:
    """Methods of others, as the table of methods has them: never chosen, and run where they are named."""
    classes: dict[str, Any] = {"kinds": CLASSES, "reference": True}
    return (
        Candidate("saliency", "Saliency", "saliency", gradients=1, reference=True),
        Candidate("grad-cam", "Grad-CAM", "grad_cam", gradients=1, reference=True, kinds=("image",)),
        Candidate("grad-cam++", "Grad-CAM++", "grad_cam_plus_plus", gradients=1, reference=True, kinds=("image",)),
        Candidate("expected", "Expected Gradients", "expected_gradients", several=True, gradients=200, reference=True),
        Candidate("samp", "SAMP", "samp", {"direction": "both"}, gradients=28, reference=True),
        Candidate("samp++", "SAMP++", "samp_plus_plus", {"direction": "both"}, gradients=120, reference=True),
        Candidate("spectral", "Spectral IG", "spectral_ig", gradients=50, reference=True, kinds=("image", "text")),
        Candidate("sequential", "Sequential IG", "sequential_ig", {"n_steps": 20}, gradients=300, reference=True,
                  kinds=("text", "table", "few")),
        Candidate("discretized", "Discretised IG", "discretized_ig", {"points": "words"}, gradients=50, reference=True,
                  kinds=("text",)),
        Candidate("lpi", "Local path integration", "lpi", {"points": "others", "n_centers": 2}, gradients=50,
                  reference=True, kinds=("image",)),
        Candidate("ig2", "IG²", "ig2", gradients=402, reference=True),
        Candidate("agi", "AGI", "agi", gradients=400, **classes),
        Candidate("mfaba", "MFABA", "mfaba", gradients=20, **classes),
        Candidate("boundary", "Boundary IG", "boundary_ig", gradients=150, **classes),
        Candidate("fisher-rao", "Fisher–Rao path", "fisher_rao", gradients=90, **classes),
        *_of_pictures(),
    )  # fmt: skip


def _of_pictures() -> tuple[Candidate, ...]:
    """The strongest on photographs, read in the logit. What fits pictures alone is windows and masks."""
    may_win: dict[str, Any] = {"output": "raw", "main": True}
    logit: dict[str, Any] = {"reference": True, "output": "raw"}
    pictures: dict[str, Any] = {**logit, "kinds": ("image",)}
    both: dict[str, Any] = {**pictures, "several": True}
    windows: dict[str, Any] = {**may_win, "kinds": ("image",), "several": True}
    return (
        Candidate("context", "windows in context", "windows_in_context", gradients=448, **windows),
        Candidate("context-fast", "windows in context, fast", "windows_in_context", {"quality": "fast"},
                  gradients=60, **windows),
        Candidate("context-best", "windows in context, best", "windows_in_context", {"quality": "best"},
                  gradients=960, **both),
        Candidate("windows-two", "sliding windows in the logit, several baselines", "sliding_windows", gradients=240,
                  **windows),
        Candidate("staircase-logit-two", "random staircases in the logit, several baselines", "staircase",
                  several=True, gradients=440, main=True, kinds=CLASSES, **logit),
        Candidate("smooth-grad", "SmoothGrad of |gradient| in the logit", "smooth_grad", {"absolute": True}, **may_win),
        Candidate("smooth-grad-signed", "SmoothGrad in the logit", "smooth_grad", **logit),
        Candidate("smooth-grad-squared", "SmoothGrad² in the logit", "smooth_grad_squared", **logit),
        Candidate("var-grad", "VarGrad in the logit", "var_grad", **logit),
        Candidate("smooth-ig", "IG of noisy copies in the logit", "smooth_integrated_gradients", {"n_steps": 5},
                  **logit),
        Candidate("input-gradient", "Input × Gradient in the logit", "input_x_gradient", gradients=1, **logit),
        Candidate("gradient", "Saliency in the logit", "saliency", gradients=1, **may_win),
        Candidate("lrp", "LRP, composite", "lrp", gradients=10, **may_win),
        Candidate("lrp-epsilon", "LRP, ε-rule", "lrp", {"rule": "epsilon"}, gradients=5, **logit),
        Candidate("rise-two", "RISE in the logit, several baselines", "rise", gradients=700, main=True, **both),
        Candidate("owen-two", "Owen values in the logit, several baselines", "owen", several=True, gradients=340,
                  main=True, **logit),
        Candidate("kernel-shap", "Kernel SHAP in the logit", "kernel_shap", gradients=170, main=True, **logit),
        Candidate("lime", "LIME in the logit", "lime", gradients=170, main=True, **logit),
        Candidate("lime-two", "LIME in the logit, several baselines", "lime", several=True, gradients=340, main=True,
                  **logit),
    )  # fmt: skip


def _controls() -> tuple[Candidate, ...]:
    """What knows nothing of the model, or of the class: at the bottom of every table. A claim is the lead over it."""
    known: dict[str, Any] = {"main": True, "reference": True}
    pictures: dict[str, Any] = {**known, "kinds": ("image",), "gradients": 0}
    return (
        Candidate("edges", "edges of the picture, no model", "edges", **pictures),
        Candidate("distance", "|x − baseline|, no model", "distance", gradients=0, **known),
        Candidate("smooth-random", "smooth random", "smooth_random", **pictures),
        Candidate("random", "random", "random", gradients=0, **known),
        Candidate("untrained", "IG of an untrained net", "untrained", gradients=20, **known),
        Candidate("other-class", "IG of another class", "other_class", gradients=20, kinds=CLASSES, **known),
    )


def _table() -> tuple[Candidate, ...]:
    band, descent = "ElasticBand", {"max_gradients": 250}
    bent: dict[str, Any] = {"tolerance": 0.05, "max_gradients": 600, "gradients": 450}
    # Knots, rounds and samples of the band: 6, 6 and 2, so 182 gradients, then 50 for the integral.
    taut: dict[str, Any] = {"gradients": 232}
    return (
        Candidate("occlusion", "occlusion", "occlusion", gradients=40, main=True, reference=True),
        Candidate("shapley", "permutation Shapley", "shapley", gradients=300, main=True, few=True, reference=True),
        Candidate(IG, "IG", main=True, reference=True),
        Candidate(IDGI, "IDGI", weighting="IDGI", main=True, reference=True),
        Candidate("staircase", "random staircases", "staircase", gradients=220, main=True, reference=True),
        Candidate("staircase-two", "random staircases, several baselines", "staircase", several=True, gradients=440,
                  main=True, reference=True),
        *_rivals(),
        Candidate("ig-two", "IG, several baselines", several=True, gradients=100, main=True),
        Candidate("idgi-two", "IDGI, several baselines", weighting="IDGI", several=True, gradients=100, main=True),
        Candidate(LINE, "straight line, error controlled", tolerance=0.01, max_gradients=400, gradients=200),
        Candidate("line-softmax", "IG of the softmax", output="softmax", kinds=CLASSES),
        Candidate("line-log", "IG of the log-softmax", output="log_softmax", kinds=CLASSES),
        Candidate("line-margin", "IG of the logit margin", output="logit_margin", kinds=CLASSES),
        Candidate("descent", "Descent", "Descent", descent, main=True, **bent),
        Candidate("descent-two", "Descent, several baselines", "Descent", descent, several=True, **bent),
        Candidate("descent-margin", "Descent in the margin's geometry", "Descent", descent, geometry="logit_margin",
                  kinds=CLASSES, **bent),
        Candidate("descent-damped", "Descent, damped metric", "Descent", descent, damping=1.0, **bent),
        Candidate("descent-damped-10", "Descent, metric damped tenfold", "Descent", descent, damping=10.0, **bent),
        Candidate("variational", "Variational", "Variational", {"n_points": 10, "n_samples": 0}, max_gradients=1000,
                  gradients=1000, few=True),
        Candidate("band", "band", band, _band(1.0, False), **taut),
        Candidate("band-0.3", "band, stiffness 0.3", band, _band(0.3, False), **taut),
        Candidate("band-3", "band, stiffness 3", band, _band(3.0, False), **taut),
        Candidate("monotone", "monotone band", band, _band(1.0, True), main=True, **taut),
        Candidate("monotone-0.3", "monotone band, stiffness 0.3", band, _band(0.3, True), **taut),
        Candidate("monotone-3", "monotone band, stiffness 3", band, _band(3.0, True), **taut),
        Candidate("monotone-10", "monotone band, stiffness 10", band, _band(10.0, True), **taut),
        Candidate("monotone-30", "monotone band, stiffness 30", band, _band(30.0, True), **taut),
        Candidate("monotone-group", "monotone band, grouped", band, _band(1.0, True, "group"), main=True, **taut),
        Candidate("monotone-group-0.3", "monotone band, grouped, stiffness 0.3", band, _band(0.3, True, "group"),
                  **taut),
        Candidate("monotone-group-3", "monotone band, grouped, stiffness 3", band, _band(3.0, True, "group"), **taut),
        Candidate("monotone-patch", "monotone band of patches", band, _band(1.0, True, "patch"), **taut),
        Candidate("monotone-idgi", "monotone band, IDGI along it", band, _band(1.0, True), weighting="IDGI",
                  tolerance=0.05, max_gradients=260, gradients=250),
        Candidate("monotone-margin", "monotone band in the margin's geometry", band, _band(1.0, True),
                  geometry="logit_margin", kinds=CLASSES, **taut),
        Candidate("band-two", "band, several baselines", band, _band(1.0, False), several=True, gradients=464),
        Candidate("monotone-two", "monotone band, several baselines", band, _band(1.0, True), several=True,
                  gradients=464, main=True),
        Candidate("monotone-group-two", "monotone band, grouped, several baselines", band, _band(1.0, True, "group"),
                  several=True, gradients=464),
        Candidate("monotone-patch-two", "monotone band of patches, several baselines", band, _band(1.0, True, "patch"),
                  several=True, gradients=464),
        Candidate("monotone-idgi-two", "monotone band, IDGI along it, several baselines", band, _band(1.0, True),
                  weighting="IDGI", several=True, tolerance=0.05, max_gradients=260, gradients=500),
        *_controls(),
    )  # fmt: skip


CONTROLS = tuple(candidate.name for candidate in _controls())
"""At the bottom of every table."""
CANDIDATES: Mapping[str, Candidate] = MappingProxyType({candidate.name: candidate for candidate in _table()})
"""By name, in the order of tables."""
