"""Job: everything that a worker needs to know, small enough to send to it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import torch
from torch import Tensor, nn

from leastpath._support.checks import Count, Range, Settings, check_kind
from leastpath._support.fingerprint import describe
from leastpath._support.optional import import_by_name
from leastpath._support.store import StoreMismatch, differences
from leastpath.jobs.sources import Source, Table, read_spread, source_of
from leastpath.methods import Method
from leastpath.methods.explainer import Contender, Explainer, explainer_of
from leastpath.score.baselines import BASELINES, Several, baseline, several
from leastpath.score.calls import Output
from leastpath.score.estimators import as_module
from leastpath.score.score import Baselines, Inputs, Score
from leastpath.solvers.solution import Solver
from leastpath.tabular import ONE_ROW, unit_of

Keep = Literal["values", "pixels", "nothing"]
DType = Literal["float16", "bfloat16", "float32", "float64"]
PROBED = 4  # rows on which models are compared


@dataclass(frozen=True)
class Job(Settings):
    """What to explain, how, and where to put it. Made by `explain` and by `Job.from_toml`.

    Example:
        >>> job = Job(source_of([torch.ones(2)] * 10), torch.nn.Identity, "integrated_gradients", "out", shard_size=4)
        >>> job.n_shards, list(job.rows(2))
        (3, [8, 9])
    """

    source: Source
    model_factory: str | type | Callable[..., Any]
    """A function that makes the model, or its "package.module:name"."""
    method: Contender
    out: str | Path
    model_settings: Mapping[str, Any] = field(default_factory=dict)
    method_settings: Mapping[str, Any] = field(default_factory=dict)
    target: Annotated[int, Range(least=0)] | Literal["label", "predicted"] | None = None
    output: Output | str = "raw"
    baselines: Baselines | str = None
    seed: int = 0
    shard_size: Count = 1024
    batch_size: Count = 32
    keep: Keep = "values"
    dtype: DType | None = None
    device: str | None = None
    threads: Count | None = None
    fail_fast: bool = False
    keep_failed: bool = False
    python_path: tuple[str, ...] = ()
    """Folders that import paths are looked up in, besides the usual ones."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("model_settings", "method_settings"):
            check_kind(name, getattr(self, name), Mapping, "names and values, {name = value}")
        if self.device is not None:
            _read_device(self.device)

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
        factory = import_by_name(self.model_factory)
        if isinstance(factory, nn.Module):
            raise ValueError(
                "model_factory is a model: pass a function that makes it, which each worker calls once, or its "
                '"package.module:name"'
            )
        if not callable(factory):
            raise ValueError(f"model_factory={self.model_factory!r} is a {type(factory).__name__}, expected a function")
        made = factory(**self.model_settings)
        model = as_module(made) if hasattr(made, "predict") and not callable(made) else made  # of scikit-learn
        if not callable(model):
            raise ValueError(
                f"model_factory={self.model_factory!r} returned {type(model).__name__}, expected a model, which is a "
                "module or a function of the inputs. Does it end with `return model`?"
            )
        model = model.cpu().eval() if isinstance(model, nn.Module) else model  # where its description was made
        if expected is not None and (different := differences(expected, describe(model), "model")):
            raise StoreMismatch(
                f"model_factory made another model in this worker than when the job was started ({different[0]}): load "
                "its weights from a file in the factory, or call torch.manual_seed there before they are drawn"
            )
        return model.to(device) if isinstance(model, nn.Module) else model

    def explainer(self) -> Explainer:
        """The method; a name with a colon is imported, and called with the settings to make one."""
        if isinstance(self.method, str) and ":" in self.method:
            made = import_by_name(self.method)(**self.method_settings)
            return explainer_of(made, None if isinstance(made, str) else self.method)
        known = isinstance(self.method, (str, Method, Solver))  # these have a name; a callable is named by its code
        name = None if known else getattr(self.method, "__name__", type(self.method).__name__)
        return explainer_of(self.method, name, **self.method_settings)

    @cached_property
    def measured(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Of a table: the mean (1, columns), the standard deviations (columns,) and five rows (1, 5, columns).

        None for other data. Of a long table, over some rows, as `read_spread` takes them.
        """
        if not isinstance(self.source, Table):
            return None
        source = self.source
        blocks = read_spread(lambda start, stop: source.read(start, stop).inputs, len(source))
        if not blocks or not all(isinstance(block, Tensor) and block.ndim == 2 for block in blocks):
            return None
        points = torch.cat(blocks)
        points = points[torch.isfinite(points).all(1)].double()
        if not len(points):
            return None
        few = baseline("samples", points[:1], points=points, n=min(5, len(points)))
        return points.mean(0, keepdim=True).float(), unit_of(points).float(), few.float()

    def _named_baselines(self, names: str) -> Baselines | Several:
        """Baselines by name, with commas between them: of a table those of `leastpath explain`, else of `baseline`."""
        wanted: list[Any] = [name.strip() for name in names.split(",")]
        if self.measured is not None:
            known = {"mean": self.measured[0], "zero": 0.0, "samples": self.measured[2]}
            if unknown := [name for name in wanted if name not in known]:
                raise ValueError(f"baselines = {unknown[0]!r} is unknown for a table: use {', '.join(known)}")
            if "mean" in wanted and len(self.source) == 1:
                raise ValueError(f'{ONE_ROW}: give baselines = "zero"')
            wanted = [known[name] for name in wanted]
        else:
            for name in wanted:
                BASELINES[name]  # an unknown one is refused before the first row
        return several(*wanted) if len(wanted) > 1 else wanted[0] if self.measured else Several(tuple(wanted))

    def chosen_baselines(self) -> Baselines | Several:
        """The baselines by name, "mean" for a table unless others are given; an import path is imported, and called if
        it is a function."""
        given = "mean" if self.baselines is None and self.measured is not None else self.baselines
        if isinstance(given, str) and ":" not in given:
            chosen = self._named_baselines(given)
            return chosen.to(self.chosen_device()) if isinstance(chosen, Tensor) else chosen
        found = import_by_name(self.baselines)
        found = found() if isinstance(self.baselines, str) and callable(found) else found
        if isinstance(found, list):
            found = torch.tensor(found)[None]
        return found.to(self.chosen_device()) if isinstance(found, Tensor) else found

    def chosen_output(self) -> Output:
        """The output; a name with a colon is imported."""
        is_path = isinstance(self.output, str) and ":" in self.output
        return cast(Output, import_by_name(self.output) if is_path else self.output)

    def chosen_device(self) -> torch.device:
        """The device asked for; else a GPU where there is one."""
        chosen = _read_device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
            raise ValueError(
                f"device={self.device!r}, but this machine has {torch.cuda.device_count()} devices of that kind: "
                'use device="cpu"'
            )
        return chosen

    def look_up_paths(self) -> None:
        """Make modules beside the job's file importable, for the rest of this process: a worker calls it."""
        sys.path[:0] = [path for path in self.python_path if path not in sys.path]

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Make modules beside the job's file importable for the time of a `with` block."""
        with _first_on_path(*self.python_path):
            yield

    def first_rows(self) -> Inputs | None:
        """The first rows, on which models are compared; None where they cannot be read."""
        try:
            return self.source.read(0, min(PROBED, len(self.source))).inputs
        except Exception:  # the work itself will say what is wrong with them
            return None

    def config(self, model: Any = None) -> dict[str, Any]:
        """All that the results depend on, as JSON. Its weights are part of it, so the model is made if not given."""
        with self.importing():
            return self._config(self.model(torch.device("cpu")) if model is None else model)

    def _config(self, model: Any) -> dict[str, Any]:
        picked = self.target if self.target is None or isinstance(self.target, int) else 0
        Score(model, picked, self.chosen_output())  # refuses an unknown output before the first row
        return {
            "kind": "job",
            "data": describe(self.source.what),
            "rows": len(self.source),
            "model": describe(model),
            "method": describe(self.explainer().what),
            "target": self.target,
            "output": describe(self.chosen_output()),
            "baselines": describe(self.chosen_baselines()),
            "seed": int(self.seed),
            "shard_size": self.shard_size,
            "keep": self.keep,
            "dtype": self.dtype,
        }

    # ---- job files -----------------------------------------------------------------------------------------------

    @staticmethod
    def from_toml(file: str | Path, allow: Sequence[str] = ()) -> tuple[Job, dict[str, Any]]:
        """The job that a TOML file describes, and the settings of its [run] table for the executor.

        Args:
            file: the job file. Paths in it are relative to it, also `file` and `path` in tables of settings.
            allow: modules that it may import, with all that is in them. Besides these it may only import modules that
                lie beside it: a name such as "os:system" would run any command.
        """
        path = Path(file)
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not TOML: {error}") from error
        unknown = sorted(set(tables) - {"data", "model", "explain", "run"})
        if unknown:
            raise ValueError(f"{path} has a table [{unknown[0]}]: expected [data], [model], [explain] and [run]")
        folder = path.resolve().parent
        data, model, explain, run = (dict(tables.get(name, {})) for name in ("data", "model", "explain", "run"))
        source = _take(data, "source", path, "data")
        if (folder / source).exists() or ":" not in source:  # otherwise an import path
            source = str(folder / source)
        out = folder / _take(run, "out", path, "run")
        factory = _take(model, "factory", path, "model")
        method = _take(explain, "method", path, "explain")
        _refuse_others(model, {"settings"}, path, "model")
        _refuse_others(explain, {"settings", "target", "output", "baselines", "seed"}, path, "explain")
        if "init" in run:
            raise ValueError(
                f"[run] of {path} has 'init', which can make Ray run any program: give it in Python, Ray(…)"
            )
        named: tuple[Any, ...] = (
            factory,
            *(v for v in (method, explain.get("output"), explain.get("baselines")) if _is_import_path(v)),
        )
        named += tuple(v for v in (source, *data.values()) if _is_import_path(v) and not Path(v).exists())
        for name in named:
            _check_allowed(name, folder, allow, path)
        explain["method_settings"] = explain.pop("settings", {})
        explain |= {name: run.pop(name) for name in OWN & set(run)}  # the rest: the executor's
        settings = _beside(model.get("settings", {}), folder)
        if "settings" in data:
            data["settings"] = _beside(data["settings"], folder)
        with _first_on_path(str(folder)):
            made = source_of(source, **data)
        return Job(made, factory, method, out, settings, python_path=(str(folder),), **explain), run


OWN = {"shard_size", "batch_size", "keep", "dtype", "device", "threads", "fail_fast", "keep_failed"}


@contextmanager
def _first_on_path(*folders: str) -> Iterator[None]:
    before = list(sys.path)
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]
    try:
        yield
    finally:
        sys.path[:] = before


def _read_device(name: Any) -> torch.device:
    try:
        return torch.device(name)
    except (RuntimeError, TypeError):
        raise ValueError(f'device={name!r} is unknown: use "cpu", "cuda", "cuda:1" or "mps"') from None


def _is_import_path(value: Any) -> bool:
    return isinstance(value, str) and ":" in value


def _check_allowed(name: str, folder: Path, allow: Sequence[str], path: Path) -> None:
    """Refuse an import path in a job file, unless its module lies beside the file or the command line allows it."""
    module, _, attribute = name.partition(":")
    if not attribute:
        raise ValueError(f"{name!r} in {path} is not an import path: write module:name")
    if "." in attribute:
        raise ValueError(f"{name!r} in {path}: a job file names functions of a module directly, module:name")
    if any(module == given or module.startswith(f"{given}.") for given in allow):
        return
    top = module.partition(".")[0]
    if not _lies_in(top, folder):
        raise ValueError(
            f"{path} wants to import {name!r}, and {top} does not lie beside it. What a job file imports can run any "
            f"code: if you trust it, use `leastpath run {path.name} --allow {module}`"
        )


def _lies_in(top: str, folder: Path) -> bool:
    """Whether `import top` takes a module or package that lies in this very folder."""
    importlib.invalidate_caches()
    with _first_on_path(str(folder)):
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return False
    if spec is None:
        return True  # there is nothing of this name, and importing it will say so
    places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location and spec.origin else ())]
    return bool(places) and all(Path(place).resolve() in _places(top, folder) for place in places)


def _places(top: str, folder: Path) -> list[Path]:
    package = folder / top
    found = [package, package / "__init__.py", folder / f"{top}.py"]
    return [place.resolve() for place in found]


def _beside(settings: Any, folder: Path) -> Any:
    """Settings with the names of files looked up beside the job file, as `source` is."""
    if not isinstance(settings, Mapping):
        return settings
    named = ("file", "path", "folder")
    found = dict(settings)
    for name, value in settings.items():
        is_file = name in named or name.endswith(tuple(f"_{end}" for end in named))
        if is_file and isinstance(value, str) and (folder / value).exists():
            found[name] = str(folder / value)
    return found


def _take(table: dict[str, Any], name: str, path: Path, title: str) -> str:
    if name not in table:
        raise ValueError(f"{path} lacks {name!r} in its table [{title}]")
    value = table.pop(name)
    if not isinstance(value, str):
        raise ValueError(
            f'{name} = {value!r} in [{title}] of {path} is no word: put it in quotation marks, {name} = "…"'
        )
    return value


def _refuse_others(table: Mapping[str, Any], known: set[str], path: Path, title: str) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise ValueError(f"[{title}] of {path} has {unknown[0]!r}: expected {', '.join(sorted(known))}")
