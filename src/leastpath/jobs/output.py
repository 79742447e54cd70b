"""open(): everything that a job has written, as one data set that is read only where it is used."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leastpath._support.store import Store
from leastpath.jobs.shards import key_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Shard:
    """One file of values and one of rows."""

    start: int
    rows: int
    values: Path
    parquet: Path
    record: dict[str, Any]


class Explanations:
    """The output of a job, finished or not. Also a map-style torch dataset: `len` and `[i]`.

    `explanations[i]` is a dictionary of row i of the input: its values and its row of the table. A row of a shard that
    is not done yet raises KeyError.

    Example:
        >>> import tempfile, torch
        >>> import leastpath.jobs as jobs
        >>> rows, out = [torch.ones(2) for _ in range(4)], tempfile.mkdtemp()
        >>> _ = jobs.explain(rows, lambda: lambda x: x.prod(1), out=out, show=False)
        >>> Explanations(out)[3]["values"]
        tensor([0.5000, 0.5000])
    """

    def __init__(self, out: str | Path) -> None:
        self.store = Store(out, create=False)
        if self.store.config.get("kind") != "job":
            raise ValueError(f"{out} is the folder of a {self.store.config.get('kind')}, expected that of a job")
        n, size = int(self.store.config["rows"]), int(self.store.config["shard_size"])
        self.n_shards = -(-n // size)
        found = []
        for number in range(self.n_shards):
            try:
                unit = self.store.read_record(key_of(number))
            except KeyError:
                continue
            path = self.store.path(key_of(number))
            found.append(Shard(number * size, unit.record["rows"], path, unit.files["parquet"], unit.record))
        self.shards: Sequence[Shard] = tuple(found)
        self._starts = [shard.start for shard in found]
        self._intact: set[tuple[int, str | None]] = set()

    # ---- the whole -----------------------------------------------------------------------------------------------

    @property
    def config(self) -> dict[str, Any]:
        """What the job was: data, model, method, target and so on."""
        return self.store.config

    def __len__(self) -> int:
        """Rows of the whole input, done or not."""
        return int(self.config["rows"])

    @property
    def done(self) -> int:
        """Rows that are explained, or failed with a reason."""
        return sum(shard.rows for shard in self.shards) - self.cut

    @property
    def cut(self) -> int:
        """Rows that `max_seconds` left no time for, in shards that were begun. The next start of the job does them."""
        return sum(shard.record.get("cut", 0) for shard in self.shards)

    @property
    def failed(self) -> int:
        """Rows that could not be explained; the column `failure` of the table says why."""
        return sum(sum(shard.record["failures"].values()) for shard in self.shards)

    @property
    def missing(self) -> list[int]:
        """Numbers of the shards that are not done."""
        there = {shard.record["shard"] for shard in self.shards}
        return [number for number in range(self.n_shards) if number not in there]

    @property
    def finished(self) -> bool:
        """Whether every row is done."""
        return len(self.shards) == self.n_shards and not self.cut

    def __repr__(self) -> str:
        rest = f", {len(self.missing)} shards missing" if self.missing else ""
        shards = f"{len(self.shards)} shard{'' if len(self.shards) == 1 else 's'}"
        return f"Explanations({self.done:,} of {len(self):,} rows in {shards}{rest})"

    # ---- rows ----------------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> Any:
        """The table as a lazy `pyarrow.dataset.Dataset`: filter and choose columns before anything is decoded.

        The first use compares all bytes of the table with their checksums.

        Columns: index, name, target, score, score_change, support, p_value and p_model (NaN where it was not tested),
        outcome (in words), completeness_gap, cancellation, length_ratio, certificate, gradients, forwards, seconds, ok
        (null where removal could not decide), status, failure.
        """
        import pyarrow.dataset

        if not self.shards:
            raise ValueError(f"{self.store.folder} holds no finished shard yet")
        for shard in self.shards:
            self._check(shard, "parquet")
        return pyarrow.dataset.dataset([str(shard.parquet) for shard in self.shards], format="parquet")

    def table(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The table, or some columns of it, in memory."""
        return self.rows.to_table(columns=None if columns is None else list(columns)).to_pandas()

    # ---- values --------------------------------------------------------------------------------------------------

    def values(self, start: int, stop: int) -> Tensor | tuple[Tensor, ...]:
        """Attributions of rows start to stop − 1, (rows, *features); NaN where a row failed.

        A shard is compared with its checksum when it is first read. ValueError if it was altered.
        """
        if not 0 <= start < stop <= len(self):
            raise ValueError(f"rows {start} to {stop} are empty or not within 0 to {len(self)}: expected start < stop")
        parts: list[tuple[int, dict[str, Tensor]]] = []
        position = start
        while position < stop:
            shard = self._shard_of(position)
            self._check(shard)
            end = min(stop, shard.start + shard.rows)
            parts.append((end - position, _slices(shard.values, position - shard.start, end - shard.start)))
            position = end
        # A shard in which every row failed has no values, and its shape is unknown.
        names = sorted({name for _, part in parts for name in part})
        if not names:
            raise ValueError("no values were kept, or all of these rows failed: see table()")
        joined = tuple(_join(parts, name) for name in names)
        return joined[0] if names == ["values"] else joined

    def frame(self, start: int, stop: int) -> pd.DataFrame:
        """Attributions of rows of a table, under the names of its columns; the index is the number of the row."""
        import pandas as pd

        values, data = self.values(start, stop), self.config["data"]
        names = data.get("columns") if isinstance(data, dict) else None
        if not isinstance(values, Tensor) or values.ndim != 2 or names is None or len(names) != values.shape[1]:
            raise ValueError("these explanations have no names of columns: use values(start, stop)")
        return pd.DataFrame(values.numpy(), index=range(start, stop), columns=names)

    def __getitem__(self, i: int) -> dict[str, Any]:
        if not -len(self) <= i < len(self):
            raise IndexError(f"row {i} of {len(self)}")
        i %= len(self)
        shard = self._shard_of(i)
        self._check(shard)
        self._check(shard, "parquet")
        return next(_rows(shard, i - shard.start, i - shard.start + 1))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for shard in self.shards:
            self._check(shard)
            self._check(shard, "parquet")
            yield from _rows(shard, 0, shard.rows)

    def _check(self, shard: Shard, suffix: str | None = None) -> None:
        """Compare a shard, or its file of rows, with its checksum, when it is first read."""
        number = int(shard.record["shard"])
        if (number, suffix) in self._intact:
            return
        fault = self.store.fault(key_of(number), suffix)
        if fault:
            raise ValueError(
                f"shard {number} of {self.store.folder}, rows {shard.start} to {shard.start + shard.rows - 1}, cannot "
                f"be trusted: {fault}. Start the job again with the same settings: it does this shard once more"
            )
        self._intact.add((number, suffix))

    def _shard_of(self, i: int) -> Shard:
        number = bisect.bisect_right(self._starts, i) - 1
        if number < 0 or i >= self.shards[number].start + self.shards[number].rows:
            raise KeyError(f"row {i} is not done yet: start the job again to finish it")
        return self.shards[number]

    def verify(self) -> list[int]:
        """Read every byte again and move broken files aside. Returns the shards that have to be done again."""
        return [s.record["shard"] for s in self.shards if key_of(s.record["shard"]) not in self.store]


def open(out: str | Path) -> Explanations:
    """Open the output of a job, while it runs or afterwards. Reads a few hundred bytes per shard.

    Args:
        out: the job's folder.

    Example:
        >>> import tempfile, torch
        >>> from leastpath import jobs
        >>> folder = tempfile.mkdtemp()
        >>> _ = jobs.explain([torch.ones(2)] * 5, lambda: lambda x: x.prod(1), out=folder, show=False)
        >>> found = jobs.open(folder)
        >>> len(found), found.values(0, 5).shape, found[4]["score"]
        (5, torch.Size([5, 2]), 1.0)
    """
    return Explanations(out)


def _rows(shard: Shard, low: int, high: int) -> Iterator[dict[str, Any]]:
    """Rows low to high − 1 of a shard, with their values."""
    import pyarrow.parquet

    values = _slices(shard.values, low, high)
    for i, row in enumerate(pyarrow.parquet.read_table(shard.parquet).slice(low, high - low).to_pylist()):
        yield {**row, **{name: tensor[i] for name, tensor in values.items()}}


def _slices(file: Path, low: int, high: int) -> dict[str, Tensor]:
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        return {name: opened.get_slice(name)[low:high] for name in opened.keys()}  # noqa: SIM118 - it is not a mapping


def _join(parts: list[tuple[int, dict[str, Tensor]]], name: str) -> Tensor:
    known = next(part[name] for _, part in parts if name in part)
    return torch.cat([part.get(name, known.new_full((rows, *known.shape[1:]), torch.nan)) for rows, part in parts])
