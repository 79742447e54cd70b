"""Explaining one question by one method: the result, the walk along its path, and the curves of removal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from leastpath.attribution import default_method
from leastpath.explorer.meter import Meter
from leastpath.explorer.question import Question
from leastpath.explorer.removal import Curve, removal_curve
from leastpath.explorer.subject import Subject
from leastpath.explorer.walk import PLACES, Walk, walk_along
from leastpath.features.groups import Kind, kind_of_shape
from leastpath.methods import METHODS, Method
from leastpath.removal.referee import Referee
from leastpath.result.attribution import Attribution
from leastpath.result.status import Outcome
from leastpath.score.calls import leave_untouched
from leastpath.score.score import Score

T = TypeVar("T")
LINE = "integrated_gradients"  # what bent paths are compared with
IMAGE_BUDGET = 1000  # gradients for a picture, so that a minute or two is enough
UNKNOWN_COST = 200  # rows, for the bar of progress only


@dataclass(frozen=True)
class Finding:
    """All that is known of one method's answer to one question."""

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
    referee: Referee | None = None
    """The removals of the verdict, which other methods share."""


def kind_of_subject(subject: Subject) -> Kind:
    """What the verb calls it. The vectors of a text are tokens, though no layer gives them here."""
    return "tokens" if subject.kind == "text" else kind_of_shape(subject.shape)


def offered_methods(kind: Kind, wanted: Sequence[str] | None = None, shape: Sequence[int] = ()) -> dict[str, Method]:
    """The methods that the page offers, by name: `wanted`, or those that fit and are installed.

    First what the verb takes by default, then what is recommended.

    Example:
        >>> list(offered_methods("few"))[:2], list(offered_methods("table", ["elastic_band"]))
        (['elastic_band', 'integrated_gradients'], ['elastic_band'])
    """
    if wanted is not None:
        return {name: METHODS[name] for name in wanted}
    fitting = [method for method in METHODS.fitting(kind) if method.role != "floor" and method.is_installed]
    known = [method for method in fitting if method.costs is not None or kind in method.recommended]
    return {method.name: method for method in (default_method(kind, shape), *known)}


def opening_methods(methods: Mapping[str, Method]) -> list[str]:
    """What a page begins with: the first method and, where that has no path, before it one that can be walked."""
    first = next(iter(methods), None)
    if first is None or methods[first].has_path or LINE not in methods:
        return [] if first is None else [first]
    return [LINE, first]


def cost_of(subject: Subject, method: Method) -> int:
    """Rows that the model is given for one baseline, roughly."""
    return sum(method.cost(subject.shape, _budget(subject, method)) or (UNKNOWN_COST,))


def expected_rows(question: Question, method: Method) -> int:
    """Rows that the model will be given, roughly."""
    walking = PLACES if method.has_path else 0
    return question.m * (cost_of(question.subject, method) + walking) + 19 * len(question.curve_fills)


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
    with meter.show_bars():
        result = _explain_by(question, score, method, stiffness)
        meter.stage = "walking along the path"
        walk = _finish_unless_stopped(lambda: _walk(question, score, method, result))
        meter.stage = "removing features"
        show(Finding(question, method, stiffness, result, walk, {}, time.monotonic() - began, is_tested=False))
        tested = _finish_unless_stopped(lambda: _test(question, score, result, line, only_first=meter.stopped))
        result, curves, referee = tested or _test(question, score, result, line, only_first=True)
    stopped = meter.stopped or any(Outcome.INTERRUPTED in status for status in result.status)
    return Finding(
        question, method, stiffness, result, walk, curves, time.monotonic() - began, stopped, referee=referee
    )


def _finish_unless_stopped(work: Callable[[], T]) -> T | None:
    """What comes after the result must not take it away: None where it is interrupted."""
    try:
        return work()
    except KeyboardInterrupt:
        return None


def settings_of(subject: Subject, method: Method, stiffness: float | None) -> dict[str, Any]:
    """What the verb is given besides the question: what belongs together is moved, hidden and removed together."""
    budget = _budget(subject, method)
    settings: dict[str, Any] = {} if budget is None else {"max_gradients": budget}
    if "stiffness" in method.defaults:
        settings["stiffness"] = 1.0 if stiffness is None else stiffness
    if subject.groups is not None:
        settings["groups"] = subject.groups
    return settings


def _budget(subject: Subject, method: Method) -> int | None:
    return IMAGE_BUDGET if subject.kind == "image" and method.role == "path" else None


def _explain_by(question: Question, score: Score, method: Method, stiffness: float | None) -> Attribution:
    baselines = question.baselines if method.takes_baselines else None
    settings = settings_of(question.subject, method, stiffness)
    return method(score, question.subject.inputs, baselines, support=False, on_interrupt="return", **settings)


def _walk(question: Question, score: Score, method: Method, result: Attribution) -> Walk | None:
    if result.path is None or not bool(torch.isfinite(_values(result)).all()):
        return None
    with leave_untouched(score.model, question.subject.inputs):
        bound = score.bind(question.subject.inputs, len(result.path))
        weighting = method.defaults.get("weighting")
        walk = walk_along(bound, result.path, weighting)
    return walk.ending_at(_values(result)[0], weighting is None or weighting.complete)


def _test(
    question: Question, score: Score, result: Attribution, line: Finding | None, only_first: bool
) -> tuple[Attribution, dict[str, Curve], Referee | None]:
    """The result with its verdict, one curve per fill, and the removals. After a stop, one fill must do."""
    values = _values(result)
    if not bool(torch.isfinite(values).all()):
        return result, {}, None
    fills = dict(list(question.curve_fills.items())[: 1 if only_first else None])
    curves = {name: removal_curve(question.subject, score, values, fill) for name, fill in fills.items()}
    referee = Referee(score, question.subject.inputs, question.baselines, groups=question.subject.groups)
    if line is not None and line.referee is not None:
        referee.take_removals(line.referee)  # one question is removed from once, whatever the method
    of_line = None if line is None else _values(line.result)
    with leave_untouched(score.model, question.subject.inputs):
        test = referee.judge_points(values, of_line, torch.tensor([line is not None]))
    return test.add_to(result), curves, referee


def _values(result: Attribution) -> Tensor:
    assert isinstance(result.values, Tensor)
    return result.values
