"""Python code that reproduces what the explorer shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from leastpath.explorer.explaining import QUICK, settings_of
from leastpath.explorer.question import Question
from leastpath.explorer.subject import Subject
from leastpath.explorer.walk import PLACES
from leastpath.methods import Method


def python_code(question: Question, shown: Sequence[tuple[Method, float | None]]) -> str:
    """A script of the calls behind what is shown: the question, and one call for each method.

    Example:
        >>> import torch, leastpath as lp
        >>> from leastpath.explorer.sources.tensors import TensorSource
        >>> subject = TensorSource(lp.Score(lambda x: x.sum(1)), torch.ones(1, 2)).subject(0)
        >>> print(python_code(Question.about(subject), []).splitlines()[0])
        from dataclasses import replace
    """
    subject = question.subject
    lines = [
        *("from dataclasses import replace", "from pathlib import Path", "", "import leastpath as lp", "import torch"),
        *("from leastpath.methods import METHODS", ""),
        *subject.recipe,
        *_score(question),
        f"baselines = {_baselines(question)}",
        "",
    ]
    for number, (method, stiffness) in enumerate(shown, 1):
        lines.append(f"result_{number} = {_call(subject, method, stiffness)}  # {method.title}")
        lines.append(f"print({method.title!r}, result_{number})")
        if subject.names:
            values = f"subject.by_feature(result_{number}.values)[0].tolist()"
            lines.append(f"print(list(zip(subject.names, {values}, strict=True)))")
    return "\n".join(lines) + "\n"


def _score(question: Question) -> list[str]:
    target = "" if question.target is None else f"target={question.target}, "
    score = "subject.score" if question.subject.is_made_by_recipe else "score"
    chosen = score if question.output == "given" else f'replace({score}, {target}output="{question.output}")'
    if question.subject.is_made_by_recipe:
        return [f"score, inputs = {chosen}, subject.inputs"]
    return [] if chosen == score else [f"score = {chosen}"]


def _baselines(question: Question) -> str:
    starts = [question.subject.start_code(name) for name in question.starts]
    return starts[0] if len(starts) == 1 else f"lp.baselines.several({', '.join(starts)})"


def _call(subject: Subject, method: Method, stiffness: float | None) -> str:
    tested = "subject.units[None]" if subject.is_made_by_recipe else "True"
    if method.name == QUICK:
        fixed = f'tolerance=None, n_steps={PLACES}, rule="trapezoid", support={tested}'
        return f"lp.attribute(score, inputs, baselines, method=lp.StraightLine(), {fixed})"
    settings = {name: _written(value) for name, value in settings_of(subject, method, stiffness).items()}
    if "support" in settings and method.takes_baselines:  # else its own start would stand in for what is removed
        settings["support"] = tested
    written = [f"{name}={value}" for name, value in settings.items()]
    baselines = "baselines" if method.takes_baselines else "None"
    return f'METHODS["{method.name}"]({", ".join(["score", "inputs", baselines, *written])})'


def _written(value: Any) -> str:
    """A setting as Python: of tensors there is one, the feature that each number belongs to."""
    return "subject.feature_of" if isinstance(value, Tensor) else repr(value)
