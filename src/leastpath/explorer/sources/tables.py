"""Rows of a data frame, with the names and categories of its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from leastpath.explorer.subject import Start, Subject, adding_code
from leastpath.explorer.uploads import keep_together, refusing, table_from
from leastpath.score.failures import home_of
from leastpath.score.score import Score
from leastpath.tabular import Asked, Layout, Scored, read_model, typical_row


class TableSource:
    """A model of tables, as `leastpath.tabular.explain` takes it, and the rows to look at.

    Args:
        model: (rows, width) numbers in, logits out; or a linear model, network or pipeline of scikit-learn.
        frame: the rows to explain.
        background: a frame with the same columns; None: the frame itself.
        preprocess: what turns a frame into the model's numbers; see `leastpath.tabular.explain`.
        target: the class; None: the predicted one.
        classes: names of the classes.
        titles: of the rows.
        recipe: Python lines that make `model`, `frame` and `background`; None: a comment says that they are yours.

    Example:
        >>> import pytest
        >>> pd = pytest.importorskip("pandas")
        >>> frame = pd.DataFrame({"age": [20.0, 30.0], "job": ["cook", "pilot"]})
        >>> source = TableSource(lambda x: x[:, 0] + x[:, 2], frame)
        >>> source.subject(1).names, source.subject(1).details[1]["category"]
        (('age', 'job'), 'pilot')
    """

    kind: Any = "table"

    def __init__(
        self,
        model: Callable[..., Any],
        frame: Any,
        background: Any = None,
        *,
        preprocess: Any = None,
        target: int | None = None,
        classes: Sequence[str] | None = None,
        titles: Sequence[str] | None = None,
        recipe: Sequence[str] | None = None,
    ) -> None:
        asked, prepared = read_model(model, preprocess)
        if isinstance(asked, Asked):
            raise ValueError(f"{type(model).__name__} has no gradients to walk along: use leastpath.tabular.explain")
        self._background = frame if background is None else background
        self._space = Layout.of(frame, self._background, prepared, None, None)
        device, dtype = home_of(asked)
        self._points = self._space.encode(self._background).to(device, dtype)
        self._score = Score(Scored(asked, self._space, device, dtype), target)
        also, settings = ("", "") if preprocess is None else (", preprocess", ", preprocess=preprocess")
        yours = (f"# model, frame, background{also}: as you gave them to TableSource",) if recipe is None else recipe
        made = f"source = TableSource(model, frame, background{settings})"
        self._recipe, self._classes = (f"from {__name__} import TableSource", *yours, made), classes
        names = titles or [f"row {index}" for index in frame.index]  # a row: title, itself, the code of its number
        self._rows: list[tuple[str, Any, str]] = [(names[i], frame.iloc[[i]], str(i)) for i in range(len(frame))]

    @property
    def samples(self) -> list[str]:
        """Names of all rows."""
        return [title for title, _, _ in self._rows]

    def subject(self, sample: int) -> Subject:
        """One row."""
        return self._subject(*self._rows[sample])

    def _subject(self, title: str, row: Any, number: str) -> Subject:
        space, points = self._space, self._points
        inputs = space.encode(row).to(points)
        typical = space.encode(typical_row(self._background)).to(points)
        starts = {
            "mean": Start("mean of the table", lambda score: points.mean(0, keepdim=True)),
            "median": Start("typical row", lambda score: typical),
            "samples": Start("five rows of the table", lambda score: _draw_rows(points)[None], False),
        }
        columns = space.column_of
        return Subject(
            "table", title, self._score, inputs, starts, columns, tuple(map(str, space.columns)), columns,
            details=tuple(_cell(row[name].iloc[0]) for name in space.columns), classes=self._classes,
            decode=partial(_decode, space, inputs), recipe=(*self._recipe, f"subject = source.subject({number})"),
        )  # fmt: skip

    def add(self, name: str, content: bytes, check: Callable[[Subject], Any] | None = None) -> int:
        """Rows of a CSV file: the number of the first."""
        frame = table_from(name, content, self._space.columns)
        with refusing(name, "table"):
            frame = frame.astype({c: self._background[c].dtype for c in frame.columns}, errors="ignore")
            if not bool(self._space.encode(frame).isfinite().all()):
                raise ValueError("a number in it is too large")
        code = adding_code(name)
        made = [(f"{name}, row {i}", frame.iloc[[i]], f"{code} + {i}") for i in range(len(frame))]
        if check is not None:
            for row in made:
                check(self._subject(*row))
        return keep_together(self._rows, made)


def _decode(space: Layout, inputs: Tensor, points: Tensor) -> Tensor:
    """Numbers of the model's space as cells: (n, width) -> (n, columns).

    A number is as it was in the table, a category is how much there is of the input's.
    """
    # Of a column's several numbers, the one that the input has most of: its category's.
    of_column = torch.arange(len(space.columns))[:, None] == space.column_of
    chosen = torch.where(of_column.to(inputs.device), inputs, -torch.inf).argmax(1)
    return (points * space.scale.to(points) + space.shift.to(points))[:, chosen.to(points.device)]


def _cell(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"text": value, "category": value}
    return {"text": f"{value:.6g}".replace("nan", "–") if isinstance(value, float) else str(value), "category": None}


def _draw_rows(points: Tensor) -> Tensor:
    """Five rows, drawn at random: (5, width)."""
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))[:5]
    return points[order.to(points.device)]
