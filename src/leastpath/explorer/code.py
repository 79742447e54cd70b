"""Python code that reproduces what the explorer shows."""

from __future__ import annotations

from collections.abc import Sequence

from leastpath.explorer.explaining import settings_of
from leastpath.explorer.question import Question
from leastpath.explorer.subject import Subject
from leastpath.methods import Method


def python_code(question: Question, shown: Sequence[tuple[Method, float | None]]) -> str:
    """A script of the calls behind what is shown: the question, and one call for each method."""
    subject = question.subject
    lines = [
        *("from dataclasses import replace", "from pathlib import Path", "", "import leastpath as lp", "import torch"),
        "",
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
    settings = {name: repr(value) for name, value in settings_of(subject, method, stiffness).items()}
    if subject.is_made_by_recipe or "groups" in settings:
        settings["groups"] = "subject.units[None]"  # what is removed together
    if not method.takes_baselines:  # its own start would stand in for what is removed
        settings["support"] = "False"
    given = ["score", "inputs", "baselines" if method.takes_baselines else "None", f'method="{method.name}"']
    return f"lp.attribute({', '.join([*given, *(f'{name}={value}' for name, value in settings.items())])})"
