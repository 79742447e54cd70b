"""Job: everything that a worker needs to know, small enough to send to it."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from leastpath._support.checks import check_integer
from leastpath._support.fingerprint import described
from leastpath._support.optional import imported
from leastpath._support.store import StoreMismatch, differences
from leastpath.explainer import Contender, Explainer, explainer_of
from leastpath.jobs.sources import Source, source_of
from leastpath.methods import Method
from leastpath.outputs import Output
from leastpath.score import Baselines
from leastpath.solution import Solver

Keep = Literal["values", "pixels", "nothing"]
KEEP = ("values", "pixels", "nothing")


@dataclass(frozen=True)
class Job:
    """What to explain, how, and where to put it. Made by `explain` and by `Job.from_toml`.

    Example:
        >>> job = Job(source_of([torch.ones(2)] * 10), torch.nn.Identity, "integrated_gradients", "out", shard_size=4)
        >>> job.n_shards, list(job.rows(2))
        (3, [8, 9])
    """

    source: Source
    model_factory: str | Callable[..., Any]
    """A function that makes the model, or its "package.module:name"."""
    method: Contender
    out: str | Path
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    method_settings: Mapping[str, Any] = field(default_factory=dict)
    target: int | Literal["label", "predicted"] | None = None
    output: Output | str = "raw"
    baselines: Baselines | str = None
    seed: int = 0
    shard_size: int = 1024
    batch_size: int = 32
    keep: Keep = "values"
    dtype: str | None = None
    device: str | None = None
    threads: int | None = None
    fail_fast: bool = False
    python_path: tuple[str, ...] = ()
    """Folders that import paths are looked up in, besides the usual ones."""

    def __post_init__(self) -> None:
        for name in ("shard_size", "batch_size"):
            check_integer(name, getattr(self, name), 1)
        if self.keep not in KEEP:
            raise ValueError(f"keep={self.keep!r} is unknown: use one of {list(KEEP)}")
        if isinstance(self.target, str) and self.target not in ("label", "predicted"):
            raise ValueError(f'target={self.target!r} is unknown: use "label", "predicted", a class index or None')
        if self.dtype is not None and not isinstance(getattr(torch, self.dtype, None), torch.dtype):
            raise ValueError(f"dtype={self.dtype!r} is unknown: use a name such as float16")
        self.look_up_paths()

    # ---- shards --------------------------------------------------------------------------------------------------

    @property
    def n_shards(self) -> int:
        """How many units of work there are."""
        return -(-len(self.source) // self.shard_size)

    def rows(self, shard: int) -> range:
        """The rows of a shard."""
        return range(shard * self.shard_size, min((shard + 1) * self.shard_size, len(self.source)))

    # ---- what is loaded where it is needed -----------------------------------------------------------------------

    def model(self, device: torch.device, expected: Any = None) -> Any:
        """The model, in evaluation mode, on a device. StoreMismatch if its description is not the expected one."""
        factory = imported(self.model_factory)
        if isinstance(factory, nn.Module):
            raise ValueError(
                "model_factory is a model: pass a function that makes it, which each worker calls once, or its "
                '"package.module:name"'
            )
        model = factory(**self.model_settings)
        model = model.cpu().eval() if isinstance(model, nn.Module) else model  # where its description was made
        if expected is not None and (different := differences(expected, described(model), "model")):
            raise StoreMismatch(
                f"model_factory made another model in this worker than when the job was started ({different[0]}): load "
                "its weights from a file in the factory, or call torch.manual_seed there before they are drawn"
            )
        return model.to(device) if isinstance(model, nn.Module) else model

    def explainer(self) -> Explainer:
        """The method; a name with a colon is imported, and called with the settings to make one."""
        if isinstance(self.method, str) and ":" in self.method:
            made = imported(self.method)(**self.method_settings)
            return explainer_of(made, None if isinstance(made, str) else self.method)
        known = isinstance(self.method, (str, Method, Solver))  # these have a name; a callable is named by its code
        name = None if known else getattr(self.method, "__name__", type(self.method).__name__)
        return explainer_of(self.method, name, **self.method_settings)

    def chosen_baselines(self) -> Baselines:
        """The baselines; a name is imported and, if it is a function, called."""
        found = imported(self.baselines)
        found = found() if isinstance(self.baselines, str) and callable(found) else found
        if isinstance(found, list):
            found = torch.tensor(found)[None]
        return found.to(self.chosen_device()) if isinstance(found, Tensor) else found

    def chosen_output(self) -> Output:
        """The output; a name with a colon is imported."""
        is_path = isinstance(self.output, str) and ":" in self.output
        return cast(Output, imported(self.output) if is_path else self.output)

    def chosen_device(self) -> torch.device:
        """The device asked for; else a GPU where there is one."""
        return torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def look_up_paths(self) -> None:
        """Make modules beside the job's file importable. A worker, which gets the job as bytes, calls it again."""
        sys.path[:0] = [path for path in self.python_path if path not in sys.path]

    def config(self) -> dict[str, Any]:
        """All that the results depend on, as JSON. Loads the model, whose weights are part of it."""
        return {
            "kind": "job",
            "data": described(self.source.what),
            "rows": len(self.source),
            "model": described(self.model(torch.device("cpu"))),
            "method": described(self.explainer().what),
            "target": self.target,
            "output": described(self.chosen_output()),
            "baselines": described(self.chosen_baselines()),
            "seed": self.seed,
            "shard_size": self.shard_size,
            "keep": self.keep,
            "dtype": self.dtype,
        }

    # ---- job files -----------------------------------------------------------------------------------------------

    @staticmethod
    def from_toml(file: str | Path) -> tuple[Job, dict[str, Any]]:
        """The job that a TOML file describes, and the settings of its [run] table for the executor.

        Paths in it are relative to the file, and modules beside it can be imported.
        """
        path = Path(file)
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path} is not TOML: {error}") from error
        unknown = sorted(set(tables) - {"data", "model", "explain", "run"})
        if unknown:
            raise ValueError(f"{path} has a table [{unknown[0]}]: expected [data], [model], [explain] and [run]")
        folder = path.resolve().parent
        data, model, explain, run = (dict(tables.get(name, {})) for name in ("data", "model", "explain", "run"))
        source = _taken(data, "source", path, "data")
        if (folder / source).exists() or ":" not in source:  # otherwise an import path
            source = str(folder / source)
        out = folder / _taken(run, "out", path, "run")
        factory = _taken(model, "factory", path, "model")
        method = _taken(explain, "method", path, "explain")
        _refuse_others(model, {"settings"}, path, "model")
        _refuse_others(explain, {"settings", "target", "output", "baselines", "seed"}, path, "explain")
        explain["method_settings"] = explain.pop("settings", {})
        own = {
            "shard_size",
            "batch_size",
            "keep",
            "dtype",
            "device",
            "threads",
            "fail_fast",
        }  # the rest: the executor's
        explain |= {name: run.pop(name) for name in own & set(run)}
        settings = model.get("settings", {})
        job = Job(source_of(source, **data), factory, method, out, settings, python_path=(str(folder),), **explain)
        return job, run


def _taken(table: dict[str, Any], name: str, path: Path, title: str) -> Any:
    if name not in table:
        raise ValueError(f"{path} lacks {name!r} in its table [{title}]")
    return table.pop(name)


def _refuse_others(table: Mapping[str, Any], known: set[str], path: Path, title: str) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise ValueError(f"[{title}] of {path} has {unknown[0]!r}: expected {', '.join(sorted(known))}")
