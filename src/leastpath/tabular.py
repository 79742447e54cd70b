"""Tables: pandas in, pandas out.

A frame is encoded as numbers (numeric columns standardised, categorical ones as one-hot blocks), explained in that
space, and the attributions of a column's numbers are summed: one value per cell, under the names it came with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.checks import seed_of
from leastpath._support.optional import import_optional
from leastpath.attribution import attribute
from leastpath.features.groups import FEW_FEATURES
from leastpath.methods.method import Method
from leastpath.removal.verdict import headline
from leastpath.result.attribution import Attribution
from leastpath.score.calls import Output
from leastpath.score.estimators import as_module
from leastpath.score.failures import UnfitInputs, home_of
from leastpath.score.score import Score, with_classes
from leastpath.solvers.elastic.solver import ElasticBand
from leastpath.solvers.graph.solver import NeighborGraph
from leastpath.solvers.solution import Solver
from leastpath.solvers.straight import StraightLine

ROWS_TO_COMPARE = 500  # for finding out which column a transformer's outputs come from


@dataclass(frozen=True)
class Encoding:
    """Columns as numbers, laid out as `pandas.get_dummies` does: numeric ones first, then a one-hot block for each
    categorical one, its categories sorted. Numeric columns are standardised unless asked otherwise.

    Example:
        >>> import pytest
        >>> pd = pytest.importorskip("pandas")
        >>> encoding = Encoding.fit(pd.DataFrame({"job": ["cook", "pilot"], "age": [20, 40]}))
        >>> encoding.get_feature_names_out()
        ['age', 'job_cook', 'job_pilot']
        >>> encoding.transform(pd.DataFrame({"job": ["pilot"], "age": [30]}))
        tensor([[0., 0., 1.]])
    """

    columns: tuple[Any, ...]
    """All columns, in the order of the frame."""
    categories: Mapping[Any, tuple[Any, ...]]
    """Of each categorical column."""
    centers: Mapping[Any, float]
    """Of each numeric column: what is subtracted."""
    scales: Mapping[Any, float]
    """Of each numeric column: what it is then divided by."""

    @classmethod
    def fit(cls, frame: Any, categorical: Sequence[Any] | None = None, *, standardize: bool = True) -> Encoding:
        """Learn categories, means and deviations from a frame; `categorical` defaults to all non-numeric columns."""
        named = _categorical_columns(frame, categorical)
        categories, centers, scales = {}, {}, {}
        for name, column in frame.items():
            if column.isna().any():
                raise ValueError(f"column {name!r} has missing values: fill them first, frame.fillna(…)")
            if column.dtype.kind in "mM":
                raise ValueError(f"column {name!r} holds dates: turn them into numbers first, as in days since a date")
            if name in named:
                categories[name] = tuple(column.cat.categories if hasattr(column, "cat") else sorted(column.unique()))
            else:
                numbers = _numbers(column, name)
                centers[name] = float(numbers.mean()) if standardize else 0.0
                scales[name] = (float(numbers.std()) or 1.0) if standardize else 1.0
        return cls(tuple(frame.columns), categories, centers, scales)

    @property
    def owners(self) -> tuple[Any, ...]:
        """(width,) the column that each number comes from."""
        blocks = [name for name, values in self.categories.items() for _ in values]
        return (*self.centers, *blocks)

    def get_feature_names_out(self) -> list[str]:
        """(width,) names of the numbers."""
        blocks = [f"{name}_{value}" for name, values in self.categories.items() for value in values]
        return [*map(str, self.centers), *blocks]

    def transform(self, frame: Any) -> Tensor:
        """(rows, width), float32."""
        missing = [name for name in self.columns if name not in frame.columns or frame[name].isna().any()]
        if missing:
            raise ValueError(f"the columns {missing} are missing or have missing values: fill them, frame.fillna(…)")
        parts = [((_numbers(frame[n], n) - center) / self.scales[n])[:, None] for n, center in self.centers.items()]
        for name, known in self.categories.items():
            column = frame[name].to_numpy(dtype=object)
            block = np.stack([column == value for value in known], 1).astype(np.float64)
            if not (block.sum(1) == 1).all():
                bad = column[int(np.argmin(block.sum(1)))]
                raise ValueError(
                    f"column {name!r} holds {bad!r}, which is none of its {len(known)} categories: fit the encoding, "
                    "or choose the background, so that it occurs"
                )
            parts.append(block)
        return torch.as_tensor(np.concatenate(parts, 1), dtype=torch.float32)


@dataclass(frozen=True, repr=False)
class TableExplanation:
    """Attributions of a table. Frames and series have the index of the frame that was explained.

    Example:
        >>> list(TableExplanation.__dataclass_fields__)[:3]
        ['values', 'scores', 'base_values']
    """

    values: Any
    """DataFrame: rows and columns of the frame, summed over the numbers that a column was encoded as."""
    scores: Any
    """Series: the score of each row."""
    base_values: Any
    """Series: the score of its baseline. `base_values + values.sum(axis=1)` is the score, up to the completeness
    gap."""
    target: Any
    """Series: the class explained; −1 where the model has a single output."""
    support: Any
    """Series: does removal confirm the explanation? See `Attribution.support`; columns are removed whole. NaN where it
    was not measured."""
    encoded_values: Any
    """DataFrame: before summing, one column for each number."""
    frame: Any
    """What was explained."""
    result: Attribution
    """All that is known: lengths, certificates, a status for each row."""
    choice: str
    """Which solver was taken, and why."""

    def summary(self) -> Any:
        """Mean |value| of each column, largest first: a Series."""
        return self.values.abs().mean().sort_values(ascending=False)

    def __repr__(self) -> str:
        rows, columns = self.values.shape
        tested = headline(self.result.status)
        return f"TableExplanation({tested}; {rows} rows × {columns} columns; {self.choice}; {self.result!r})"


def explain(
    model: Callable[..., Any],
    frame: Any,
    target: int | Sequence[int] | Any | None = None,
    *,
    background: Any,
    preprocess: Any = None,
    categorical: Sequence[Any] | None = None,
    baseline: Any = "mean",
    output: Output | None = None,
    method: str | Method | Solver | None = None,
    support: bool = True,
    groups: Mapping[Any, Sequence[int]] | None = None,
    n_neighbors: int | None = None,
    max_points: int = 1000,
    batch_size: int | None = None,
    seed: int = 0,
    **settings: Any,
) -> TableExplanation:
    """Explain a model's answers on the rows of a data frame.

    Args:
        model: a torch module, or a callable over tensors: (rows, width) numbers in, logits out. A fitted linear model
            or network of scikit-learn becomes a module (`leastpath.score.estimators.as_module`).
        frame: the rows to explain.
        target: a class, or one per row. None: the predicted class, or the only output.
        background: a frame with the same columns, e.g. training data: the points of the neighbour graph, the
            baseline and the scale of the columns come from it.
        preprocess: what turns the frame into the model's numbers. A fitted transformer with `transform(frame)`
            (scikit-learn's, or an `Encoding`): the path runs in its output. A module or function over tensors: it
            becomes part of the score, `model(preprocess(x))`, with x the columns themselves. None: the model takes
            the columns themselves, laid out as `pandas.get_dummies` does.
        categorical: columns to encode as one-hot blocks; by default those that are not numeric. Only without a
            transformer.
        baseline: "mean" of the encoded background (frequencies, for categories), "median" (and the most frequent
            category), a row or frame of the same columns, or a number: so many rows of the background, averaged.
        output: what is explained: "log_softmax" by default, "raw" for a model of one output.
        method: as in `leastpath.attribute`. None: what the study of truth chose, `ElasticBand` with one step for each
            column where there are at most 20 encoded features, and else `StraightLine`; with `n_neighbors` a
            `NeighborGraph` over the background. `choice` says which.

    Rarely needed:
        support: test the result: does the score change when the columns that come out first get the baseline's values?
        groups: which outputs of a transformer belong to which column, where this cannot be found by trying.
        n_neighbors: of each point of a neighbour graph over the background. In wide tables few neighbours make routes
            longer than the line. None: no graph.
        max_points: rows of the background that become points of the graph, drawn at random.
        batch_size: rows in one model call.
        seed: of what is drawn, here and in the solver.
        settings: metric, geometry, tolerance, n_steps, max_gradients, progress, …: as in `leastpath.attribute`.

    Example:
        >>> import pytest
        >>> pd = pytest.importorskip("pandas")
        >>> frame = pd.DataFrame({"age": [20.0, 30, 40, 50], "job": ["cook", "pilot", "cook", "pilot"]})
        >>> explained = explain(lambda x: x[:, 0] / 10 + 2 * x[:, 2], frame[:1], background=frame)
        >>> explained.values.round(2)
           age  job
        0 -1.5 -1.0
    """
    given: object = model
    if hasattr(given, "predict") and not callable(given):
        model = as_module(given)
    _check_frames(model, frame, background)
    layout = Layout.of(frame, background, preprocess, categorical, groups)
    device, dtype = home_of(model)
    inputs, points = (layout.encode(table).to(device, dtype) for table in (frame, background))
    score = Score(Scored(model, layout, device, dtype), batch_size=batch_size)
    score = with_classes(score, target, output, _ask_model(score, inputs, layout.names))
    generator = np.random.default_rng(seed_of(seed))
    start = _start(layout, baseline, points, background, len(frame), generator).to(inputs)
    if method is None and "solver" not in settings:
        method, choice = _choose_solver(layout, points, n_neighbors, max_points, generator)
    else:
        given = settings.get("solver", method)
        choice = f"{given if isinstance(given, str) else type(given).__name__}, as asked"
    labels = layout.column_of[None]
    result = attribute(score, inputs, start, method=method, seed=seed, groups=labels, support=support, **settings)
    return _as_frames(layout, frame, result, score, score(inputs), choice)


def _numbers(column: Any, name: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(rows,) of a column that is not categorical."""
    try:
        return column.to_numpy(dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"column {name!r} should hold numbers and holds something else ({error}): mend it, or name it in "
            "categorical=[…], and give background the same kind of values"
        ) from error


# ---- the explained space -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """How cells become numbers, which column each number belongs to, and what the model is given for them."""

    columns: tuple[Any, ...]
    encode: Callable[[Any], Tensor]  # frame -> (rows, width)
    owners: tuple[Any, ...]  # (width,)
    names: list[str]  # (width,)
    inner: Callable[[Tensor], Tensor] | None  # a preprocessing step over tensors
    shift: Tensor  # (width,) the model is given inner(numbers · scale + shift)
    scale: Tensor

    @property
    def column_of(self) -> Tensor:
        """(width,) the number of the column that each number belongs to."""
        return torch.tensor([self.columns.index(name) for name in self.owners])

    @classmethod
    def of(cls, frame: Any, background: Any, preprocess: Any, categorical: Any, groups: Any) -> Layout:
        columns = tuple(frame.columns)
        if hasattr(preprocess, "transform"):
            if categorical is not None:
                raise ValueError("categorical is for encoding without a transformer: preprocess does that already")
            return cls._of_transformer(columns, frame, background, preprocess, groups)
        if preprocess is not None and not callable(preprocess):
            raise ValueError(
                f"preprocess is a {type(preprocess).__name__}, expected a fitted transformer or a function of tensors"
            )
        encoding = Encoding.fit(background, categorical)
        width, numeric = len(encoding.owners), len(encoding.centers)
        shift, scale = torch.zeros(width), torch.ones(width)
        shift[:numeric] = torch.tensor(list(encoding.centers.values()))
        scale[:numeric] = torch.tensor(list(encoding.scales.values()))
        names = encoding.get_feature_names_out()
        return cls(columns, encoding.transform, encoding.owners, names, preprocess, shift, scale)

    @classmethod
    def _of_transformer(cls, columns: Any, frame: Any, background: Any, preprocess: Any, groups: Any) -> Layout:
        def encode(table: Any) -> Tensor:
            made = preprocess.transform(table)
            made = made.toarray() if hasattr(made, "toarray") else made
            return made.float() if isinstance(made, Tensor) else torch.as_tensor(np.array(made, dtype=np.float32))

        if groups is not None:
            owners = _owners_of_groups(groups, encode(frame[:1]).shape[1])
        elif isinstance(preprocess, Encoding):
            owners = preprocess.owners
        else:
            owners = _owners_by_trying(encode, frame, background)
        width = len(owners)
        named = getattr(preprocess, "get_feature_names_out", None)
        names = [str(name) for name in named()] if named is not None else [f"x{i}" for i in range(width)]
        return cls(columns, encode, owners, names, None, torch.zeros(width), torch.ones(width))


class Scored(nn.Module):
    """The model over the explained space: scale, preprocessing step and model in one."""

    def __init__(self, model: Callable[..., Any], layout: Layout, device: Any, dtype: torch.dtype) -> None:
        super().__init__()
        self.model = model
        self.inner = layout.inner
        self.shift, self.scale = layout.shift.to(device, dtype), layout.scale.to(device, dtype)
        self.training = isinstance(model, nn.Module) and model.training

    def forward(self, numbers: Tensor) -> Any:
        cells = numbers * self.scale + self.shift
        return self.model(cells if self.inner is None else self.inner(cells))


def _owners_by_trying(encode: Callable[[Any], Tensor], frame: Any, background: Any) -> tuple[Any, ...]:
    """Change one column at a time: the outputs that move come from it."""
    import pandas as pd

    rows = pd.concat([frame[:ROWS_TO_COMPARE], background[:ROWS_TO_COMPARE]])
    before, columns = encode(rows), list(rows.columns)
    moved = torch.zeros(len(columns), before.shape[1], dtype=torch.bool)
    for c, name in enumerate(columns):
        changed = rows.copy()
        changed[name] = np.roll(rows[name].to_numpy(), 1)
        moved[c] = (encode(changed) != before).any(0)
    for i in (moved.sum(0) > 1).nonzero()[:1, 0].tolist():
        first, second = (columns[c] for c in moved[:, i].nonzero()[:2, 0].tolist())
        raise ValueError(
            f"output {i} of preprocess comes from column {first!r} and from {second!r}: attributions can be summed by "
            "column only where each output has one. Pass groups={column: [outputs]}, or make the step a function of "
            "tensors"
        )
    if still := (~moved.any(0)).nonzero()[:10, 0].tolist():  # what never moves in the data
        raise ValueError(
            f"outputs {still} of preprocess are constant over frame and background, so their column is unknown: "
            "pass a larger background, or groups={column: [outputs]}"
        )
    return tuple(columns[c] for c in moved.int().argmax(0).tolist())


def _owners_of_groups(groups: Mapping[Any, Sequence[int]], width: int) -> tuple[Any, ...]:
    owners = {i: name for name, outputs in groups.items() for i in outputs}
    if sorted(owners) != list(range(width)) or sum(map(len, groups.values())) != width:
        raise ValueError(f"groups must name each of the {width} outputs of preprocess once, got {sorted(owners)}")
    return tuple(owners[i] for i in range(width))


# ---- baselines and solvers ---------------------------------------------------------------------------------------


def _start(
    layout: Layout, baseline: Any, points: Tensor, background: Any, rows: int, generator: np.random.Generator
) -> Tensor:
    """(1, width), (rows, width) or (rows, m, width)."""
    if isinstance(baseline, str):
        if baseline == "mean":
            return points.mean(0, keepdim=True)
        if baseline == "median":
            return layout.encode(typical_row(background))
        raise ValueError(f'baseline={baseline!r} is unknown: use "mean", "median", a row, a frame or a number of rows')
    if isinstance(baseline, (int, np.integer)):
        if not 1 <= baseline <= len(points):
            raise ValueError(f"baseline={baseline} rows of a background of {len(points)}: pass 1 to {len(points)}")
        drawn = points[torch.as_tensor(generator.permutation(len(points))[:baseline])]
        return drawn[None].expand(rows, -1, -1)
    table = baseline.to_frame().T if hasattr(baseline, "to_frame") else baseline
    if not hasattr(table, "columns") or set(layout.columns) - set(table.columns) or len(table) not in (1, rows):
        raise ValueError(
            f"baseline must be a row, or a frame of 1 or {rows} rows, with the columns {list(layout.columns)}: "
            "as in baseline=background.iloc[0]"
        )
    if len(table) == 1 and not hasattr(baseline, "columns"):
        table = table.astype(background.dtypes.to_dict())  # a row of a mixed frame has lost its types
    return layout.encode(table[list(layout.columns)])


def typical_row(background: Any) -> Any:
    """Medians, and the most frequent category: one row."""
    import pandas as pd

    row = {
        name: column.median() if pd.api.types.is_numeric_dtype(column) else column.mode().iloc[0]
        for name, column in background.items()
    }
    return pd.DataFrame([row], columns=background.columns)


def _choose_solver(
    layout: Layout, points: Tensor, n_neighbors: int | None, max_points: int, generator: np.random.Generator
) -> tuple[Solver, str]:
    """What the study of truth chose, or a graph over the background where neighbours are asked for; and why."""
    if n_neighbors is None and points.shape[1] > FEW_FEATURES:
        return StraightLine(), "StraightLine, with error control"
    if n_neighbors is None:
        return ElasticBand(groups=layout.column_of), "ElasticBand, one step for each column"
    distinct = points.unique(dim=0)
    drawn = distinct[torch.as_tensor(np.sort(generator.permutation(len(distinct))[:max_points]))]
    graph = NeighborGraph(drawn, n_neighbors)
    return graph, f"NeighborGraph over {len(drawn)} rows of the background, {n_neighbors} neighbours each"


# ---- in and out --------------------------------------------------------------------------------------------------


def _check_frames(model: Any, frame: Any, background: Any) -> None:
    _pandas()
    for name, table in (("frame", frame), ("background", background)):
        if not hasattr(table, "columns") or not hasattr(table, "iloc"):
            raise ValueError(
                f"{name} is a {type(table).__name__}, expected a pandas DataFrame: pd.DataFrame({name}), or for one "
                "row of a frame df.iloc[[0]]"
            )
        if not len(table):
            raise ValueError(f"{name} has no rows: pass at least one")
        if not table.columns.is_unique:
            raise ValueError(f"{name} has several columns of one name: rename them")
    if list(frame.columns) != list(background.columns):
        missing = [c for c in frame.columns if c not in background.columns]
        extra = [c for c in background.columns if c not in frame.columns]
        what = "frame and background have the same columns in another order"
        what = f"frame lacks the columns {extra} of background" if extra else what
        what = f"background lacks the columns {missing} of frame" if missing else what
        raise ValueError(f"{what}: pass both with the same columns, as in background[frame.columns]")
    if not callable(model):
        raise ValueError(
            f"model is a {type(model).__name__}, expected a function of tensors: pass a torch module, a linear model "
            "or network of scikit-learn, or a callable that has a gradient"
        )


def _ask_model(score: Score, inputs: Tensor, names: Sequence[str]) -> Tensor:
    """What the model says of each row: (rows,) or (rows, classes)."""
    try:
        return score.outputs(inputs)
    except UnfitInputs as error:
        raise ValueError(
            f"the model does not take rows of {len(names)} numbers, {list(names[:8])}{' …' * (len(names) > 8)}: pass "
            f"the preprocess that it was trained with. The model's error: {error.__cause__}"
        ) from error


def _as_frames(
    layout: Layout, frame: Any, result: Attribution, score: Score, scores: Tensor, choice: str
) -> TableExplanation:
    import pandas as pd

    def series(numbers: Any, name: str) -> Any:
        return pd.Series(numbers.cpu().numpy(), index=frame.index, name=name)

    assert isinstance(result.values, Tensor)
    values = result.values.double().cpu()
    summed = torch.zeros(len(frame), len(layout.columns), dtype=torch.float64).index_add_(1, layout.column_of, values)
    classes = score.target if isinstance(score.target, Tensor) else torch.full((len(frame),), -1)
    return TableExplanation(
        values=pd.DataFrame(summed.numpy(), index=frame.index, columns=frame.columns),
        scores=series(scores.double(), "score"),
        base_values=series((scores - result.score_change).double(), "base_value"),
        target=series(classes, "target"),
        support=series(result.support.double(), "support"),
        encoded_values=pd.DataFrame(values.numpy(), index=frame.index, columns=layout.names),
        frame=frame,
        result=result,
        choice=choice,
    )


def _categorical_columns(frame: Any, categorical: Sequence[Any] | None) -> set[Any]:
    pd = _pandas()
    other = {name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])}
    if categorical is None:
        return other
    unknown = [name for name in categorical if name not in frame.columns]
    left = [name for name in other if name not in categorical]
    if unknown or left:
        raise ValueError(
            f"categorical names {unknown}, which are no columns, and leaves out {left}, which are not numeric: "
            "name every column that is not numeric, and others if you like"
        )
    return set(categorical)


def _pandas() -> Any:
    return import_optional("pandas", "leastpath.tabular needs pandas", "tabular")
