"""One unit of work: read a shard's rows, explain them in batches, write values and rows."""

from __future__ import annotations

import io
import pickle
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.rows import flat_rows
from leastpath._support.store import Store, StoreMismatch, Unit
from leastpath.jobs.job import Job
from leastpath.jobs.sources import Rows, same_data
from leastpath.methods import METHODS
from leastpath.removal.verdict import TESTED
from leastpath.result.attribution import Attribution
from leastpath.result.status import Status
from leastpath.score.baselines import Several
from leastpath.score.behavior import check_behavior
from leastpath.score.score import Baselines, Inputs, Score
from leastpath.tabular import Rescaled

NUMBERS = (
    "score", "score_change", "support", "p_value", "p_model", "completeness_gap", "cancellation", "length_ratio",
    "certificate",
)  # fmt: skip
COUNTS = ("gradients", "forwards")
NUMBER = re.compile(r"(?<![A-Za-z\d])[-−]?\d(?:[\d.e+-]|,(?=\d))*(?: × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?")
LONGEST_REASON = 140  # characters: enough for a status with its remedy
CUT = "max_seconds was used up before this row: start the job again"


@dataclass(frozen=True)
class Done:
    """The counts of a finished shard. Nothing else is sent back to the driver."""

    shard: int
    rows: int
    gradients: int = 0
    seconds: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    was_there: bool = False


def key_of(shard: int) -> str:
    """The shard's key in the store."""
    return f"shard-{shard:07d}"


def read_shard(store: Store, shard: int) -> Unit | None:
    """What the store has of a shard, if anything."""
    try:
        return store.read(key_of(shard))
    except KeyError:
        return None


class Worker:
    """A loaded job: its data, model, method and store. Each process has one and uses it for all its shards.

    Args:
        job: what to do.
        config: its configuration, as the driver wrote it.
        until: the time (`time.time`) after which no row is begun; None: there is no end.
        tell: called after each batch with the rows and seconds of this worker so far.
    """

    def __init__(
        self,
        job: Job,
        config: dict[str, Any],
        until: float | None = None,
        tell: Callable[[int, float], None] | None = None,
    ) -> None:
        self.until, self.tell = until, tell
        self.rows, self.seconds = 0, 0.0  # so far, of rows that were explained or failed
        if job.threads is not None:
            torch.set_num_threads(job.threads)
        self.job = job
        self.store = Store(job.out, config, resume=True)  # the driver has asked
        if not same_data(job.source, config["data"]):
            raise StoreMismatch(
                "the data are not what they were when the job was started: files were added, removed or changed, or "
                "this worker sees others. Give another folder for the output"
            )
        self.explain = job.explainer()
        self.baselines = job.chosen_baselines()
        self.output = job.chosen_output()
        self.device = job.chosen_device()
        self.unit = None if job.measured is None else job.measured[1].to(self.device)
        model = job.model(torch.device("cpu"), config["model"])
        rows = job.first_rows()
        if rows is not None:
            check_behavior(job.out, Score(model), rows)
        self.model = model.to(self.device) if isinstance(model, nn.Module) else model

    def do(self, shard: int) -> Done:
        """Explain a shard and write it, unless the store already has it.

        Of a shard that the store has, only rows are explained that failed, or that there was no time for; where there
        is time for none, nothing is written.
        """
        key, rows = key_of(shard), self.job.rows(shard)
        start, table, todo = time.perf_counter(), _Filling(rows, self.job), [rows]
        kept = read_shard(self.store, shard)
        if kept is not None:
            due = rows_due(kept, self.job.keep_failed)
            if not due:
                return _summary(shard, kept.record, was_there=True)
            table.take(kept, due)
            todo = _runs(due)
        for run in todo:
            self._fill_in_time(table, run)
        if len(table.cut) == sum(map(len, todo)):
            return Done(shard, 0)
        seconds = time.perf_counter() - start + (kept.record["seconds"] if kept else 0.0)
        record = table.record() | {"shard": shard, "seconds": seconds}
        self.store.write(key, record, table.values, {"parquet": table.parquet()})
        return _summary(shard, record)

    def _fill_in_time(self, table: _Filling, rows: range) -> None:
        """Explain rows in batches, as many as there is time for."""
        first = rows.start
        while first < rows.stop:
            n = self._affordable(min(self.job.batch_size, rows.stop - first))
            if not n:
                table.leave(range(first, rows.stop))
                return
            begin = time.perf_counter()
            self._fill(table, first, first + n)
            first, self.rows, self.seconds = first + n, self.rows + n, self.seconds + time.perf_counter() - begin
            if self.tell is not None:
                self.tell(self.rows, self.seconds)

    def _affordable(self, n: int) -> int:
        """How many of the next n rows there is time for, if they take as long as those so far; the first n in any case,
        if the time is not over."""
        if self.until is None:
            return n
        left = self.until - time.time()
        if left <= 0 or not self.rows:
            return n if left > 0 else 0
        return min(n, int(left / max(self.seconds / self.rows, 1e-9)))

    def _fill(self, table: _Filling, start: int, stop: int) -> None:
        """Explain rows start to stop − 1. A batch that fails is halved until the failure is that of one row."""
        begin, names = time.perf_counter(), [str(start)]
        try:
            rows = self.job.source.read(start, stop)
            if rows.errors and self.job.fail_fast:
                i, reason = next(iter(rows.errors.items()))
                raise ValueError(f"row {i} cannot be read: {reason}")
            begin, names = time.perf_counter(), rows.names
            explained = None if rows.inputs is None else self._explain(rows)
        except Exception as error:
            if self.job.fail_fast:
                raise
            if stop - start == 1:
                table.fail(start, names[0], f"{type(error).__name__}: {error}", time.perf_counter() - begin)
                return
            middle = (start + stop) // 2
            self._fill(table, start, middle)
            self._fill(table, middle, stop)
            return
        for i, reason in rows.errors.items():
            table.fail(i, str(i), reason)
        if explained is not None:
            table.add(rows, *explained, time.perf_counter() - begin)

    def _explain(self, rows: Rows) -> tuple[Any, Tensor, Attribution]:
        """The targets, scores and attributions of some rows."""
        inputs = _move(rows.inputs, self.device)
        target = self._targets(rows, inputs)
        score = Score(self.model, target, self.output)
        _check_shared(self.baselines)
        scores = score(inputs)
        baselines = self.baselines
        if self.unit is not None and isinstance(inputs, Tensor):  # lengths add columns up, so they need a common unit
            score = replace(score, model=Rescaled(self.model, self.unit))
            inputs, baselines = inputs / self.unit, _in_units(baselines, self.unit)
        result = self.explain(score, inputs, baselines, self.job.seed)
        return (target.tolist() if isinstance(target, Tensor) else [target] * len(scores)), scores, result

    def _targets(self, rows: Rows, inputs: Inputs) -> Any:
        target = self.job.target
        if target == "predicted":
            return Score(self.model).outputs(inputs).argmax(1)
        if target == "label":
            if rows.targets is None:
                raise ValueError('target="label", but the data have no labels: name their column, or use "predicted"')
            return rows.targets.to(self.device)
        return target


@dataclass(frozen=True)
class Assignment:
    """A job and its configuration: what an executor gets. `until` and `tell` are those of `Worker`."""

    job: Job
    config: dict[str, Any]
    until: float | None = None
    tell: Callable[[int, float], None] | None = None

    def worker(self) -> Worker:
        """A worker in this process."""
        return Worker(self.job, self.config, self.until, self.tell)

    @cached_property
    def pickled(self) -> bytes:
        """As bytes. Lambdas and local functions need cloudpickle, which comes with Ray."""
        job = self.job
        if isinstance(job.method, str) and ":" not in job.method:  # a worker may not know a method that a user added
            job = replace(job, method=METHODS[job.method])
        try:
            from cloudpickle import dumps  # type: ignore[import-untyped]
        except ImportError:
            from pickle import dumps
        try:
            return bytes(dumps((job, self.config, self.until)))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(
                f"the job cannot be sent to a worker ({error}): define its data, factory and method at the top of a "
                "module that workers can import, or name them by 'package.module:name', or pip install cloudpickle"
            ) from None


@lru_cache(maxsize=1)
def _worker(pickled: bytes) -> Worker:
    job, config, until = pickle.loads(pickled)
    job.look_up_paths()  # for good: the process belongs to the job
    return Worker(job, config, until)


def run_shard(pickled: bytes, shard: int) -> Done:
    """Do one shard of pickled work. The process keeps the loaded job for its next shard."""
    return _worker(pickled).do(shard)


# ---- rows --------------------------------------------------------------------------------------------------------


class _Filling:
    """The rows and values of a shard that is being filled."""

    def __init__(self, rows: range, job: Job) -> None:
        self.start, self.job = rows.start, job
        self.rows: list[dict[str, Any]] = [{"index": i, "name": str(i)} for i in rows]
        self.values: dict[str, Tensor] = {}
        self.cut: set[int] = set()
        """Rows that there was no time for."""

    def take(self, kept: Unit, again: list[int]) -> None:
        """Begin with what is there, but for the rows that are to be tried again."""
        import pyarrow.parquet as pq

        self.values = {name: part.clone() for name, part in kept.arrays.items()}
        for row in pq.read_table(kept.files["parquet"]).to_pylist():
            if row["index"] not in again:
                self.rows[row["index"] - self.start] = {name: cell for name, cell in row.items() if cell is not None}

    def fail(self, index: int, name: str, reason: str, seconds: float = 0.0) -> None:
        values = {"name": name, "ok": False, "status": f"Failed: {reason}", "failure": reason, "seconds": seconds}
        self.rows[index - self.start] |= {**values, "gradients": 0, "forwards": 0}

    def leave(self, rows: range) -> None:
        """Rows that there is no time for."""
        for i in rows:
            self.fail(i, str(i), CUT)
        self.cut.update(rows)

    def add(self, rows: Rows, targets: list[Any], scores: Tensor, result: Attribution, seconds: float) -> None:
        kept, share = self._select(result.values), seconds / len(rows.index)
        lost = self._find_lost(result.values, kept)
        if lost and self.job.fail_fast:
            raise ValueError(f"row {rows.index[min(lost)]}: {lost[min(lost)]}")
        if misfit := self._find_misfit(kept):
            if self.job.fail_fast:
                raise ValueError(misfit)
            for index, name in zip(rows.index, rows.names, strict=True):
                self.fail(index, name, misfit, share)
            return
        numbers = {"score": scores} | {name: getattr(result, name) for name in NUMBERS[1:]}
        columns = {name: values.tolist() for name, values in numbers.items()}
        columns |= {"gradients": result.n_gradients.tolist(), "forwards": (result.n_forwards + 1).tolist()}
        columns |= {"target": targets, "name": rows.names, "ok": [status.ok for status in result.status]}
        columns |= {"outcome": [_outcome(status) for status in result.status]}
        columns |= {"status": [status.value for status in result.status]}
        columns |= {"reason": [_second_look(status) for status in result.status]}
        places = [index - self.start for index in rows.index]
        for place, *cells in zip(places, *columns.values(), strict=True):
            self.rows[place] |= {**dict(zip(columns, cells, strict=True)), "seconds": share}
        for name, part in kept.items():
            if name not in self.values:
                self.values[name] = torch.full((len(self.rows), *part.shape[1:]), torch.nan, dtype=part.dtype)
            self.values[name][places] = part
        for i, reason in lost.items():
            self.fail(rows.index[i], rows.names[i], reason, share)
            for part in self.values.values():
                part[places[i]] = torch.nan

    def _find_lost(self, values: Inputs, kept: dict[str, Tensor]) -> dict[int, str]:
        """Rows whose values the type on disk cannot hold, with the reason."""
        if self.job.dtype is None or not kept:
            return {}
        found = {}
        for before, after in zip(values if isinstance(values, tuple) else (values,), kept.values(), strict=True):
            given, stored = flat_rows(before.detach().cpu()).double(), flat_rows(after).double()
            given = given if self.job.keep == "values" else flat_rows(before.detach().cpu().sum(1)).double()
            largest = given.nan_to_num().abs().amax(1)
            too_large = (torch.isfinite(given) & ~torch.isfinite(stored)).any(1)
            too_small = (largest > 0) & (stored.nan_to_num().abs().amax(1) == 0)
            for i in (too_large | too_small).nonzero()[:, 0].tolist():
                size = "large" if too_large[i] else "small"
                found[i] = f"values of {float(largest[i]):.3g} are too {size} for dtype={self.job.dtype!r}: use float32"
        return found

    def _select(self, values: Inputs) -> dict[str, Tensor]:
        """What is kept of the attributions, by the names of the arrays."""
        if self.job.keep == "nothing":
            return {}
        tensors = values if isinstance(values, tuple) else (values,)
        names = [f"values.{i}" for i in range(len(tensors))] if isinstance(values, tuple) else ["values"]
        kept = {name: part.detach().cpu() for name, part in zip(names, tensors, strict=True)}
        if self.job.keep == "pixels":
            kept = {name: part.sum(1) for name, part in kept.items()}
        if self.job.dtype is not None:
            kept = {name: part.to(getattr(torch, self.job.dtype)) for name, part in kept.items()}
        return kept

    def _find_misfit(self, kept: dict[str, Tensor]) -> str:
        """Why these values do not fit those of earlier rows; empty if they do."""
        for name, part in kept.items():
            before = self.values.get(name, part)
            if self.job.keep == "pixels" and part.ndim < 2:
                return 'keep="pixels" sums over channels, and the attributions of a row are a vector: keep="values"'
            if before.shape[1:] != part.shape[1:]:
                return (
                    f"the attributions have shape {tuple(part.shape[1:])}, those of the shard's first row "
                    f'{tuple(before.shape[1:])}: bring all rows to one shape, or keep="nothing"'
                )
        return ""

    def record(self) -> dict[str, Any]:
        failed = [row for row in self.rows if "failure" in row and row["index"] not in self.cut]
        failures = Counter(kind_of_failure(row["failure"]) for row in failed)
        counts = {name: sum(row[name] for row in self.rows) for name in COUNTS}
        return {
            "rows": len(self.rows), "start": self.start, **counts, "failures": dict(failures),
            "failed": [row["index"] for row in failed], "passing": sorted(self.cut), "cut": len(self.cut),
        }  # fmt: skip

    def parquet(self) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = {"index": pa.int64(), "name": pa.string(), "target": pa.int64()}
        types |= dict.fromkeys((*NUMBERS, "seconds"), pa.float64()) | dict.fromkeys(COUNTS, pa.int64())
        types |= {"ok": pa.bool_()} | dict.fromkeys(("outcome", "status", "reason", "failure"), pa.string())
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(self.rows, pa.schema(list(types.items()))), file, compression="zstd")
        return file.getvalue()


def rows_due(unit: Unit, keep_failed: bool) -> list[int]:
    """The numbers of a shard's rows that are tried again: no time was left for them, or, unless those are kept, they
    failed. Nobody can tell from a failure whether its reason has passed."""
    failed = () if keep_failed else unit.record.get("failed", ())
    return sorted({int(i) for i in (*unit.record.get("passing", ()), *failed)})


def _runs(rows: list[int]) -> list[range]:
    """Row numbers as ranges of neighbours."""
    parts = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return [range(int(part[0]), int(part[-1]) + 1) for part in parts]


def _outcome(status: Status) -> str | None:
    """What removal says; None where it was not asked."""
    return next((outcome.value for outcome in status.outcomes if outcome in TESTED), None)


def _second_look(status: Status) -> str | None:
    """The first sentence of a status that asks for a second look, if any does: what went well is said before it."""
    return next((note.sentence for note in status.notes if note.outcome.ok is False), None)


def kind_of_failure(failure: str) -> str:
    """A failure without its numbers, so that failures of one kind count together."""
    return NUMBER.sub("…", failure.splitlines()[0])[:LONGEST_REASON]


def _summary(shard: int, record: dict[str, Any], was_there: bool = False) -> Done:
    failures = Counter(record["failures"])
    rows = record["rows"] - record.get("cut", 0)
    return Done(shard, rows, record["gradients"], record["seconds"], failures, was_there)


def _move(inputs: Inputs | None, device: torch.device) -> Any:
    return tuple(x.to(device) for x in inputs) if isinstance(inputs, tuple) else inputs.to(device)  # type: ignore[union-attr]


def _in_units(baselines: Any, unit: Tensor) -> Any:
    """Baselines of a table, in its units (columns,)."""
    if isinstance(baselines, Several):
        return Several(tuple(_in_units(choice, unit) for choice in baselines.choices))
    return None if baselines is None else baselines / (unit if isinstance(baselines, Tensor) else unit[None])


def _check_shared(baselines: Baselines | Several) -> None:
    if isinstance(baselines, Tensor) and baselines.ndim > 0 and len(baselines) != 1:
        raise ValueError(
            f"baselines have shape {tuple(baselines.shape)}: all inputs of a job share theirs, (1, …) or (1, m, …)"
        )
