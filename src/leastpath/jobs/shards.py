"""One unit of work: read a shard's rows, explain them in batches, write values and rows. The same in every worker."""

from __future__ import annotations

import io
import pickle
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from leastpath._support.fingerprint import described
from leastpath._support.store import Store, StoreMismatch
from leastpath.attribution import Attribution
from leastpath.jobs.job import Job
from leastpath.jobs.sources import Rows
from leastpath.methods import METHODS
from leastpath.score import Baselines, Inputs, Score

NUMBERS = ("score", "score_change", "support", "completeness_gap", "cancellation", "length_ratio", "certificate")
COUNTS = ("gradients", "forwards")


@dataclass(frozen=True)
class Done:
    """What became of a shard; this is all that travels back to the driver."""

    shard: int
    rows: int
    gradients: int = 0
    seconds: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    was_there: bool = False


def key_of(shard: int) -> str:
    """The shard's key in the store."""
    return f"shard-{shard:07d}"


class Worker:
    """A job, loaded: its data, model, method and store. One for each process, however many shards it does."""

    def __init__(self, job: Job, config: dict[str, Any]) -> None:
        if job.threads is not None:
            torch.set_num_threads(job.threads)
        self.job = job
        self.store = Store(job.out, config)
        job.look_up_paths()
        if described(job.source.what) != config["data"]:
            raise StoreMismatch(
                "the data are not what they were when the job was started: files were added, removed or changed, or "
                "this worker sees others. Give another folder for the output"
            )
        self.explain = job.explainer()
        self.baselines = job.chosen_baselines()
        self.output = job.chosen_output()
        self.device = job.chosen_device()
        self.model = job.model(self.device, config["model"])

    def do(self, shard: int) -> Done:
        """Explain a shard and write it, unless it is there already."""
        key, rows = key_of(shard), self.job.rows(shard)
        if key in self.store:
            return _summary(shard, self.store.glance(key).record, was_there=True)
        start = time.perf_counter()
        table = _Table(rows, self.job)
        for first in range(rows.start, rows.stop, self.job.batch_size):
            for read in self._read(first, min(first + self.job.batch_size, rows.stop)):
                for i, reason in read.errors.items():
                    if self.job.fail_fast:
                        raise ValueError(f"row {i} cannot be read: {reason}")
                    table.fail(i, str(i), reason)
                if read.inputs is not None:
                    for part in self._explained(read):
                        table.add(*part)
        record = table.record() | {"shard": shard, "seconds": time.perf_counter() - start}
        self.store.write(key, record, table.values, {"parquet": table.parquet()})
        return _summary(shard, record)

    def _read(self, start: int, stop: int) -> Iterator[Rows]:
        """The rows in parts that can be read: what fails together is halved until that is one row, or all is well."""
        try:
            read = self.job.source.read(start, stop)
        except Exception as error:
            if self.job.fail_fast:
                raise
            if stop - start == 1:
                yield Rows(None, [], errors={start: f"{type(error).__name__}: {error}"})
                return
            middle = (start + stop) // 2
            yield from self._read(start, middle)
            yield from self._read(middle, stop)
        else:
            yield read

    def _explained(self, rows: Rows) -> Iterator[tuple[Rows, Tensor | None, Tensor | None, Attribution | str, float]]:
        """The rows in parts that worked, and rows that did not: a batch that fails is halved until that is one row."""
        start = time.perf_counter()
        try:
            targets, scores, result = self._explained_batch(rows)
        except Exception as error:
            if self.job.fail_fast:
                raise
            if len(rows.index) == 1:
                yield rows, None, None, f"{type(error).__name__}: {error}", time.perf_counter() - start
                return
            middle = len(rows.index) // 2
            for cut in (slice(0, middle), slice(middle, None)):
                yield from self._explained(_cut(rows, cut))
        else:
            yield rows, targets, scores, result, time.perf_counter() - start

    def _explained_batch(self, rows: Rows) -> tuple[Tensor | None, Tensor, Attribution]:
        inputs = _moved(rows.inputs, self.device)
        target = self._targets(rows, inputs)
        score = Score(self.model, target, self.output)
        baselines = _rows_of_baselines(self.baselines, rows)
        scores = score(inputs)
        result = self.explain(score, inputs, baselines, self.job.seed)
        return (target.cpu() if isinstance(target, Tensor) else target), scores.cpu(), result

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
class Work:
    """A job and its configuration, as executors are given them."""

    job: Job
    config: dict[str, Any]

    @cached_property
    def pickled(self) -> bytes:
        """As bytes. Functions without a name in a module travel only where cloudpickle is installed, as with Ray."""
        job = self.job
        if isinstance(job.method, str) and ":" not in job.method:  # a worker need not know the name of a user's own
            job = replace(job, method=METHODS[job.method])
        try:
            from cloudpickle import dumps  # type: ignore[import-untyped]
        except ImportError:
            from pickle import dumps
        try:
            return bytes(dumps((job, self.config)))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(
                f"the job cannot be sent to a worker ({error}): define its data, factory and method at the top of a "
                "module that workers can import, or name them by 'package.module:name', or pip install cloudpickle"
            ) from None


@lru_cache(maxsize=1)
def _worker(pickled: bytes) -> Worker:
    job, config = pickle.loads(pickled)
    return Worker(job, config)


def run_shard(pickled: bytes, shard: int) -> Done:
    """Do a shard of some pickled work. The process keeps what it has loaded for its next shard."""
    return _worker(pickled).do(shard)


# ---- rows --------------------------------------------------------------------------------------------------------


class _Table:
    """The shard that is being filled."""

    def __init__(self, rows: range, job: Job) -> None:
        self.start, self.n, self.job = rows.start, len(rows), job
        self.cells: list[dict[str, Any]] = [{"index": i, "name": str(i)} for i in rows]  # a row each, by column
        self.values: dict[str, Tensor] = {}

    def fail(self, index: int, name: str, reason: str, seconds: float = 0.0) -> None:
        said = {"name": name, "ok": False, "status": f"Failed: {reason}", "failure": reason, "seconds": seconds}
        self.cells[index - self.start] |= {**said, "gradients": 0, "forwards": 0}

    def add(self, rows: Rows, targets: Any, scores: Tensor | None, result: Attribution | str, seconds: float) -> None:
        if isinstance(result, str) or scores is None:
            self.fail(rows.index[0], rows.names[0], str(result), seconds)
            return
        kept = self._kept(result.values)
        if misfit := self._misfit(kept):
            if self.job.fail_fast:
                raise ValueError(misfit)
            for index, name in zip(rows.index, rows.names, strict=True):
                self.fail(index, name, misfit, seconds / len(rows.index))
            return
        numbers = {"score": scores} | {name: getattr(result, name) for name in NUMBERS[1:]}
        lists = {name: values.double().tolist() for name, values in numbers.items()}
        lists |= {"gradients": result.n_gradients.tolist(), "forwards": (result.n_forwards + 1).tolist()}
        n = len(rows.index)
        lists["target"] = targets.tolist() if isinstance(targets, Tensor) else [targets] * n
        lists |= {"seconds": [seconds / n] * n, "name": rows.names, "ok": [s.ok for s in result.status]}
        lists["status"] = [s.value for s in result.status]
        at = [i - self.start for i in rows.index]
        for row, *cells in zip(at, *lists.values(), strict=True):
            self.cells[row] |= dict(zip(lists, cells, strict=True))
        self._keep(kept, at)

    def _kept(self, values: Inputs) -> dict[str, Tensor]:
        """What is kept of the attributions, by the names of the arrays."""
        if self.job.keep == "nothing":
            return {}
        named = (
            {f"values.{i}": part for i, part in enumerate(values)} if isinstance(values, tuple) else {"values": values}
        )
        kept = {name: part.detach().cpu() for name, part in named.items()}
        if self.job.keep == "pixels":
            kept = {name: part.sum(1) for name, part in kept.items()}
        if self.job.dtype is not None:
            kept = {name: part.to(getattr(torch, self.job.dtype)) for name, part in kept.items()}
        return kept

    def _misfit(self, kept: dict[str, Tensor]) -> str:
        """Why these cannot be kept beside the rows before them; empty where they can."""
        for name, part in kept.items():
            before = self.values.get(name, part)
            if before.shape[1:] != part.shape[1:]:
                return (
                    f"the attributions have shape {tuple(part.shape[1:])}, those of the shard's first row "
                    f'{tuple(before.shape[1:])}: bring all rows to one shape, or keep="nothing"'
                )
        return ""

    def _keep(self, kept: dict[str, Tensor], at: list[int]) -> None:
        for name, part in kept.items():
            if name not in self.values:
                self.values[name] = torch.full((self.n, *part.shape[1:]), torch.nan, dtype=part.dtype)
            self.values[name][at] = part

    def record(self) -> dict[str, Any]:
        failures = Counter(reason_of(row["failure"]) for row in self.cells if "failure" in row)
        return {
            "rows": self.n,
            "start": self.start,
            "gradients": sum(row["gradients"] for row in self.cells),
            "forwards": sum(row["forwards"] for row in self.cells),
            "failures": dict(failures),
        }

    def parquet(self) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = {"index": pa.int64(), "name": pa.string(), "target": pa.int64()}
        types |= dict.fromkeys((*NUMBERS, "seconds"), pa.float64()) | dict.fromkeys(COUNTS, pa.int64())
        types |= {"ok": pa.bool_(), "status": pa.string(), "failure": pa.string()}
        schema = pa.schema(list(types.items()))
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(self.cells, schema), file, compression="zstd")
        return file.getvalue()


def reason_of(failure: str) -> str:
    """A failure without its numbers, so that failures of one kind count together.

    Example:
        >>> reason_of("ValueError: the score of example 17 is NaN")
        'ValueError: the score of example … is NaN'
    """
    return re.sub(r"-?\d[\d.e+-]*", "…", failure.splitlines()[0])[:90]


def _summary(shard: int, record: dict[str, Any], was_there: bool = False) -> Done:
    failures = Counter(record["failures"])
    return Done(shard, record["rows"], record["gradients"], record["seconds"], failures, was_there)


def _cut(rows: Rows, cut: slice) -> Rows:
    inputs = rows.inputs
    part = tuple(x[cut] for x in inputs) if isinstance(inputs, tuple) else inputs[cut]  # type: ignore[index]
    targets = None if rows.targets is None else rows.targets[cut]
    return Rows(part, rows.index[cut], targets, rows.names[cut])


def _moved(inputs: Inputs | None, device: torch.device) -> Any:
    return tuple(x.to(device) for x in inputs) if isinstance(inputs, tuple) else inputs.to(device)  # type: ignore[union-attr]


def _rows_of_baselines(baselines: Baselines, rows: Rows) -> Baselines:
    """All rows of a job share their baselines: a number, (1, …), or several, (1, m, …)."""
    if isinstance(baselines, Tensor) and baselines.ndim > 0 and len(baselines) != 1:
        raise ValueError(
            f"baselines have shape {tuple(baselines.shape)}: all inputs of a job share theirs, (1, …) or (1, m, …)"
        )
    return baselines
