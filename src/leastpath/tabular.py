"""Tables: pandas in, pandas out.

A frame is encoded as numbers (numeric columns standardised, categorical ones as one-hot blocks), explained in that
space, and the attributions of a column's numbers are summed: one value per cell, under the names it came with. A model
without gradients, such as a forest, is asked for rows of cells instead, and gets Shapley values of its columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.checks import check_integer, seed_of, write_number
from leastpath._support.optional import import_optional
from leastpath.attribution import attribute
from leastpath.features.groups import FEW_FEATURES
from leastpath.methods.method import Method
from leastpath.methods.shapley import MOST_EXACT
from leastpath.methods.table import METHODS
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
ONE_ROW = "the table has one row, so its mean is that row, and nothing changes between them"
LEAST_PROBABILITY = 1e-12  # of a model that is certain, whose logarithm would be infinite


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
    """Of each categorical column; None is the category of empty cells, where there were any."""
    centers: Mapping[Any, float]
    """Of each numeric column: what is subtracted."""
    scales: Mapping[Any, float]
    """Of each numeric column: what it is then divided by."""
    missing: Mapping[Any, float] = field(default_factory=dict)
    """Of each numeric column with empty cells: the mean, which stands in for them. A number of its own marks them."""

    @classmethod
    def fit(cls, frame: Any, categorical: Sequence[Any] | None = None, *, standardize: bool = True) -> Encoding:
        """Learn categories, means and deviations from a frame; `categorical` defaults to all non-numeric columns."""
        named = _categorical_columns(frame, categorical)
        categories, centers, scales, missing = {}, {}, {}, {}
        for name, column in frame.items():
            if column.dtype.kind in "mM":
                raise ValueError(f"column {name!r} holds dates: turn them into numbers first, as in days since a date")
            known = column.dropna()
            if known.empty:
                raise ValueError(f"column {name!r} has missing values only: leave it out, frame.drop(columns=…)")
            if name in named:
                found = tuple(column.cat.categories if hasattr(column, "cat") else sorted(known.unique()))
                categories[name] = found if len(known) == len(column) else (*found, None)
                continue
            numbers = _numbers(known, name)
            centers[name] = float(numbers.mean()) if standardize else 0.0
            scales[name] = (float(numbers.std()) or 1.0) if standardize else 1.0
            if len(known) < len(column):
                missing[name] = float(numbers.mean())
        return cls(tuple(frame.columns), categories, centers, scales, missing)

    @property
    def owners(self) -> tuple[Any, ...]:
        """(width,) the column that each number comes from."""
        blocks = [name for name, values in self.categories.items() for _ in values]
        return (*self.centers, *self.missing, *blocks)

    def get_feature_names_out(self) -> list[str]:
        """(width,) names of the numbers."""
        gone = [f"{name}_missing" for name in self.missing]
        blocks = [
            f"{name}_{'missing' if value is None else value}"
            for name, values in self.categories.items()
            for value in values
        ]
        return [*map(str, self.centers), *gone, *blocks]

    def transform(self, frame: Any) -> Tensor:
        """(rows, width), float32."""
        return self.transform_exactly(frame).float()

    def transform_exactly(self, frame: Any) -> Tensor:
        """(rows, width), float64."""
        if absent := [name for name in self.columns if name not in frame.columns]:
            raise ValueError(f"the columns {absent} are missing: pass a frame with {list(self.columns)}")
        parts, gone = [], []
        for name, center in self.centers.items():
            cells = _numbers(frame[name], name)
            empty = np.isnan(cells)
            if empty.any() and name not in self.missing:
                raise ValueError(
                    f"column {name!r} has missing values, and had none where its scale was learned: fill them, "
                    "frame.fillna(…), or let some occur there, in the background"
                )
            parts.append(((np.where(empty, self.missing.get(name, 0.0), cells) - center) / self.scales[name])[:, None])
            gone += [empty[:, None].astype(np.float64)] if name in self.missing else []
        blocks = [_one_hot(frame[name], name, known) for name, known in self.categories.items()]
        return torch.as_tensor(np.concatenate([*parts, *gone, *blocks], 1))

    def inverse_transform(self, numbers: Tensor) -> Any:
        """Cells again: (rows, width) -> a frame. Of a block, the category that there is most of."""
        rows, at = numbers.detach().cpu().double().numpy(), len(self.centers) + len(self.missing)
        cells = {n: rows[:, i] * self.scales[n] + center for i, (n, center) in enumerate(self.centers.items())}
        for i, name in enumerate(self.missing, len(self.centers)):
            cells[name] = np.where(rows[:, i] > 0.5, np.nan, cells[name])
        for name, known in self.categories.items():
            values = np.empty(len(known), dtype=object)
            values[:] = [np.nan if value is None else value for value in known]
            cells[name] = values[rows[:, at : at + len(known)].argmax(1)]
            at += len(known)
        return _pandas().DataFrame({name: cells[name] for name in self.columns})


def _one_hot(column: Any, name: Any, known: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(rows, categories) of 0 and 1."""
    cells = column.to_numpy(dtype=object)
    block = np.stack([column.isna() if value is None else cells == value for value in known], 1).astype(np.float64)
    if not (block.sum(1) == 1).all():
        bad = cells[int(np.argmin(block.sum(1)))]
        raise ValueError(
            f"column {name!r} holds {bad!r}, which is none of its {len(known)} categories: fit the encoding, "
            "or choose the background, so that it occurs"
        )
    return block


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
    baseline: Any = None
    """DataFrame: the cells that were started from, in words where they are a mean of categories or of rows."""

    def summary(self) -> Any:
        """Mean |value| of each column, largest first: a Series."""
        return self.values.abs().mean().sort_values(ascending=False)

    def labels(self, row: int) -> list[str]:
        """Each column with its cell in a row (from 0) and in the baseline: 'age = 39 (38.6)'."""
        cells = [table.iloc[row] for table in (self.frame, self.baseline)]
        return [f"{c} = {_write_cell(cells[0][c])} ({_write_cell(cells[1][c])})" for c in self.values.columns]

    def _repr_html_(self) -> str:
        rows = [self.labels(row) for row in range(min(len(self.frame), 4))]
        words = "<p>Bars: column = its cell (the baseline's); red raises the score, blue lowers it.</p>"
        return self.result.as_html(torch.as_tensor(self.values.to_numpy(dtype="float64").copy()), rows) + words

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
    baseline: Any = None,
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
        model: a torch module, or a callable over tensors: (rows, width) numbers in, logits out. Or a fitted model or
            pipeline with `predict_proba` or `predict`: linear models and networks of scikit-learn become modules
            (`leastpath.score.estimators.as_module`), and a pipeline's steps before them are `preprocess`; all others,
            such as trees, are asked for rows as they stand in the frame.
        frame: the rows to explain.
        target: a class, or one per row: its index, or a label of a fitted classifier's `classes_`. None: the predicted
            class, or the only output.
        background: a frame with the same columns, e.g. training data: the points of the neighbour graph, the
            baseline and the scale of the columns come from it.
        preprocess: what turns the frame into the model's numbers. A fitted transformer with `transform(frame)`
            (scikit-learn's, or an `Encoding`): the path runs in its output. A module or function over tensors: it
            becomes part of the score, `model(preprocess(x))`, with x the columns themselves. None: the model takes
            the columns themselves, laid out as `pandas.get_dummies` does.
        categorical: columns to encode as one-hot blocks; by default those that are not numeric. Only without a
            transformer.
        baseline: "mean" of the encoded background (frequencies, for categories), "median" (and the most frequent
            category), a row or frame of the same columns, or a number: so many rows of the background, averaged. None:
            the mean, and for a model without gradients the median, a row that could exist.
        output: what is explained: "log_softmax" by default, "raw" for a model of one output, and "softmax", the
            probability, for one without gradients.
        method: as in `leastpath.attribute`. None: what the study of truth chose, `ElasticBand` with one step for each
            column where there are at most 20 encoded features, and else `StraightLine`; with `n_neighbors` a
            `NeighborGraph` over the background; Shapley values of the columns where there are no gradients. `choice`
            says which.

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
    _check_frames(model, frame, background)
    target = _indices_of(target, model)
    model, preprocess = read_model(model, preprocess)
    layout = Layout.of(frame, background, preprocess, categorical, groups, model)
    device, dtype = home_of(model) if layout.has_gradients else (torch.device("cpu"), torch.float64)
    inputs, points = (layout.encode(table).to(device, dtype) for table in (frame, background))
    score = Score(Scored(model, layout, device, dtype), batch_size=batch_size)
    outputs = _ask_model(score, inputs, layout.names)
    if output is None and not layout.has_gradients and outputs.ndim > 1:
        output = "softmax"  # the probability itself: a forest can be certain, and the logarithm of 0 explains nothing
    score = with_classes(score, target, output, outputs)
    check_integer("max_points", max_points, 1)
    generator = np.random.default_rng(seed_of(seed))
    baseline = ("mean" if layout.has_gradients else "median") if baseline is None else baseline
    start = _start(layout, baseline, points, background, len(frame), generator).to(inputs)
    if len(background) == 1 and start.ndim == 2 and bool((start == inputs).all()):
        raise ValueError(f"{ONE_ROW}: pass a background of more rows, or another row as baseline")
    if method is None and "solver" not in settings:
        method, choice = _choose_method(layout, points, n_neighbors, max_points, generator)
    else:
        given = settings.get("solver", method)
        choice = f"{given if isinstance(given, str) else type(given).__name__}, as asked"
    labels = layout.column_of[None]
    result = attribute(score, inputs, start, method=method, seed=seed, groups=labels, support=support, **settings)
    explained = _as_frames(layout, frame, result.named(layout.names), score, score(inputs), choice)
    return replace(explained, baseline=_show_baseline(baseline, background, frame))


def _numbers(column: Any, name: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(rows,) of a column that is not categorical."""
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
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
    has_gradients: bool = True

    @property
    def column_of(self) -> Tensor:
        """(width,) the number of the column that each number belongs to."""
        return torch.tensor([self.columns.index(name) for name in self.owners])

    @classmethod
    def of(
        cls, frame: Any, background: Any, preprocess: Any, categorical: Any, groups: Any, model: Any = None
    ) -> Layout:
        columns = tuple(frame.columns)
        if isinstance(model, Asked):
            return cls._of_cells(columns, frame, background, categorical)
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
    def _of_cells(cls, columns: Any, frame: Any, background: Any, categorical: Any) -> Layout:
        """For a model that is asked for rows of cells. Units are powers of two, so that numbers come back exactly."""
        import pandas as pd

        encoding = Encoding.fit(background, categorical)
        both = Encoding.fit(pd.concat([background, frame]), categorical)  # with what only the explained rows hold
        scales = {name: 2.0 ** round(math.log2(scale)) for name, scale in encoding.scales.items()}
        missing = {name: encoding.centers[name] for name in both.missing}
        encoding = replace(
            encoding, categories=both.categories, centers=dict.fromkeys(scales, 0.0), scales=scales, missing=missing
        )

        def restore(numbers: Tensor) -> Any:
            return _with_kinds(encoding.inverse_transform(numbers), background.dtypes)

        width, names = len(encoding.owners), encoding.get_feature_names_out()
        return cls(
            columns, encoding.transform_exactly, encoding.owners, names, restore, torch.zeros(width), torch.ones(width),
            False,
        )  # fmt: skip

    @classmethod
    def _of_transformer(cls, columns: Any, frame: Any, background: Any, preprocess: Any, groups: Any) -> Layout:
        def encode(table: Any) -> Tensor:
            try:
                made = preprocess.transform(table)
            except Exception as error:  # a transformer may say in any way that it is not fitted, or to other columns
                raise ValueError(f"preprocess cannot transform the frame ({error}): fit it to training data") from error
            made = made.toarray() if hasattr(made, "toarray") else made
            return made.float() if isinstance(made, Tensor) else torch.as_tensor(np.array(made, dtype=np.float32))

        if groups is not None:
            owners = _owners_of_groups(groups, encode(frame[:1]).shape[1])
        elif isinstance(preprocess, Encoding):
            owners = preprocess.owners
        else:
            owners = _find_owners(encode, frame, background, _names_out(preprocess))
        width = len(owners)
        names = _names_out(preprocess) or [f"x{i}" for i in range(width)]
        return cls(columns, encode, owners, names, None, torch.zeros(width), torch.ones(width))


def unit_of(points: Tensor) -> Tensor:
    """(columns,) the standard deviations of a table's rows (n, columns); 1 for a column that never changes."""
    unit = points.std(0) if len(points) > 1 else torch.ones_like(points[0])
    return torch.where(unit > 0, unit, 1)


class Rescaled(nn.Module):
    """A model whose columns are given in other units: (rows, columns), in multiples of `unit` (columns,), from `shift`.

    Example:
        >>> Rescaled(torch.nn.Identity(), torch.tensor([10.0, 2.0]))(torch.ones(1, 2))
        tensor([[10.,  2.]])
    """

    def __init__(self, model: Callable[..., Any], unit: Tensor, shift: Tensor | float = 0.0, inner: Any = None) -> None:
        super().__init__()
        self.model, self.unit, self.shift, self.inner = model, unit, shift, inner
        self.training = isinstance(model, nn.Module) and model.training

    def forward(self, numbers: Tensor) -> Any:
        cells = numbers * self.unit + self.shift
        return self.model(cells if self.inner is None else self.inner(cells))


class Scored(Rescaled):
    """The model over the explained space: scale, preprocessing step and model in one."""

    def __init__(self, model: Callable[..., Any], layout: Layout, device: Any, dtype: torch.dtype) -> None:
        super().__init__(model, layout.scale.to(device, dtype), layout.shift.to(device, dtype), layout.inner)


@dataclass(frozen=True)
class Asked:
    """A model without gradients, that answers rows of cells as scikit-learn's do: a forest, boosted trees, a pipeline.

    Probabilities are given as their logarithms: the softmax of these is the probability.
    """

    estimator: Any

    def __call__(self, rows: Any) -> Tensor:
        """A frame -> (rows, classes), or (rows,) for a regressor."""
        is_nameless = hasattr(self.estimator, "n_features_in_") and not hasattr(self.estimator, "feature_names_in_")
        cells = rows.to_numpy() if is_nameless else rows  # it was fitted to an array, and warns about frames
        if not hasattr(self.estimator, "predict_proba"):
            return torch.as_tensor(np.asarray(self.estimator.predict(cells), dtype=np.float64))
        shares = np.asarray(self.estimator.predict_proba(cells), dtype=np.float64)
        return torch.as_tensor(shares).clamp_min(LEAST_PROBABILITY).log()


def read_model(model: Any, preprocess: Any) -> tuple[Callable[..., Any], Any]:
    """What is asked, and what turns a frame into its inputs. A pipeline is cut before its model, if that has gradients.

    Example:
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> read_model(DecisionTreeRegressor(), None)
        (Asked(estimator=DecisionTreeRegressor()), None)
    """
    if callable(model):
        return model, preprocess
    for given, before in ((model, preprocess), *([(model[-1], model[:-1])] if hasattr(model, "steps") else [])):
        if before is preprocess or preprocess is None:
            with suppress(ValueError):  # it cannot be written as a module
                return as_module(given), before
    if preprocess is None:
        return Asked(model), None
    from sklearn.pipeline import make_pipeline

    return Asked(make_pipeline(preprocess, model)), None


def _with_kinds(frame: Any, dtypes: Any) -> Any:
    """Columns with the types that the model knows them by; a mean of whole numbers stays what it is."""
    for name, kind in dtypes.items():
        is_broken = kind.kind in "biu" and not (frame[name] % 1 == 0).all()
        if not is_broken and frame[name].dtype != kind:
            frame[name] = frame[name].astype(kind)
    return frame


def _names_out(preprocess: Any) -> list[str]:
    """Of a transformer's outputs; none where a step of it knows no names."""
    try:
        return [str(name) for name in preprocess.get_feature_names_out()]
    except (AttributeError, ValueError):  # scikit-learn raises both
        return []


def _find_owners(encode: Callable[[Any], Tensor], frame: Any, background: Any, names: list[str]) -> tuple[Any, ...]:
    """The column that each output comes from: its name says so, or it moves when that column alone is changed."""
    import pandas as pd

    rows = pd.concat([frame[:ROWS_TO_COMPARE], background[:ROWS_TO_COMPARE]])
    before, columns = encode(rows), list(rows.columns)
    moved = torch.zeros(len(columns), before.shape[1], dtype=torch.bool)
    for c, name in enumerate(columns):
        changed = rows.copy()
        changed[name] = np.roll(rows[name].to_numpy(), 1)
        moved[c] = (encode(changed) != before).any(0)
    owners = []
    for i in range(before.shape[1]):
        by_trying = [columns[c] for c in moved[:, i].nonzero()[:, 0].tolist()]
        by_name = _column_in(names[i], by_trying or columns) if names else None
        if len(by_trying) != 1 and by_name is None:
            raise ValueError(_say_unknown(i, names, by_trying))
        owners.append(by_trying[0] if len(by_trying) == 1 else by_name)
    return tuple(owners)


def _column_in(name: str, columns: Sequence[Any]) -> Any:
    """The column whose name an output's begins with, after those of its steps: cat__job_cook is of job. None: no one.

    Example:
        >>> _column_in("cat__job_title_cook", ["job", "job_title"]), _column_in("pca0", ["job"])
        ('job_title', None)
    """
    own = name.rpartition("__")[2].removeprefix("missingindicator_")
    fitting = [c for c in columns if own == str(c) or own.startswith(f"{c}_") or name == str(c)]
    return max(fitting, key=lambda column: len(str(column)), default=None)


def _say_unknown(i: int, names: list[str], moved_by: Sequence[Any]) -> str:
    what = f"output {i} of preprocess{f' ({names[i]!r})' if names else ''}"
    if moved_by:
        return (
            f"{what} comes from column {moved_by[0]!r} and from {moved_by[1]!r}: attributions can be summed by column "
            "only where each output has one. Pass groups={column: [outputs]}, or make the step a function of tensors"
        )
    return (
        f"{what} never moves over frame and background, and no name says its column: pass a larger background, or "
        "groups={column: [outputs]}"
    )


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


def _show_baseline(baseline: Any, background: Any, frame: Any) -> Any:
    """What stands in each column of the baseline, for people: a frame like the explained one."""
    if isinstance(baseline, str) and baseline == "mean":
        cells: Any = {
            name: column.mean() if column.dtype.kind in "biuf" else "mean of all" for name, column in background.items()
        }
    elif isinstance(baseline, (int, np.integer)):
        cells = dict.fromkeys(frame.columns, f"{baseline} rows")
    elif hasattr(baseline, "columns") and len(baseline) > 1:
        return baseline[list(frame.columns)].set_axis(frame.index)
    else:
        row = typical_row(background) if isinstance(baseline, str) else baseline
        cells = row.iloc[0] if hasattr(row, "columns") else row
    shown = _pandas().DataFrame(index=frame.index, columns=frame.columns, dtype=object)
    for name in frame.columns:
        shown[name] = [cells[name]] * len(frame)
    return shown


def _write_cell(cell: Any) -> str:
    return write_number(float(cell), 4) if isinstance(cell, (float, np.floating)) else str(cell)


def typical_row(background: Any) -> Any:
    """Medians, and the most frequent category: one row."""
    import pandas as pd

    row = {
        name: column.median() if pd.api.types.is_numeric_dtype(column) else column.mode().iloc[0]
        for name, column in background.items()
    }
    return pd.DataFrame([row], columns=background.columns)


def _choose_method(
    layout: Layout, points: Tensor, n_neighbors: int | None, max_points: int, generator: np.random.Generator
) -> tuple[Method | Solver, str]:
    """What the study of truth chose, or a graph over the background where neighbours are asked for; and why."""
    if not layout.has_gradients:
        is_small = len(layout.columns) <= MOST_EXACT
        words = f"{'exact' if is_small else 'sampled'} Shapley values of the columns: the model has no gradients"
        return METHODS["exact_shapley" if is_small else "permutation_shap"], words
    if n_neighbors is None and points.shape[1] > FEW_FEATURES:
        return StraightLine(), "StraightLine, with error control"
    if n_neighbors is None:
        return ElasticBand(groups=layout.column_of), "ElasticBand, one step for each column"
    distinct = points.unique(dim=0)
    drawn = distinct[torch.as_tensor(np.sort(generator.permutation(len(distinct))[:max_points]))]
    graph = NeighborGraph(drawn, n_neighbors)
    return graph, f"NeighborGraph over {len(drawn)} rows of the background, {n_neighbors} neighbours each"


# ---- in and out --------------------------------------------------------------------------------------------------


def _indices_of(target: Any, model: Any) -> Any:
    """Labels that are words as indices of a fitted classifier's classes; all else as it is."""
    known = {label: index for index, label in enumerate(np.asarray(getattr(model, "classes_", ())).tolist())}
    labels = np.asarray(target)
    if labels.dtype.kind not in "OUS" or not known or target is None:
        return target
    unknown = [label for label in labels.flatten().tolist() if label not in known]
    if unknown:
        raise ValueError(f"target={unknown[0]!r} is no class of the model: use one of {', '.join(map(repr, known))}")
    return np.vectorize(known.__getitem__, otypes=[int])(labels)


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
    if not callable(model) and not hasattr(model, "predict") and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"model is a {type(model).__name__}, expected a function of tensors: pass a torch module, a fitted model "
            "or pipeline of scikit-learn, or anything with predict_proba or predict"
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
        numbers = numbers.cpu()
        numbers = numbers.double() if numbers.is_floating_point() else numbers
        return pd.Series(numbers.numpy(), index=frame.index, name=name)

    assert isinstance(result.values, Tensor)
    values = result.values.cpu().double()
    summed = torch.zeros(len(frame), len(layout.columns), dtype=torch.float64).index_add_(1, layout.column_of, values)
    classes = score.target if isinstance(score.target, Tensor) else torch.full((len(frame),), -1)
    return TableExplanation(
        values=pd.DataFrame(summed.numpy(), index=frame.index, columns=frame.columns),
        scores=series(scores, "score"),
        base_values=series(scores - result.score_change, "base_value"),
        target=series(classes, "target"),
        support=series(result.support, "support"),
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
