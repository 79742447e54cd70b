"""The paper's half-moons experiment, from training to Table 1 and the figures.

65 nets (13 noise levels × 5 seeds) are trained together; ten methods explain the log-probability of the predicted class
of each net's test points; a method is judged by its purity (see `table`) and by how much its attributions cancel.
Every net and every (method, net) is a unit of the run's store: what is finished is never computed again.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict

import torch
from torch import Tensor

import leastpath as lp
from leastpath._support.store import Store
from leastpath.account.run import Bar, Run
from leastpath.commands.run_folder import RunFolder
from leastpath.jobs.executors import begin_worker, end_pool
from leastpath.methods import METHODS
from leastpath.result.status import finished
from studies.moons.config import BASELINE, COSTLY, MAPPED, MoonsConfig
from studies.moons.report import write_report
from studies.moons.results import MethodOnNet, net_of
from studies.moons.training import Moons, loaded_net, train_together


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
    with shown.bar("figures and report", 1) as bar:
        write_report(run, config)
        bar.advance()
    return run


def _all_nets(config: MoonsConfig) -> list[Moons]:
    return list(dict.fromkeys([*config.nets, config.figure_net]))


def _units(config: MoonsConfig) -> Iterator[MethodOnNet]:
    """Quick methods first, so that an interrupted run can say most."""
    for method in sorted(config.methods, key=lambda name: name in COSTLY):
        yield from (MethodOnNet(method, net) for net in config.nets)
    yield from (MethodOnNet(method, config.figure_net, mapped=True) for method in MAPPED)


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


def _explain_all(store: Store, config: MoonsConfig, units: list[MethodOnNet], jobs: int, bar: Bar) -> None:
    """In `jobs` processes, or here if there is one."""
    if jobs == 1 or len(units) == 1:
        for unit in units:
            _explain_one(store, config, unit)
            bar.advance(note=unit.key)
        return
    spawn = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads, which do not survive it
    with ProcessPoolExecutor(min(jobs, len(units)), spawn, initializer=_worker) as pool:
        work: dict[Future[None], MethodOnNet] = {
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


def _explain_in_process(folder: str, config: MoonsConfig, unit: MethodOnNet) -> None:
    _explain_one(Store(folder), config, unit)


def _explain_one(store: Store, config: MoonsConfig, unit: MethodOnNet) -> None:
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
    record = {"seconds": time.process_time() - begun, "points": len(inputs), "solver": result.method}
    arrays = {
        "values": result.values,
        "cancellation": result.cancellation,
        "completeness_gap": result.completeness_gap,
        "gradients": result.n_gradients,
        "forwards": result.n_forwards,
        "change": result.score_change,
    }
    store.write(unit.key, record, arrays)
