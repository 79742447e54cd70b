"""What an explanation costs: gradients of each part, seconds beside Captum's Integrated Gradients, and memory.

    python benchmarks/cost.py IMAGES [--count 24] [--size 128] [--outputs softmax log_softmax] [--solvers line …]
                              [--ready] [--ranks] [--tolerance .01]
    python benchmarks/cost.py --memory
    python benchmarks/cost.py --system PHOTOGRAPH [--methods integrated_gradients,idgi]

The first prints medians over photographs, the 90 % point of the total, and CPU seconds with one thread as a ratio to
Captum's IG with 50 steps on the same picture in the same run, with as many rows in a model call. `--ready` adds those
with the model made ready by `lp.prepare`, and `--ranks` the rank correlation of the values with those at a tolerance of
.001, which takes a thousand gradients more. "alone" is the time without the test by removal. The net is
EfficientNet-lite0 as published. "× IG" counts gradients in units of 50.
The second prints the peak memory of one path integral at 100, 1,000 and 10,000 gradients, each in a process of its own,
as a ratio to that at 100: one example and sixteen, a straight line and a bent path.
The third prints the system's time as a share of the user's, of the whole command `leastpath explain PHOTOGRAPH`.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from photographs import picture_files
from scipy.stats import spearmanr
from torch import Tensor

import leastpath as lp
from leastpath.commands.classifier import EfficientNetLite0
from leastpath.features.images import read_image

Result = TypeVar("Result")
IG_STEPS = 50
SOLVERS: dict[str, lp.Solver] = {
    "line": lp.StraightLine(),
    "band": lp.ElasticBand(groups="pixels"),
    "descent": lp.Descent(),
}
PARTS = ("solver_gradients", "value_gradients", "length_gradients", "line_gradients")
MEMORY_SIZE = 64  # pixels per side
MEMORY_BUDGETS = (100, 1000, 10_000)
MEMORY_CASES = {"1 straight": (1, 2), "1 bent": (1, 6), "16 straight": (16, 2), "16 bent": (16, 6)}


def costs(
    net: torch.nn.Module, ready: lp.Prepared | None, file: Path, size: int, output: str, solver: lp.Solver, ranks: bool,
    tolerance: float = 0.01,
) -> dict[str, float]:  # fmt: skip
    """One photograph: gradients and forwards of each part, and seconds relative to Captum's IG with 50 steps."""
    from captum.attr import IntegratedGradients

    image = read_image(file, size)
    target = int(net(image).argmax())

    def explained(model: torch.nn.Module, **how: Any) -> lp.Attribution:
        how = {"tolerance": tolerance, **how}
        return lp.attribute(lp.Score(model, target, output), image, 0.0, method=solver, **how)

    rows = lp.Score(net, target).bind(image).batch_size
    _, ig = timed(
        lambda: IntegratedGradients(net).attribute(image, target=target, n_steps=IG_STEPS, internal_batch_size=rows)
    )
    _, alone = timed(lambda: explained(net, support=False))
    result, seconds = timed(lambda: explained(net))
    agreement = np.nan
    if ranks:
        exact = explained(net, support=False, tolerance=0.001, measure="values")
        agreement = float(spearmanr(*(np.asarray(of.values).ravel() for of in (result, exact)))[0])
    return {
        **{part: float(result.stats[part]) for part in PARTS}, "forwards": float(result.n_forwards),
        "total": float(result.n_gradients), "time": seconds / ig, "alone": alone / ig,
        "ratio": float(result.length_ratio), "ranks": agreement,
        "ready": timed(lambda: explained(ready))[1] / ig if ready is not None else np.nan,
        "reached": float(lp.Outcome.REACHED in result.status[0]),
    }  # fmt: skip


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """What a call gives, and the CPU seconds it takes."""
    begin = time.process_time()
    result = call()
    return result, time.process_time() - begin


def table(rows: dict[tuple[str, str], list[dict[str, float]]]) -> None:
    """Medians, and the worst agreement of ranks, one line an output and solver."""
    print(
        f"{'output':12} {'solver':8} {'images':>6} {'path':>6} {'values':>7} {'length':>7} {'line':>6} {'forwards':>8} "
        f"{'total':>6} {'90 %':>6} {'× IG':>6} {'time × IG':>9} {'alone':>5} {'ready':>5} {'ratio':>7} {'reached':>7} "
        f"{'ranks':>6}"
    )
    for (output, solver), some in rows.items():
        median = {name: float(np.median([row[name] for row in some])) for name in some[0]}
        high = float(np.quantile([row["total"] for row in some], 0.9))
        print(
            f"{output:12} {solver:8} {len(some):6} {median['solver_gradients']:6.0f} {median['value_gradients']:7.0f} "
            f"{median['length_gradients']:7.0f} {median['line_gradients']:6.0f} {median['forwards']:8.0f} "
            f"{median['total']:6.0f} {high:6.0f} {median['total'] / IG_STEPS:6.1f} {median['time']:9.1f} "
            f"{median['alone']:5.1f} {median['ready']:5.1f} {median['ratio']:7.4f} "
            f"{np.mean([row['reached'] for row in some]):7.0%} {min(row['ranks'] for row in some):6.3f}"
        )


# ---- memory ----------------------------------------------------------------------------------------------------------


def rough(x: Tensor) -> Tensor:
    """A score with so many kinks that no budget is enough; it needs next to no memory itself."""
    flat = x.flatten(1)
    return (flat * 300).sin().abs().mean(1)


def peak_of_one(case: str, budget: int) -> float:
    """Peak memory of this process in MB, after one integral with all of a budget."""
    torch.set_num_threads(1)
    examples, knots = MEMORY_CASES[case]
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(examples, knots, 3, MEMORY_SIZE, MEMORY_SIZE, generator=generator)
    lp.integrate(lp.Score(rough, batch_size=16), lp.Path.polyline(points), max_gradients=budget)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory_table() -> None:
    """Each case in a process of its own: a peak never goes down again."""
    print(f"{'case':12} {'gradients':>9} {'peak MB':>8} {'to 100':>7}")
    for case in MEMORY_CASES:
        first = None
        for budget in MEMORY_BUDGETS:
            command = [sys.executable, __file__, "--one", case, str(budget)]
            peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            first = first or peak
            print(f"{case:12} {budget:9,} {peak:8.0f} {peak / first:7.3f}", flush=True)


def system_share(photograph: Path, methods: str | None) -> None:
    """The whole command in a process of its own, with as many threads as it takes by itself."""
    given = [] if methods is None else ["--methods", methods]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "leastpath", "explain", str(photograph), "--out", f"{folder}/out", *given]
        subprocess.run(command, check=True, capture_output=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    user, system, faults = used.ru_utime, used.ru_stime, used.ru_minflt
    print(f"user {user:.1f} s, system {system:.1f} s, {system / user:.3f} of it; {faults:,} pages mapped")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path, nargs="?")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--outputs", nargs="+", default=["softmax", "log_softmax"])
    parser.add_argument("--solvers", nargs="+", choices=list(SOLVERS), default=list(SOLVERS))
    parser.add_argument("--ready", action="store_true", help="also with the model made ready")
    parser.add_argument("--ranks", action="store_true", help="compare with a tolerance of .001")
    parser.add_argument("--tolerance", type=float, default=0.01)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--system", type=Path, metavar="PHOTOGRAPH")
    parser.add_argument("--methods", help="of --system; those of `leastpath explain` by default")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(peak_of_one(arguments.one[0], int(arguments.one[1])))
        return
    if arguments.memory:
        memory_table()
        return
    if arguments.system:
        system_share(arguments.system, arguments.methods)
        return
    if arguments.images is None:
        parser.error("give a folder of photographs, --memory or --system")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    files = picture_files(arguments.images)
    files = files[:: max(1, len(files) // arguments.count)][: arguments.count]
    net = EfficientNetLite0(folded=False)
    ready = lp.prepare(net, read_image(files[0], arguments.size)) if arguments.ready else None
    if ready is not None:
        print(ready.report)
    rows = dict[tuple[str, str], list[dict[str, float]]]()
    for output in arguments.outputs:
        for name in arguments.solvers:
            how = arguments.size, output, SOLVERS[name], arguments.ranks, arguments.tolerance
            rows[output, name] = [costs(net, ready, file, *how) for file in files]
            table({(output, name): rows[output, name]})
    table(rows)


if __name__ == "__main__":
    main()
