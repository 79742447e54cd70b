"""Sources: data sets of any size, read a few rows at a time, in any process.

A source of files holds paths and settings and not the data, so it is sent to a worker in a few bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache, wraps
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import Count, Settings, check_kind
from leastpath._support.files import reason_of
from leastpath._support.fingerprint import describe, digest, source_digest
from leastpath._support.optional import import_by_name, import_optional
from leastpath.features.images import PICTURES, read_image
from leastpath.jobs.contents import content_digest
from leastpath.score.calls import Inputs

TABLES = (".csv", ".parquet")
ARRAYS = (".npz", ".npy", ".safetensors")
PROBED_ROWS = 8
BLOCK, MOST_MEASURED = 1_000, 100_000  # rows of a table, whose mean and deviations are taken
CSV_STRIDE = 1024  # the place of every 1024th row of a CSV is remembered, so a read skips fewer rows than that


@dataclass(frozen=True)
class Rows:
    """Some rows of a source. Rows that could not be read are not among `inputs`.

    Example:
        >>> rows = Rows(torch.zeros(2, 3), [5, 7], torch.tensor([0, 1]), errors={6: "unreadable"})
        >>> rows.index, rows.names
        ([5, 7], ['5', '7'])
    """

    inputs: Inputs | None
    """(rows, *features), or a tuple of such tensors; None where no row could be read."""
    index: list[int]
    """The number of each row in the source."""
    targets: Tensor | None = None
    """(rows,) labels, where the source has them."""
    names: list[str] = field(default_factory=list)
    """The names of the rows: file names, or their numbers."""
    errors: dict[int, str] = field(default_factory=dict)
    """Why rows could not be read, by number."""

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", [str(i) for i in self.index])


@runtime_checkable
class Source(Protocol):
    """A data set that can be read in parts.

    Example:
        >>> import numpy as np, tempfile
        >>> file = tempfile.mkdtemp() + "/inputs.npy"
        >>> np.save(file, np.zeros((5, 3), np.float32))
        >>> isinstance(source_of(file), Source)
        True
    """

    @property
    def what(self) -> Any:
        """A description as JSON that changes when the data change."""

    def __len__(self) -> int: ...

    def read(self, start: int, stop: int) -> Rows:
        """Rows start to stop − 1."""


def source_of(dataset: Any, **settings: Any) -> Source:
    """The source of a data set, which is given as a path, an import path or an object.

    Args:
        dataset: a CSV or parquet file; a .npz, .npy or .safetensors file; a folder of such files (parts of one data
            set, in the order of their names) or of pictures; "package.module:name" of a torch dataset or of a function
            that makes one; or a map-style dataset itself: `len` and `[i]`, which is an input or (input, target).
        settings: of the kind of source: see `Table`, `Arrays`, `Pictures` and `Items`.

    Example:
        >>> source = source_of([(torch.ones(2), 0), (torch.zeros(2), 1)])
        >>> len(source), source.read(0, 2).targets.tolist()
        (2, [0, 1])
    """
    if isinstance(dataset, Source):
        if settings:
            raise ValueError(f"settings {sorted(settings)} belong to the source: give them where it is made")
        return dataset
    is_import_path = isinstance(dataset, str) and ":" in dataset and not Path(dataset).exists()
    if is_import_path or not isinstance(dataset, (str, Path)):
        return _make(Items, dataset, settings)
    path = Path(dataset)
    if not path.exists():
        raise ValueError(f"{path} does not exist: give a file, a folder, or package.module:name of a dataset")
    suffixes = sorted({file.suffix.lower() for file in _files(path)})
    if set(suffixes) <= set(PICTURES):
        return _make(Pictures, path, settings)
    if len(suffixes) > 1:
        kinds = ", ".join((*TABLES, *ARRAYS))
        raise ValueError(f"{path} holds files of kinds {suffixes}: expected one of {kinds}, or pictures")
    return _make(Table if suffixes[0] in TABLES else Arrays, path, settings)


def _make(kind: Any, dataset: Any, settings: dict[str, Any]) -> Source:
    """The source, once its settings are known to have the right names and kinds."""
    known = [f.name for f in fields(kind)][1:]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ValueError(f"the data have no setting {unknown[0]!r}: {kind.__name__} takes {', '.join(known)}")
    if settings.get("features") is not None:
        check_kind("features", settings["features"], (list, tuple), 'a list of names of columns, ["age", "income"]')
    check_kind("settings", settings.get("settings", {}), dict, "names and values, {name = value}")
    source: Source = kind(dataset, **settings)
    return source


class _Files(Settings):
    """A source of files. Only its settings are sent to a worker, which lists the files itself and compares."""

    path: str | Path
    _kinds: ClassVar[tuple[str, ...]]

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    @cached_property
    def _files(self) -> list[Path]:
        return _files(Path(self.path), *self._kinds)

    @property
    def what(self) -> Any:
        """Its settings, and the files by name and content. Every byte is read once (`contents.py`)."""
        contents = hashlib.sha256()
        for name, file in self._name_files():
            contents.update(f"{name}\0{content_digest(file)}\n".encode())
        return {**self.listing, "contents": contents.hexdigest()[:16]}

    @property
    def listing(self) -> dict[str, Any]:
        """What a worker compares: settings, and the files by name and size. Their contents are not read again."""
        listed = hashlib.sha256()
        for name, file in self._name_files():
            listed.update(f"{name}\0{file.stat().st_size}\n".encode())
        settings = {k: v for k, v in describe(self).items() if k != "path"}
        code = {f"source of {k}": found for k, v in settings.items() if (found := source_digest(v)) is not None}
        names = {"path": Path(self.path).name, "files": len(self._files), "listing": listed.hexdigest()[:16]}
        return {**names, **settings, **code}

    def _name_files(self) -> Iterator[tuple[str, Path]]:
        root = Path(self.path)
        for file in self._files:
            yield file.name if root.is_file() else file.relative_to(root).as_posix(), file

    @property
    def files(self) -> list[Path]:
        """The files, in the order of their rows."""
        return self._files


@dataclass(frozen=True)
class Table(_Files):
    """Rows of a CSV or of parquet files: numbers, (columns,) per input.

    Args:
        path: a file, or a folder of parquet files.
        features: names of the columns; all but the target by default. Of one column of lists, each list is an input.
        target: name of the column of labels (integers), if any.
        transform: function of the inputs (rows, columns), or its "package.module:name".
        missing: what stands in for empty cells: a number, or the "mean" of the column, which is the default where there
            is no transform; a transform is given NaN for them. A row of nothing else fails.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "rows.csv"
        >>> _ = file.write_text("age,income,label\\n31,2.5,0\\n44,3.5,1\\n")
        >>> rows = Table(file, target="label").read(0, 2)
        >>> rows.inputs, rows.targets
        (tensor([[31.0000,  2.5000],
                [44.0000,  3.5000]]), tensor([0, 1]))
    """

    _kinds = TABLES

    path: str | Path
    features: Sequence[str] | None = None
    target: str | None = None
    transform: str | Callable[[Tensor], Inputs] | None = None
    missing: Literal["mean"] | float | None = None

    @property
    def listing(self) -> dict[str, Any]:
        """Files, columns and transform."""
        return super().listing | {"columns": self.columns}

    @cached_property
    def _is_csv(self) -> bool:
        if self._files[0].suffix != ".csv":
            return False
        if len(self._files) > 1:
            raise ValueError(f"{self.path} holds {len(self._files)} CSV files: join them, or convert them to parquet")
        return True

    @cached_property
    def columns(self) -> list[str]:
        """Names of the features, in the order of an input."""
        if self._is_csv:
            first, _ = self._parse_csv(0, min(100, len(self)))
            names = first.column_names
        else:
            schema = _parquet(self._files[0]).schema_arrow
            names = [n for n in schema.names if n not in (schema.pandas_metadata or {}).get("index_columns", [])]
        chosen = [n for n in names if n != self.target] if self.features is None else list(self.features)
        counts = Counter(names)
        for name in (*chosen, *([self.target] if self.target else [])):
            if counts[name] != 1:
                held = f"{counts[name]} columns" if name in counts else "no column"
                raise ValueError(f"{self.path} has {held} {name!r}: it has {', '.join(names[:20])}")
        words = [name for name in chosen if self._is_csv and not _holds_numbers(first[name].type)]
        if words:
            raise ValueError(
                f"columns {words[:5]} of {self.path} hold no numbers: name others, features=[…], or encode them first"
            )
        return chosen

    @cached_property
    def _csv_places(self) -> tuple[np.ndarray, int]:
        return _row_places(self._files[0])

    @cached_property
    def _starts(self) -> np.ndarray:
        """The number of the first row of each parquet file, and of the end."""
        return np.cumsum([0, *(_parquet(file).metadata.num_rows for file in self._files)])

    def __len__(self) -> int:
        return self._csv_places[1] if self._is_csv else int(self._starts[-1])

    def read(self, start: int, stop: int) -> Rows:
        """Rows start to stop − 1."""
        table = self._table(start, stop)
        inputs, index = self._numbers(table), np.arange(start, stop)
        if self.target is None:
            return Rows(_transform(inputs, self.transform), index.tolist())
        labels = _floats(table, [self.target])[:, 0]
        usable = np.isfinite(labels) & (labels == np.floor(labels))
        if not usable.any():
            kind = table[self.target].type
            raise ValueError(f"the target column {self.target!r} holds {kind}, expected whole numbers")
        cells = [(start + int(i), table[self.target][i].as_py() or "nan") for i in np.flatnonzero(~usable)]
        errors = {i: f"the label in the column {self.target!r} is {cell}, expected a whole number" for i, cell in cells}
        inputs, targets = inputs[torch.as_tensor(usable)], torch.as_tensor(labels[usable]).long()
        return Rows(_transform(inputs, self.transform), index[usable].tolist(), targets, errors=errors)

    def _numbers(self, table: Any) -> Tensor:
        columns = self.columns
        if len(columns) == 1 and "list" in str(table[columns[0]].type):
            return torch.as_tensor(np.stack(table[columns[0]].to_numpy()).astype(np.float32))
        numbers = _floats(table, columns)
        if self.transform is None or self.missing is not None:  # words where numbers are expected are no empty cells
            empty = np.stack([table[name].is_null(nan_is_null=True).to_numpy() for name in columns], 1)
            empty &= ~empty.all(1, keepdims=True)  # a blank line says nothing of its row
            numbers = np.where(empty, self._stand_ins, numbers) if empty.any() else numbers
        return torch.as_tensor(numbers.astype(np.float32))

    @cached_property
    def _stand_ins(self) -> np.ndarray:
        """(columns,) for empty cells."""
        if isinstance(self.missing, (int, float)):
            return np.full(len(self.columns), self.missing, np.float64)
        blocks = read_spread(lambda start, stop: _floats(self._table(start, stop), self.columns), len(self))
        known = torch.as_tensor(np.concatenate(blocks))
        return known.where(known.isfinite(), torch.nan).nanmean(0).numpy()

    def _table(self, start: int, stop: int) -> Any:
        wanted = self.columns if self.target is None else [*self.columns, self.target]
        return self._csv_rows(start, stop, wanted) if self._is_csv else self._parquet_rows(start, stop, wanted)

    def _csv_rows(self, start: int, stop: int, columns: list[str]) -> Any:
        table, misfits = self._parse_csv(start, stop, columns)
        if misfits:
            row, found = start + misfits[0].number - 2, misfits[0]  # counted from 1, and the head is one
            raise ValueError(
                f"row {row} of {self.path} has {found.actual_columns} cells, expected {found.expected_columns}: "
                'put cells that hold a comma into quotation marks, "…"'
            )
        if len(table) != stop - start:
            raise ValueError(
                f"rows {start} to {stop - 1} of {self.path} are {len(table)} to a reader of CSV: put cells that hold "
                'line breaks or quotation marks into quotation marks, "…", or convert the file to parquet'
            )
        return table

    def _parse_csv(self, start: int, stop: int, columns: Sequence[str] = ()) -> tuple[Any, list[Any]]:
        """An arrow table of these columns, or of all, and the rows that were left out as they do not fit the head."""
        places, _ = self._csv_places
        first, end = start // CSV_STRIDE, -(-stop // CSV_STRIDE)
        with self._files[0].open("rb") as file:
            head = file.read(int(places[0]))
            file.seek(int(places[first]))
            block = file.read(int(places[end] - places[first]) if end < len(places) else -1)
        begins = [0, *(_row_ends(block)[0] + 1).tolist(), len(block)]
        low, high = (begins[min(row - first * CSV_STRIDE, len(begins) - 1)] for row in (start, stop))
        text, csv, misfits = head + block[low:high], _arrow("csv"), []

        def leave_out(row: Any) -> str:
            misfits.append(row)
            return "skip"

        with _readable(self._files[0]):
            table = csv.read_csv(
                io.BytesIO(text),
                # One block: all rows decide on the types, and a row may be longer than a usual block.
                csv.ReadOptions(use_threads=False, block_size=len(text) + 1),
                # A blank line is an empty row. If it were skipped, the rows after it would get other numbers.
                csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=leave_out),
                csv.ConvertOptions(include_columns=list(columns)),
            )
        return table, misfits

    def _parquet_rows(self, start: int, stop: int, columns: list[str]) -> Any:
        parts = []
        for part, low, high in _parts(self._starts, start, stop):
            metadata = _parquet(file := self._files[part]).metadata
            starts = np.cumsum([0, *(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))])
            for group, first, end in _parts(starts, low, high):
                parts.append(_row_group(file, group, tuple(columns)).slice(first, end - first))
        return _arrow().concat_tables(parts)


@dataclass(frozen=True)
class Arrays(_Files):
    """Rows of arrays in .npz, .npy or .safetensors files.

    Args:
        path: a file, or a folder of files that are parts of one data set.
        inputs: name of the array of inputs (rows, *features); by default the first in the file.
        target: name of the array of labels (rows,), if any.
        transform: function of the inputs, or its "package.module:name": to floats in [0, 1], channels first, say.

    A .npz is read as a whole, so keep its parts small. The other kinds are read row by row.

    Example:
        >>> import numpy as np, tempfile
        >>> file = tempfile.mkdtemp() + "/inputs.npy"
        >>> np.save(file, np.zeros((5, 3), np.float32))
        >>> Arrays(file).read(1, 3).inputs.shape
        torch.Size([2, 3])
    """

    _kinds = ARRAYS

    path: str | Path
    inputs: str | None = None
    target: str | None = None
    transform: str | Callable[[Tensor], Inputs] | None = None

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.cumsum([0, *(_shape(_array(file, self.inputs))[0] for file in self._files)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, start: int, stop: int) -> Rows:
        """Rows start to stop − 1."""
        labels = None if self.target is None else self._labels(start, stop)
        inputs = self._read_array(self.inputs, start, stop)
        return Rows(_transform(inputs, self.transform), list(range(start, stop)), labels)

    def _labels(self, start: int, stop: int) -> Tensor:
        for file in self._files:
            shape, rows = _shape(_array(file, self.target)), _shape(_array(file, self.inputs))[0]
            if shape != (rows,):
                raise ValueError(f"the labels {self.target!r} of {file} have shape {shape}, expected ({rows},)")
        labels = self._read_array(str(self.target), start, stop)
        if labels.is_complex() or bool((labels != labels.long()).any()):
            raise ValueError(f"the labels {self.target!r} of {self.path} are no whole numbers: expected class indices")
        return labels.long()

    def _read_array(self, name: str | None, start: int, stop: int) -> Tensor:
        parts = [
            torch.as_tensor(_array(self._files[part], name)[low:high])
            for part, low, high in _parts(self._starts, start, stop)
        ]
        shapes = {tuple(part.shape[1:]) for part in parts}
        if len(shapes) > 1:
            raise ValueError(f"rows of {self.path} have shapes {sorted(shapes)}: expected one shape in all files")
        return torch.cat(parts)


@dataclass(frozen=True)
class Pictures(_Files):
    """A folder of pictures, and of its folders, in the order of their names: (3, size, size), RGB in [0, 1].

    Args:
        path: the folder.
        size: side of the square that is cut from the middle.
        target: "folder" where each class has a folder of its own, numbered in the order of their names.
        read_picture: function of a path that gives a tensor (3, height, width), or its "package.module:name", instead
            of the usual resizing (short side to size / 0.875, centre crop).

    A picture that cannot be read becomes a row with the reason.

    Example:
        >>> source = Pictures("photographs", size=128, target="folder")  # doctest: +SKIP
        >>> source.read(0, 2).inputs.shape  # doctest: +SKIP
        torch.Size([2, 3, 128, 128])
    """

    _kinds = PICTURES

    path: str | Path
    size: Count = 224
    target: str | None = None
    read_picture: str | Callable[[Path], Tensor] | None = None

    @cached_property
    def _classes(self) -> dict[str, int]:
        if self.target not in (None, "folder"):
            raise ValueError(f'target={self.target!r} of pictures must be "folder" or None')
        return {name: number for number, name in enumerate(sorted({file.parent.name for file in self._files}))}

    def __len__(self) -> int:
        return len(self._files)

    def read(self, start: int, stop: int) -> Rows:
        """Pictures start to stop − 1."""
        read = import_by_name(self.read_picture) or (lambda file: read_image(file, self.size)[0])
        classes = self._classes if self.target else {}

        def read_one(i: int) -> tuple[Tensor, int | None]:
            return read(self._files[i]), classes.get(self._files[i].parent.name)

        return _read_each(start, stop, read_one, lambda i: str(self._files[i].relative_to(self.path)))


@dataclass(frozen=True)
class Items:
    """A map-style dataset: `len` and `[i]`, which is an input, (input,) or (input, target).

    A target that is a whole number is a label. A row of plain numbers is an input, also a row of two numbers.

    Args:
        dataset: the dataset, or "package.module:name" of one or of a function that makes one. By name it is imported
            in each worker; an object is sent to them.
        settings: arguments of the function.

    Example:
        >>> data = torch.utils.data.TensorDataset(torch.zeros(4, 3), torch.arange(4))
        >>> Items(data).read(1, 3).targets
        tensor([1, 2])
    """

    dataset: Any
    settings: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def _made(self) -> Any:
        made = import_by_name(self.dataset)
        if callable(made) and not hasattr(made, "__getitem__"):
            made = made(**self.settings)
        if not (hasattr(made, "__len__") and hasattr(made, "__getitem__")):
            raise ValueError(f"{self.dataset!r} is a {type(made).__name__}, expected a dataset with len() and [i]")
        return made

    @property
    def what(self) -> Any:
        """Its name, settings and module, and a description of the object."""
        about = {"rows": len(self), "made": describe(self._made)}
        if isinstance(self.dataset, str):
            named = {"dataset": self.dataset, "settings": describe(self.settings)}
            return about | named | {"source": source_digest(self.dataset)}
        return about

    def some_rows(self) -> dict[str, str]:
        """Checksums of a few rows from all over the dataset, by number: it may read files that nobody else knows of.

        Rows that cannot be read now, or are random, are left out.
        """
        n, first, second = len(self), dict[str, str](), dict[str, str]()
        for found in (first, second):
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(0)
                for i in sorted({round(k * (n - 1) / (PROBED_ROWS - 1)) for k in range(PROBED_ROWS)}):
                    with suppress(Exception):
                        found[str(i)] = digest(self._made[i])
        return {i: seen for i, seen in first.items() if second.get(i) == seen}

    def __getstate__(self) -> dict[str, Any]:
        return {"dataset": self.dataset, "settings": self.settings}

    def __len__(self) -> int:
        return len(self._made)

    def read(self, start: int, stop: int) -> Rows:
        """Items start to stop − 1."""
        made = self._made  # first: a dataset that cannot be made is an error, not an unreadable row
        return _read_each(start, stop, lambda i: _input_and_label(made[i]))


def same_data(source: Source, kept: Any) -> bool:
    """Whether a source is what it was. Of files, a worker compares names and sizes; the driver has read them."""
    listing = getattr(source, "listing", None)
    if listing is None:
        return bool(kept == json.loads(json.dumps(describe(source.what))))
    return all(kept.get(name) == part for name, part in json.loads(json.dumps(listing)).items())


def read_spread(read: Callable[[int, int], Any], n: int) -> list[Any]:
    """What `read(start, stop)` gives for rows 0 to n − 1, and of many for 100,000 in blocks that are spread over them.

    Rows that cannot be read are left out: the work itself will say why.
    """

    def read_what_can_be(start: int, stop: int) -> list[Any]:
        try:
            return [read(start, stop)]
        except Exception:
            middle = (start + stop) // 2
            return [] if stop - start == 1 else [*read_what_can_be(start, middle), *read_what_can_be(middle, stop)]

    step = max(BLOCK, n * BLOCK // MOST_MEASURED)
    return [found for start in range(0, n, step) for found in read_what_can_be(start, min(n, start + BLOCK))]


def _read_each(
    start: int, stop: int, read: Callable[[int], tuple[Tensor, int | None]], name: Callable[[int], str] = str
) -> Rows:
    """Rows start to stop − 1, read one by one as an input and its label. Those that cannot be read say why."""
    found, errors = dict[int, tuple[Tensor, int | None]](), dict[int, str]()
    for i in range(start, stop):
        try:
            found[i] = read(i)
        except Exception as error:
            errors[i] = f"{type(error).__name__}: {error}"
    labels = [label for _, label in found.values() if label is not None]
    if labels and len(labels) < len(found):
        raise ValueError(f"only {len(labels)} of {len(found)} rows have a label: expected one for each row")
    inputs = torch.stack([x for x, _ in found.values()]) if found else None
    targets = torch.tensor(labels) if labels else None
    return Rows(inputs, list(found), targets, [name(i) for i in found], errors)


def _input_and_label(item: Any) -> tuple[Tensor, int | None]:
    """The input and label of an item: an input, (input,) or (input, target). A row of plain numbers is an input."""
    is_pair = isinstance(item, (tuple, list)) and len(item) == 2 and _label(item[1]) is not None
    parts: Sequence[Any] = item if isinstance(item, tuple) or is_pair else ()
    if len(parts) not in (1, 2) or isinstance(parts[0], (int, float, np.number)):
        return torch.as_tensor(item), None
    return torch.as_tensor(parts[0]), _label(parts[-1]) if is_pair else None


def _label(target: Any) -> int | None:
    """A target that is a whole number of any type; None for others, such as those of regressions."""
    try:
        return operator.index(target)
    except TypeError:
        return None


# ---- files -------------------------------------------------------------------------------------------------------


def _files(path: Path, *suffixes: str) -> list[Path]:
    wanted = suffixes or (*TABLES, *ARRAYS, *PICTURES)
    inside = [] if path.is_file() else sorted(p for p in path.rglob("*") if not p.name.startswith("."))
    found = [p for p in inside if p.suffix.lower() in wanted] or [path]
    if not found or found[0].suffix.lower() not in wanted:
        raise ValueError(f"{path} holds no data: expected files of kinds {', '.join(wanted)}")
    return found


def _parts(starts: np.ndarray, start: int, stop: int) -> list[tuple[int, int, int]]:
    """(part, first row in it, end in it) for rows start to stop − 1 of parts that begin at `starts`."""
    limits = enumerate(pairwise(starts.tolist()))
    cut = [(part, begin, max(start, begin), min(stop, end)) for part, (begin, end) in limits]
    return [(part, low - begin, high - begin) for part, begin, low, high in cut if low < high]


def _row_places(file: Path) -> tuple[np.ndarray, int]:
    """Where every CSV_STRIDE-th row after the head begins, and how many rows there are before blank ones at the end."""
    places, row, offset, quoted, blank = [], -1, 0, 0, 0  # blank: line ends after the last line that is not empty
    with file.open("rb") as opened:
        while chunk := opened.read(1 << 22):
            ends, quoted = _row_ends(chunk, quoted)
            numbers = row + 1 + np.arange(len(ends))  # the row that begins after each end
            places += (offset + 1 + ends[numbers % CSV_STRIDE == 0]).tolist()
            row, offset = row + len(ends), offset + len(chunk)
            filled = len(chunk.rstrip(b"\r\n"))
            blank = chunk.count(b"\n", filled) + (0 if filled else blank)
    if quoted:
        raise ValueError(f"{file} has a quotation mark that is never closed: close it, or convert the file to parquet")
    count = row + 1 - blank
    if count < 1:
        raise ValueError(f"{file} holds no rows: expected a line of column names, then one line for each row")
    return np.asarray(places), count


def _row_ends(chunk: bytes, quoted: int = 0) -> tuple[np.ndarray, int]:
    """The line breaks of a CSV outside of quotation marks, and the number of marks so far modulo 2 (`quoted`)."""
    letters = np.frombuffer(chunk, np.uint8)
    ends, marks = np.flatnonzero(letters == ord("\n")), np.flatnonzero(letters == ord('"'))
    return ends[(quoted + np.searchsorted(marks, ends)) % 2 == 0], (quoted + len(marks)) % 2


def _holds_numbers(kind: Any) -> bool:
    types = _arrow("types")
    return any(getattr(types, f"is_{name}")(kind) for name in ("integer", "floating", "boolean", "decimal", "null"))


def _floats(table: Any, columns: Sequence[str]) -> np.ndarray:
    """Columns as float64, (rows, columns). A cell that is not a number is NaN, so that only its own row fails."""
    import pandas as pd

    pa, found = _arrow(), []
    for column in (table[name] for name in columns):
        if _holds_numbers(column.type):
            found.append(column.cast(pa.float64(), safe=False).to_numpy())
        else:
            found.append(np.asarray(pd.to_numeric(column.cast(pa.string()).to_pandas(), errors="coerce"), np.float64))
    return np.stack(found, 1)


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Say which file is broken or of another kind, whatever the library that reads it raises."""
    try:
        yield
    except (FileNotFoundError, PermissionError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(
            f"{file} cannot be read as {file.suffix[1:]}: {reason_of(error).rstrip('.')}. It may be truncated, or a "
            "file of another kind with this name: make it anew"
        ) from error


def _cache_by_version(n: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Keep what the last n calls read from their file, until it changes; say which file cannot be read."""

    def of(read: Callable[..., Any]) -> Callable[..., Any]:
        @lru_cache(maxsize=n)
        def read_kept(file: Path, _version: tuple[int, ...], *rest: Any) -> Any:
            return read(file, *rest)

        @wraps(read)
        def current(file: Path, *rest: Any) -> Any:
            stat = file.stat()
            with _readable(file):
                return read_kept(file, (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino), *rest)

        return current

    return of


@_cache_by_version(8)
def _parquet(file: Path) -> Any:
    return _arrow("parquet").ParquetFile(file)


@_cache_by_version(2)
def _row_group(file: Path, group: int, columns: tuple[str, ...]) -> Any:
    """Parquet is read by row groups, and the next batch most often needs the same one."""
    return _parquet(file).read_row_group(group, columns=list(columns))


def _array(file: Path, name: str | None) -> Any:
    """An array (rows, *features) of a file. Slices of it are read from the file, except for .npz."""
    found = _open_array(file, name)
    if isinstance(found, list):
        raise ValueError(f"{file} has no array {name!r}: it has {', '.join(found) or 'none'}")
    kind = found.dtype if isinstance(found, np.ndarray) else np.dtype(float)
    if not _shape(found) or kind.kind not in "biufc":
        raise ValueError(
            f"{file} holds an array of {kind} and shape {_shape(found)}, expected numbers (rows, *features)"
        )
    return found


@_cache_by_version(4)
def _open_array(file: Path, name: str | None) -> Any:
    """The array, or the names of those that are there."""
    if file.suffix == ".npy":
        return np.load(file, mmap_mode="c")  # torch wants arrays that can be written to
    if file.suffix == ".npz":
        with file.open("rb") as content, np.load(content) as opened:  # given a name, np.load leaves a broken file open
            names = list(opened.keys())
            return opened[name or names[0]] if names and name in (None, *names) else names
    slices = import_optional("safetensors", "arrays need it", "jobs").safe_open(file, "pt")
    names = list(slices.keys())
    return slices.get_slice(name or names[0]) if names and name in (None, *names) else names


def _shape(array: Any) -> tuple[int, ...]:
    return tuple(array.shape if isinstance(array, np.ndarray) else array.get_shape())  # a slice of safetensors


def _transform(inputs: Tensor, transform: str | Callable[[Tensor], Inputs] | None) -> Inputs:
    return inputs if transform is None else import_by_name(transform)(inputs)


def _arrow(module: str = "") -> Any:
    return import_optional(f"pyarrow.{module}".rstrip("."), "tables need pyarrow", "jobs")
