"""Python code that reproduces what the explorer shows."""

from __future__ import annotations

from collections.abc import Sequence

from leastpath.explorer.explaining import IMAGE_BUDGET, QUICK, has_path
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
    if subject.kind == "text" and subject.start_code("pad") == '"pad"':
        return _text_code(question, shown)
    if subject.kind == "table" and subject.start_code("mean") == '"mean"':
        return _table_code(question, shown)
    starts = [subject.start_code(name) for name in question.starts]
    made = starts[0] if len(starts) == 1 else f"lp.baselines.several({', '.join(starts)})"
    lines = [
        *("from dataclasses import replace", "", "import leastpath as lp", "import torch"),
        *("from leastpath.methods import METHODS", ""),
        *subject.recipe,
        f"score = replace(score, {_choice(question)})" if question.output != "given" else "",
        f"baselines = {made}",
        "",
    ]
    for number, (method, stiffness) in enumerate(shown, 1):
        lines.append(f"result_{number} = {_call(subject, method, stiffness)}  # {method.title}")
        lines.append(f"print({method.title!r}, result_{number})")
    return "\n".join(lines) + "\n"


def _choice(question: Question) -> str:
    target = "" if question.target is None else f"target={question.target}, "
    return f'{target}output="{question.output}"'


def _call(subject: Subject, method: Method, stiffness: float | None) -> str:
    if method.name == QUICK:
        fixed = f'tolerance=None, n_steps={PLACES}, rule="trapezoid", support=True'
        return f"lp.attribute(score, inputs, baselines, solver=lp.StraightLine(), {fixed})"
    settings = ["support=True"] if "support" in method.defaults else []
    if subject.kind == "image" and method.kind == "path":
        settings.append(f"max_gradients={IMAGE_BUDGET}")
    settings += [] if stiffness is None else [f"stiffness={stiffness:g}"]
    if method.name == "elastic_band" and subject.kind == "text":
        settings.append('groups="token"')
    baselines = "baselines" if method.takes_baselines else "None"
    return f'METHODS["{method.name}"]({", ".join(["score", "inputs", baselines, *settings])})'


def _text_code(question: Question, shown: Sequence[tuple[Method, float | None]]) -> str:
    names = ", ".join(f'"{name}"' for name in question.starts)
    baseline = names if len(question.starts) == 1 else f"({names})"
    given = f"model, tokenizer, text, {question.target!r}, baseline={baseline}, output={question.output!r}"
    lines = ["import leastpath as lp", "import leastpath.transformers", "", *question.subject.recipe, ""]
    return _calls(lines, "leastpath.transformers.explain", given, shown, 'groups="token"')


def _table_code(question: Question, shown: Sequence[tuple[Method, float | None]]) -> str:
    baseline = question.subject.start_code(next(iter(question.starts)))
    given = f"model, frame, {question.target!r}, background=background, baseline={baseline}, output={question.output!r}"
    lines = ["import leastpath as lp", "import leastpath.tabular", "", *question.subject.recipe, ""]
    if len(question.starts) > 1:
        lines.append("# One baseline a call: average the results over the baselines that the explorer used.")
    return _calls(lines, "leastpath.tabular.explain", given, shown, "")


def _calls(
    lines: list[str], function: str, given: str, shown: Sequence[tuple[Method, float | None]], groups: str
) -> str:
    for number, (method, stiffness) in enumerate(shown, 1):
        if not has_path(method):
            lines.append(f'# {method.title} has no path: call leastpath.methods.METHODS["{method.name}"] yourself.')
            continue
        lines.append(f"result_{number} = {function}({given}{_solver(method, stiffness, groups)})  # {method.title}")
        lines.append(f"print({method.title!r}, result_{number})")
    return "\n".join(lines) + "\n"


def _solver(method: Method, stiffness: float | None, groups: str) -> str:
    if method.name == QUICK:
        return f', solver=lp.StraightLine(), tolerance=None, n_steps={PLACES}, rule="trapezoid"'
    weighting = getattr(method.explain, "weighting", None)
    tail = "" if weighting is None else f", weighting=lp.{type(weighting).__name__}()"
    if method.name == "elastic_band" and not groups and stiffness in (None, 1.0):
        return tail  # the default of tables: one step for each column
    make = getattr(method.explain, "make", None)
    solver = "StraightLine" if make is None else make.__name__
    settings = f"stiffness={stiffness:g}, {groups}".rstrip(", ") if method.name == "elastic_band" else ""
    return f", solver=lp.{solver}({settings}){tail}"
