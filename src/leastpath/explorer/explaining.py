"""Explaining one question by one method: the result, the walk along its path, and the curves of removal."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows
from leastpath.explorer.meter import Meter
from leastpath.explorer.question import Question
from leastpath.explorer.removal import Curve, removal_curve
from leastpath.explorer.subject import Kind, Subject
from leastpath.explorer.walk import PLACES, Walk, walk_along
from leastpath.geometry.path import Path
from leastpath.methods import METHODS, Method
from leastpath.removal.support import judged_score
from leastpath.removal.verdict import NO_ORDER, Verdict
from leastpath.result.attribution import Attribution, without_path
from leastpath.result.status import Interrupted, Outcome, Status
from leastpath.score.score import Score, bind_paths
from leastpath.score.untouched import leave_untouched

T = TypeVar("T")
QUICK = "integrated_gradients"  # the first picture: one pass of gradients is result and walk together
OFFERED: Mapping[Kind, tuple[str, ...]] = {
    "image": (
        QUICK, "elastic_band", "idgi", "occlusion", "staircase", "guided_ig", "blur_ig", "geodesic_descent",
        "gradient_shap", "input_x_gradient",
    ),
    "table": (
        QUICK, "elastic_band", "idgi", "guided_ig", "geodesic_descent", "occlusion", "kernel_shap", "gradient_shap",
        "input_x_gradient",
    ),
    "text": (QUICK, "elastic_band", "idgi", "geodesic_descent", "occlusion", "gradient_shap", "input_x_gradient"),
}  # fmt: skip
ROWS = {  # that a method takes an example, roughly: for the bar of progress only
    QUICK: PLACES, "elastic_band": 300, "idgi": 100, "guided_ig": 150, "blur_ig": 150, "geodesic_descent": 700,
    "occlusion": 225, "kernel_shap": 1000, "gradient_shap": 50, "input_x_gradient": 1,
    "staircase": 650,
}  # fmt: skip
IMAGE_BUDGET = 1000  # gradients for a picture, so that a minute or two is enough


@dataclass(frozen=True)
class Finding:
    """All that is known of one method's answer to one question.

    Example:
        >>> list(Finding.__dataclass_fields__)[:3]
        ['question', 'method', 'stiffness']
    """

    question: Question
    method: Method
    stiffness: float | None
    result: Attribution
    walk: Walk | None
    curves: Mapping[str, Curve]
    seconds: float
    stopped: bool = False
    is_tested: bool = True
    """False while the curves of removal are still being measured."""


def offered_methods(kind: Kind, wanted: tuple[str, ...] | None = None) -> dict[str, Method]:
    """The methods that the page offers, by name: those that fit the kind, as far as they are installed.

    Example:
        >>> list(offered_methods("table", ("elastic_band",)))
        ['elastic_band']
    """
    names = OFFERED[kind] if wanted is None else wanted
    methods = {name: METHODS[name] for name in names}
    return {name: method for name, method in methods.items() if wanted is not None or _is_installed(method)}


def _is_installed(method: Method) -> bool:
    return method.extra != "captum" or importlib.util.find_spec("captum") is not None


def has_path(method: Method) -> bool:
    """Whether a method's values come from a path that can be walked."""
    return method.has_path


def expected_rows(question: Question, method: Method) -> int:
    """Rows that the model will be given, roughly."""
    walking = PLACES if has_path(method) and method.name != QUICK else 0
    return question.m * (ROWS.get(method.name, 200) + walking) + 19 * len(question.curve_fills)


def make_finding(
    question: Question,
    method: Method,
    stiffness: float | None,
    meter: Meter,
    line: Finding | None = None,
    show: Callable[[Finding], None] = lambda early: None,
) -> Finding:
    """Explain. An interrupted method gives what it has; KeyboardInterrupt where that is nothing.

    Args:
        question: what is asked.
        method: that answers.
        stiffness: of the elastic band; None for others.
        meter: counts what the model is given, and can stop it.
        line: what the straight line says of the same question, if that is known.
        show: is given the finding as soon as there is a picture of it, before removal is measured.
    """
    began = time.monotonic()
    score = meter.over(question.score)
    walk: Walk | None
    with meter.show_bars():
        if method.name == QUICK:
            result, walk = straight(question, score)
        else:
            result = _by_method(question, score, method, settings_of(question.subject, method, stiffness))
            meter.stage = "walking along the path"
            walk = _unless_stopped(lambda: _walk(question, score, method, result))
        meter.stage = "removing features"
        show(Finding(question, method, stiffness, result, walk, {}, time.monotonic() - began, is_tested=False))
        tested = _unless_stopped(lambda: _tested(question, score, result, line, only_first=meter.stopped))
        result, curves = tested or _tested(question, score, result, line, only_first=True)
    stopped = meter.stopped or any(Outcome.INTERRUPTED in status for status in result.status)
    return Finding(question, method, stiffness, result, walk, curves, time.monotonic() - began, stopped)


def _unless_stopped(work: Callable[[], T]) -> T | None:
    """What comes after the result must not take it away: None where it is interrupted."""
    try:
        return work()
    except KeyboardInterrupt:
        return None


def settings_of(subject: Subject, method: Method, stiffness: float | None) -> dict[str, Any]:
    """What a method is given besides the question."""
    settings: dict[str, Any] = {}
    settings["support"] = False  # it is measured here, with the curves
    if "max_gradients" in method.defaults and subject.kind == "image" and method.role == "path":
        settings["max_gradients"] = IMAGE_BUDGET
    if method.name == "elastic_band":
        settings["stiffness"] = 1.0 if stiffness is None else stiffness
    if subject.kind == "image":
        return settings
    if method.name == "elastic_band":
        settings["groups"] = subject.feature_of
    if method.name in ("kernel_shap", "occlusion"):
        settings["groups"] = subject.feature_of
    return settings


def straight(question: Question, score: Score) -> tuple[Attribution, Walk]:
    """Integrated Gradients and its walk, with the same 41 gradients.

    It is what `attribute(…, method=StraightLine(), tolerance=None, n_steps=41, rule="trapezoid")` gives.
    """
    subject = question.subject
    with leave_untouched(score.model, subject.inputs):
        bound, start, end, m = bind_paths(score, subject.inputs, question.baselines)
        path = Path.straight(start, end)
        walk, found = walk_along(bound, path)
    change, length, size = found.change, found.length, flat_rows(found.values).abs().sum(1)
    certificate = torch.where(change != 0, (length / change.abs()).clamp_min(1), torch.inf)

    def mean(tensor: Tensor) -> Tensor:
        return tensor.mean(0, keepdim=True)

    plain = without_path(
        bound.space.split(mean(found.values)), mean(found.gap), mean(size - change.abs()), mean(change),
        (Status((found.notes[0],)),), n_gradients=torch.tensor([PLACES * m]),
        n_forwards=torch.tensor([int(bound.forwards_spent.sum())]), method="StraightLine()",
        baseline_spread=None if m == 1 else bound.space.split(found.values.std(0, keepdim=True)),
    )  # fmt: skip
    result = replace(
        plain, path=path, length=mean(length), length_ratio=torch.ones_like(mean(length)), metric="Conformal()",
        certificate=mean(certificate), geometry=repr(question.score),
    )  # fmt: skip
    return result, walk


def _by_method(question: Question, score: Score, method: Method, settings: Mapping[str, Any]) -> Attribution:
    baselines = question.baselines if method.takes_baselines else None
    try:
        return method(score, question.subject.inputs, baselines, **settings)
    except Interrupted as stopped:
        finished: Attribution = stopped.result
        return finished


def _walk(question: Question, score: Score, method: Method, result: Attribution) -> Walk | None:
    if result.path is None or not bool(torch.isfinite(_values(result)).all()):
        return None
    with leave_untouched(score.model, question.subject.inputs):
        bound = score.bind(question.subject.inputs, len(result.path))
        weighting = method.defaults.get("weighting")
        walk, _ = walk_along(bound, result.path, weighting)
    return walk.ending_at(_values(result)[0], weighting is None or weighting.complete)


def _tested(
    question: Question, score: Score, result: Attribution, line: Finding | None, only_first: bool
) -> tuple[Attribution, dict[str, Curve]]:
    """The result with its support, and one curve a fill. After a stop, one fill must do."""
    values = _values(result)
    if not bool(torch.isfinite(values).all()):
        return result, {}
    fills = dict(list(question.curve_fills.items())[: 1 if only_first else None])
    curves = {name: removal_curve(question.subject, score, values, fill) for name, fill in fills.items()}
    support = torch.tensor([curves["baseline"].support], dtype=torch.float64)
    beside = math.nan if line is None else float(line.result.support[0])
    scale = judged_score(score)[1]
    test = Verdict(support, torch.tensor([beside], dtype=torch.float64), torch.zeros(1), scale, (NO_ORDER,))
    others = Status(tuple(note for note in result.status[0].notes if note.outcome is not Outcome.NOT_TESTED))
    stats = {**result.stats, "line_support": test.line}
    return replace(
        result, support=support.to(result.completeness_gap), status=(test.status_with(0, others),), stats=stats
    ), curves


def _values(result: Attribution) -> Tensor:
    assert isinstance(result.values, Tensor)
    return result.values
