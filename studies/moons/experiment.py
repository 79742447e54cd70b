"""`python -m studies.moons`: the paper's half-moons experiment, from training to Table 1 and the figures.

65 nets (13 noise levels × 5 seeds) are trained together; ten methods explain the log-probability of the predicted class
of each net's test points; a method is judged by its purity (see `moons_table`) and by how much its attributions cancel.
Every net and every (method, net) is a unit of the run's store: what is finished is never computed again.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor
from typer import Option

import leastpath as lp
from leastpath._support.interruption import finished
from leastpath._support.store import Store
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.jobs.executors import begin_worker, end_pool
from leastpath.run import Bar, Run
from studies.moons.training import EPOCHS, N_SAMPLES, N_TRAIN, Moons, loaded_net, train_together

# AUC-purity as printed in the paper's Table 1, in its order.
PAPER: Mapping[str, float] = {
    "input_x_gradient": 0.328,
    "gradient_shap": 0.483,
    "integrated_gradients": 0.487,
    "random": 0.299,
    "kernel_shap": 0.480,
    "occlusion": 0.520,
    "guided_ig": 0.361,
    "enhanced_ig": 0.470,
    "geodesic_graph": 0.531,
    "geodesic_variational": 0.504,
}
COSTLY = ("kernel_shap", "geodesic_variational")  # explain `costly_points` test points only
MAPPED = ("integrated_gradients", "geodesic_graph", "enhanced_ig")  # drawn over all samples of one net
BASELINE = (-0.5, -0.5)
N_NEIGHBORS = 15
N_TEST = N_SAMPLES - N_TRAIN


@dataclass(frozen=True)
class MoonsConfig:
    """All that the results depend on.

    Example:
        >>> len(MoonsConfig().nets), len(MoonsConfig.quick().nets)
        (65, 3)
    """

    noises: tuple[float, ...] = tuple(round(0.05 * level, 2) for level in range(1, 14))
    seeds: tuple[int, ...] = (12, 24, 36, 48, 60)
    methods: tuple[str, ...] = tuple(PAPER)
    epochs: int = EPOCHS
    points: int = N_TEST
    costly_points: int = 500
    variational_iterations: int = 1000
    variational_knots: int = 20
    kernel_samples: int = 20  # two features have two coalitions beside none and all: few draws show both
    figure_noise: float = 0.15

    @classmethod
    def quick(cls) -> MoonsConfig:
        """Three noise levels, one seed: under two minutes on two cores."""
        return cls(noises=(0.05, 0.35, 0.65), seeds=(12,), costly_points=200, variational_iterations=500)

    @property
    def nets(self) -> list[Moons]:
        """The nets of the table."""
        return [Moons(noise, seed) for seed in self.seeds for noise in self.noises]

    @property
    def figure_net(self) -> Moons:
        """The net that figures show; trained with the others where the table does not have it."""
        return Moons(self.figure_noise, self.seeds[0])

    @property
    def mapped_inputs(self) -> Tensor:
        """What maps are drawn over, (n, 2): all samples of the figures' net, or fewer if fewer points are explained."""
        return torch.cat([self.figure_net.train[0], self.figure_net.test[0]])[: N_SAMPLES // N_TEST * self.points]

    def points_of(self, method: str) -> int:
        """How many test points a method explains on each net."""
        return min(self.points, self.costly_points) if method in COSTLY else self.points

    def rows_of(self, method: str, other_class: Tensor) -> Tensor:
        """Which test points a method explains, given their side of the border (test points,): indices (n,).

        The first ones; costly methods get fewer, as many from each side as all have in proportion. Purity cannot
        exceed twice the share of the other side, so that an unbalanced choice would be a handicap.
        """
        n, other = self.points_of(method), other_class[: self.points]
        if n == self.points:
            return torch.arange(n)
        n_other = round(n * float(other.double().mean()))
        return torch.cat([other.nonzero()[:n_other, 0], (~other).nonzero()[: n - n_other, 0]]).sort().values

    def settings_of(self, method: str, inputs: Tensor) -> dict[str, Any]:
        """Settings of a method that differ from its defaults."""
        if method in ("geodesic_graph", "enhanced_ig"):
            return {"points": inputs, "n_neighbors": N_NEIGHBORS}
        if method == "geodesic_variational":
            return {
                "n_iterations": self.variational_iterations, "n_points": self.variational_knots, "n_samples": 0,
            }  # fmt: skip
        return {"n_samples": self.kernel_samples} if method == "kernel_shap" else {}


def command(
    quick: Annotated[
        bool, Option("--quick", help="3 noise levels × 1 seed, fewer points for the slow methods: two minutes.")
    ] = False,
    out: Annotated[
        Path | None, Option(help="Folder of the run. Default: out/moons or out/moons-quick, numbered where taken.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with an interrupted run: nothing is done twice.")] = False,
    jobs: Annotated[int | None, Option(min=1, help="Processes. Default: one a CPU.")] = None,
    methods: Annotated[
        str | None, Option(help="Names separated by commas; `leastpath methods` lists them. Default: all of Table 1.")
    ] = None,
    seeds: Annotated[str | None, Option(help="Numbers separated by commas. Default: the paper's five.")] = None,
    costly_points: Annotated[
        int | None, Option(min=2, help="Test points a net for KernelSHAP and Variational. Default: 500.")
    ] = None,
    save: Annotated[
        Path | None, Option(help="Write the table and the figures to this folder too, as the documentation shows them.")
    ] = None,
) -> None:
    """The paper's half-moons experiment: Table 1 beside the printed one, and its figures.

    Trains a small net on two half-moons for each of 13 noise levels and 5 seeds, explains 2,000 test points of each by
    ten methods, and ranks the methods by purity. Takes about 35 minutes of one CPU, divided by the number of processes.
    """
    config = MoonsConfig.quick() if quick else MoonsConfig()
    changed: dict[str, Any] = {}
    if methods is not None:
        changed["methods"] = _known_methods(methods)
    if seeds is not None:
        changed["seeds"] = _numbers(seeds)
    if costly_points is not None:
        changed["costly_points"] = costly_points
    config = MoonsConfig(**{**asdict(config), **changed})
    folder = out or default_folder("moons-quick" if quick else "moons", resume)
    run = run_moons(folder, config, resume=resume, jobs=jobs, progress=True)
    if save is not None:
        _save(run, save)
    _print_results(run, config)


def run_moons(
    folder: str | os.PathLike[str],
    config: MoonsConfig | None = None,
    *,
    resume: bool = False,
    jobs: int | None = None,
    progress: bool = False,
) -> RunFolder:
    """Train, explain, tabulate, draw and report.

    Args:
        folder: of the run.
        config: the complete experiment by default.
        resume: go on with an interrupted run.
        jobs: processes; None: one a CPU.
        progress: show progress bars.

    Example:
        >>> run_moons("out/moons-quick", MoonsConfig.quick())  # doctest: +SKIP
    """
    config = config or MoonsConfig()
    depends_on = {name: value for name, value in asdict(config).items() if name != "methods"}  # more may join later
    run = RunFolder.open(folder, "moons", depends_on, resume=resume)
    shown = Run(progress=progress)
    missing = [net for net in _all_nets(config) if f"net {net.key}" not in run.store]
    if missing:
        with shown.bar(f"training {len(missing)} nets", config.epochs) as bar:
            _train(run.store, missing, config.epochs, bar)
    units = [unit for unit in _units(config) if unit.key not in run.store]
    if units:
        with shown.bar("explaining", len(units)) as bar:
            _explain_all(run.store, config, units, jobs or os.cpu_count() or 1, bar)
    from studies.moons.report import write_report

    with shown.bar("figures and report", 1) as bar:
        write_report(run, config)
        bar.advance()
    return run


# ---- units of work -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """One method on one net: on its test points, or, for the maps, on all its samples.

    Example:
        >>> Unit("geodesic_graph", Moons(0.15, 12)).key
        'geodesic_graph noise=0.15 seed=12'
    """

    method: str
    net: Moons
    mapped: bool = False

    @property
    def key(self) -> str:
        """Names the unit in the store."""
        which = "map " if self.mapped else "balanced " if self.method in COSTLY else ""
        return f"{which}{self.method} {self.net.key}"


def explained(store: Store, unit: Unit) -> Mapping[str, Tensor]:
    """What a finished unit holds: `values` (n, 2); `cancellation`, `completeness_gap`, `change`, `gradients` (n,).

    Example:
        >>> explained(run.store, Unit("geodesic_graph", Moons(0.15, 12)))["values"].shape  # doctest: +SKIP
        torch.Size([2000, 2])
    """
    return store.read(unit.key).arrays


def _all_nets(config: MoonsConfig) -> list[Moons]:
    return list(dict.fromkeys([*config.nets, config.figure_net]))


def _units(config: MoonsConfig) -> Iterator[Unit]:
    """Quick methods first, so that an interrupted run can say most."""
    for method in sorted(config.methods, key=lambda name: name in COSTLY):
        yield from (Unit(method, net) for net in config.nets)
    yield from (Unit(method, config.figure_net, mapped=True) for method in MAPPED)


def _train(store: Store, nets: list[Moons], epochs: int, bar: Bar) -> None:
    begun = time.perf_counter()
    for net, weights in zip(nets, train_together(nets, epochs, bar=bar), strict=True):
        inputs, labels = net.test
        model, baseline = loaded_net(weights), torch.tensor([BASELINE])
        predicted = model(inputs).argmax(1)
        score = lp.Score(model, predicted, "log_softmax")
        start = lp.Score(model, predicted, "log_softmax")(baseline.expand_as(inputs))
        record = {
            "noise": net.noise,
            "seed": net.seed,
            "accuracy": float((predicted == labels).double().mean()),
            "baseline_class": int(model(baseline).argmax()),
            "training_seconds_of_all": time.perf_counter() - begun,
        }
        other = predicted != record["baseline_class"]
        store.write(f"net {net.key}", record, {**weights, "change": score(inputs) - start, "other_class": other})


def _explain_all(store: Store, config: MoonsConfig, units: list[Unit], jobs: int, bar: Bar) -> None:
    """In `jobs` processes, or here if there is one."""
    if jobs == 1 or len(units) == 1:
        for unit in units:
            _explain_one(store, config, unit)
            bar.advance(note=unit.key)
        return
    spawn = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads, which do not survive it
    with ProcessPoolExecutor(min(jobs, len(units)), spawn, initializer=_worker) as pool:
        work: dict[Future[None], Unit] = {
            pool.submit(_explain_in_process, str(store.folder), config, unit): unit for unit in units
        }
        try:
            for done in as_completed(work):
                done.result()
                bar.advance(note=work[done].key)
        except BrokenProcessPool as error:
            raise ChildProcessError(
                "a worker process was killed, perhaps for want of memory: what is finished is kept, go on by --resume"
            ) from error
        except BaseException:
            end_pool(pool)
            raise


def _worker() -> None:
    """One thread, so that processes do not fight over cores."""
    torch.set_num_threads(1)
    begin_worker()


def _explain_in_process(folder: str, config: MoonsConfig, unit: Unit) -> None:
    _explain_one(Store(folder), config, unit)


def _explain_one(store: Store, config: MoonsConfig, unit: Unit) -> None:
    from leastpath.methods import METHODS

    model = net_of(store, unit.net)
    if unit.mapped:
        inputs = config.mapped_inputs
    else:
        other = store.read(f"net {unit.net.key}").arrays["other_class"]
        inputs = unit.net.test[0][config.rows_of(unit.method, other)]
    score = lp.Score(model, model(inputs).argmax(1), "log_softmax")
    begun = time.process_time()
    settings = config.settings_of(unit.method, inputs)
    result = finished(METHODS[unit.method](score, inputs, torch.tensor([BASELINE]), seed=unit.net.seed, **settings))
    assert isinstance(result.values, Tensor)
    record = {"seconds": time.process_time() - begun, "points": len(inputs), "solver": result.solver}
    arrays = {
        "values": result.values,
        "cancellation": result.cancellation,
        "completeness_gap": result.completeness_gap,
        "gradients": result.n_gradients,
        "forwards": result.n_forwards,
        "change": result.score_change,
    }
    store.write(unit.key, record, arrays)


def net_of(store: Store, net: Moons) -> torch.nn.Sequential:
    """A trained net out of a run's store.

    Example:
        >>> net_of(run.store, Moons(0.15, 12))(torch.zeros(1, 2)).argmax()  # doctest: +SKIP
        tensor(1)
    """
    kept = store.read(f"net {net.key}").arrays
    return loaded_net({name: values for name, values in kept.items() if name not in ("change", "other_class")})


# ---- the command's words -----------------------------------------------------------------------------------------


def _known_methods(names: str) -> tuple[str, ...]:
    from leastpath.methods import METHODS

    return tuple(METHODS[name.strip()].name for name in names.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"--seeds {text}: expected whole numbers separated by commas, as in --seeds 12,24") from None


def _save(run: RunFolder, folder: Path) -> None:
    """Table, numbers and figures as moons_*, the pictures in few colours: they are kept under version control."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for file in (run.path / "table.md", run.path / "summary.json"):
        shutil.copyfile(file, folder / f"moons_{file.name}")
    for file in run.figures.glob("*.png"):
        with Image.open(file) as picture:
            picture.convert("RGB").quantize(128).save(folder / f"moons_{file.name}", optimize=True)


def _print_results(run: RunFolder, config: MoonsConfig) -> None:
    from rich.console import Console
    from rich.table import Table

    from studies.moons.table import table_1

    console = Console()
    table = Table(title=f"AUC-purity over noise {config.noises[0]} to {config.noises[-1]}", title_justify="left")
    frame = table_1(run.store, config)
    shown = [name for name in frame.columns if name not in ("gradients", "forwards", "CPU s a net")]
    for column in shown:
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in frame[shown].itertuples(index=False):
        table.add_row(*map(str, row))
    console.print(table)
    console.print(f"report: {run.path / 'report.html'}", soft_wrap=True)
