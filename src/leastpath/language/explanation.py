"""Explanation: what a prompt's features do to an answer, as numbers, table, file and page."""

from __future__ import annotations

import html
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leastpath._support.checks import write_number
from leastpath._support.files import write_atomically
from leastpath._support.optional import import_optional
from leastpath.language.deletion import Removal, measure_removal
from leastpath.language.page import explanation_html, matrix_html
from leastpath.result.attribution import Attribution
from leastpath.score.score import Score
from leastpath.transformers import Piece

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False, kw_only=True)
class PromptExplanation:
    """What each feature of a prompt does to the log-probability of an answer.

    Example:
        >>> import leastpath.language
        >>> list(leastpath.language.PromptExplanation.__dataclass_fields__)[:4]
        ['text', 'features', 'values', 'spread']
    """

    text: str
    """The prompt as the model read it."""
    features: tuple[Piece, ...]
    """Words, sentences or whatever was asked for, in reading order; `positions` are those of their tokens."""
    values: Tensor
    """(features,) in nats: what each does to log p of the continuation, or to log p of it over that of the contrast; by
    default as far as it was not expected, and is not needed by both answers (`method` of `explain`)."""
    spread: Tensor
    """(features,) standard deviation between baselines; NaN with one."""
    tokens: tuple[str, ...]
    """The prompt's tokens, those that are fixed too."""
    token_values: Tensor
    """(tokens,) zero for those that are fixed."""
    continuation: tuple[str, ...]
    """The tokens of the answer that is explained."""
    contrast: tuple[str, ...]
    """The tokens of the answer that it is compared with; empty for none."""
    log_probabilities: Tensor
    """(continuation + contrast,) log p of each of their tokens after the prompt."""
    matrix: Tensor | None
    """(continuation, features + continuation) what each feature, and each earlier token of the answer, does to each
    token of the answer; None where it was not asked for. With a contrast its tokens are further rows, with their sign
    turned, that have no columns of their own."""
    baselines: tuple[str, ...]
    """What the prompt's words started from."""
    result: Attribution
    """All that is known: values by token and dimension, completeness gap, support, status."""
    score: Score
    """What was explained, as a function of token ids; with `inputs` and `starts` for `leastpath.evaluation`."""
    inputs: Tensor
    """(1, length) ids of the prompt and of the continuation but its last token."""
    starts: Tensor
    """(1, m, length, width) where embeddings start."""
    labels: Tensor
    """(1, length, width) the feature of each token; −1 for what is fixed."""

    @property
    def answer(self) -> str:
        """The continuation, and what it is compared with, as a text."""
        said = "".join(self.continuation)
        return f"{said} rather than {''.join(self.contrast).strip()}" if self.contrast else said

    @property
    def first(self) -> str:
        """The feature that does most for the answer."""
        return self.features[int(self.values.argmax())].text

    def to_dataframe(self, *, matrix: bool = False) -> pandas.DataFrame:
        """A row for each feature: its text, its value, the spread between baselines. Needs pandas.

        Args:
            matrix: instead a row for each token of the answer, a column for each feature and earlier token.
        """
        pandas = import_optional("pandas", "to_dataframe needs pandas", "tabular")
        if not matrix:
            columns = {"feature": [piece.text for piece in self.features], "value": self.values.tolist()}
            return pandas.DataFrame({**columns, "spread": self.spread.tolist()})
        rows = self._asked_matrix()
        names = [piece.text for piece in self.features] + list(self.continuation)
        return pandas.DataFrame(rows.numpy(), index=list(self.continuation + self.contrast), columns=names)

    def _asked_matrix(self) -> Tensor:
        if self.matrix is None:
            raise ValueError("the matrix was not computed: explain(…, matrix=True)")
        return self.matrix

    def removal_gain(self, removal: Removal = "natural") -> float:
        """How much more the answer loses without the most than without the least important features, in nats.

        The symmetric relevance gain of log-probabilities; chance is 0. Costs at most ten forwards per text.

        Args:
            removal: what becomes of removed features: "natural", the baselines stand in for them; "end", the
                end-of-text token does; "deleted", the tokens behind them move up. They answer different questions.
        """
        return measure_removal(self.score, self.inputs, self.token_values, self.starts, self.labels, removal)

    def save(self, path: str | Path) -> Path:
        """Keep texts and numbers as JSON, for `json.load` in any language."""
        kept: dict[str, Any] = {
            "text": self.text, "features": [asdict(piece) for piece in self.features], "values": self.values.tolist(),
            "spread": [_write(number) for number in self.spread],
            "tokens": self.tokens, "token_values": self.token_values.tolist(), "continuation": self.continuation,
            "contrast": self.contrast, "log_probabilities": self.log_probabilities.tolist(),
            "matrix": None if self.matrix is None else self.matrix.tolist(), "baselines": self.baselines,
            "method": self.result.method, "status": self.result.status[0].value,
            **{name: _write(getattr(self.result, name)[0]) for name in ("support", "p_value", "p_model")},
        }  # fmt: skip
        target = Path(path)
        write_atomically(target, json.dumps(kept, ensure_ascii=False, indent=1).encode())
        return target

    def to_html(self, path: str | Path | None = None) -> str:
        """The prompt in colours, its numbers on hover, and the matrix where there is one; written to `path`.

        Where there is a matrix, a click on a token of the answer shows what that token rests on.
        """
        body = explanation_html(
            self.features, self.values, self.text, self.continuation, self.matrix, self.heading, self.evidence
        )
        if self.matrix is not None and len(self.continuation) > 1:
            names = [piece.text for piece in self.features] + list(self.continuation)
            body += matrix_html(names, self.continuation + self.contrast, self.matrix)
        if path is not None:
            head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(self.heading)}</title>'
            write_atomically(Path(path), f"{head}{body}".encode())
        return body

    @property
    def heading(self) -> str:
        """What was asked, in words."""
        return f"What speaks for “{self.answer.strip()}”"

    @property
    def evidence(self) -> str:
        """Log-probabilities, what changed against the baselines, and the status, in words."""
        n = len(self.continuation)
        ours, other = (float(part.sum()) for part in (self.log_probabilities[:n], self.log_probabilities[n:]))
        log_p = write_number(ours, 3)
        if self.contrast:
            prefers = ", so the model prefers the other answer" if other > ours else ""
            log_p += f", of the contrast {write_number(other, 3)}{prefers}"
        change = write_number(float(self.result.score_change[0]), 3, sign=True)
        return f"log p {log_p}; {change} against the baselines; {self.result.status[0].value}"

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        best = self.values.abs().argsort(descending=True)[:3].tolist()
        said = ", ".join(f"{self.features[i].text} {write_number(float(self.values[i]), 2, sign=True)}" for i in best)
        return f"PromptExplanation({self.answer.strip()!r}: {said}; {self.evidence})"


def _write(number: Tensor) -> float | None:
    """A number for JSON, which has no NaN."""
    return None if math.isnan(float(number)) else float(number)


def sum_features(of_tokens: Tensor, features: tuple[Piece, ...]) -> Tensor:
    """(…, tokens) -> (…, features)."""
    return torch.stack([of_tokens[..., list(piece.positions)].sum(-1) for piece in features], -1)
