"""Page: a prompt in colours as a piece of HTML without scripts. A click on a token of the answer shows its own row."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence

from torch import Tensor

from leastpath._support.checks import write_number
from leastpath.report.tokens import colour
from leastpath.transformers import Piece

_NUMBERS = itertools.count()  # several explanations may stand on one page of a notebook
STYLE = (
    ".lp{font-family:sans-serif;line-height:2;max-width:60rem;margin:0 auto;padding:0 1rem;color:#111;background:#fff}"
    ".lp .chip{border-radius:.3em;padding:.1em .2em;color:#000}.lp small{color:#444;line-height:1.4}"
    ".lp input{position:absolute;opacity:0}.lp label{cursor:pointer;border:1px solid #888;border-radius:.3em;"
    "padding:.1em .3em;margin:.1em;white-space:pre}.lp .row{display:none;white-space:pre-wrap}"
    ".lp table{border-collapse:collapse;font-size:.8em}.lp td{width:2.2em;height:1.6em;text-align:center}"
    ".lp th{font-weight:normal;padding:0 .4em;text-align:right;white-space:pre}"
    ".lp thead th{writing-mode:vertical-rl;transform:rotate(180deg);text-align:left;padding:.4em 0}"
)


def explanation_html(
    features: Sequence[Piece], values: Tensor, text: str, answer: Sequence[str], matrix: Tensor | None, heading: str,
    evidence: str,
) -> str:  # fmt: skip
    """The prompt with a coloured ground under each feature, and the answer's tokens as buttons where there is a matrix.

    Args:
        features: pieces of the text, in reading order.
        values: (features,).
        text: the whole prompt: what is no feature is grey.
        answer: tokens.
        matrix: (tokens, features + tokens), or None.
        heading: above it.
        evidence: below the heading, in small letters.
    """
    number = next(_NUMBERS)
    rows = [values] if matrix is None or len(answer) < 2 else [values, *matrix[: len(answer)]]
    names = ["all"] if len(rows) == 1 else ["all", *answer]
    end = float(values.abs().max()) or 1.0
    inputs, labels, shown, rules = [], [], [], []
    for k, (row, name) in enumerate(zip(rows, names, strict=True)):
        key = f"lp{number}-{k}"
        scale = end if k == 0 else float(row.abs().max()) or 1.0
        inputs.append(f'<input type="radio" name="lp{number}" id="{key}"{" checked" * (k == 0)}>')
        labels.append(f'<label for="{key}">{_show(name)}</label>')
        earlier = "" if k == 0 else _earlier(answer[: k - 1], row[len(features) :], scale)
        shown.append(f'<div class="row r{key}">{_chips(features, row, text, scale)}{earlier}</div>')
        rules.append(f"#{key}:checked~.r{key}{{display:block}}#{key}:checked~p label[for={key}]{{background:#ddd}}")
    bar = f"<p><small>answer, click for one token:</small> {''.join(labels)}</p>" if len(rows) > 1 else ""
    legend = f"<small>red raises, blue lowers; strongest {write_number(end, 2)} nats</small>"
    title = f"<h3>{html.escape(heading)}</h3><p><small>{html.escape(evidence)}</small></p>"
    style = f"<style>{STYLE}{''.join(rules)}</style>"
    return f'{style}<div class="lp">{title}{"".join(inputs)}{bar}{"".join(shown)}<p>{legend}</p></div>'


def _chips(features: Sequence[Piece], values: Tensor, text: str, end: float) -> str:
    parts, at = [], 0
    for piece, value in zip(features, values.tolist(), strict=False):
        begin = text.find(piece.text, at)
        begin = at if begin < 0 else begin
        parts.append(f'<span style="color:#666">{html.escape(text[at:begin])}</span>')
        parts.append(_chip(piece.text, value, end))
        at = begin + len(piece.text)
    return "".join([*parts, f'<span style="color:#666">{html.escape(text[at:])}</span>'])


def _earlier(tokens: Sequence[str], values: Tensor, end: float) -> str:
    return "".join(_chip(token, value, end) for token, value in zip(tokens, values.tolist(), strict=False))


def _chip(text: str, value: float, end: float) -> str:
    number = write_number(value, 3, sign=True)
    shown = html.escape(text)
    title = f"{html.escape(text.strip(), quote=True)}: {number} nats"
    return f'<span class="chip" title="{title}" style="background:{colour(value, end)}">{shown}</span>'


def _show(token: str) -> str:
    """A token by itself: line breaks and spaces would not be seen."""
    return html.escape(token.replace("\n", "⏎").strip() or "␣")


def matrix_html(columns: Sequence[str], rows: Sequence[str], matrix: Tensor) -> str:
    """A heat map of what each column does to each row, its numbers on hover."""
    end = float(matrix.abs().max()) or 1.0
    head = "".join(f"<th>{_show(name)}</th>" for name in columns)
    body = []
    for name, numbers in zip(rows, matrix.tolist(), strict=True):
        cells = [
            f'<td style="background:{colour(number, end)}" '
            f'title="{html.escape(column.strip(), quote=True)} → {html.escape(name.strip(), quote=True)}: '
            f'{write_number(number, 3, sign=True)}"></td>'
            for column, number in zip(columns, numbers, strict=True)
        ]
        body.append(f"<tr><th>{_show(name)}</th>{''.join(cells)}</tr>")
    return f'<div class="lp"><table><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
