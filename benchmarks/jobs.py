"""What jobs cost and how they scale.

    python benchmarks/jobs.py [throughput] [overhead] [flagged] [million CSV] [images] [--rows N] [--save DIR]
        [--pictures DIR]

throughput: two single-threaded worker processes beside one, on a CNN. overhead: the job layer beside a plain loop, on
the same CNN. flagged: which share of the rows of a small table needs a second look, by method.
million: a table of people (such as UCI Adult, plain or .gz), repeated with noise to a million rows, and
explained along straight lines and a neighbour graph; memory of the workers, and the time to open the output. images:
seconds of a gradient of EfficientNet-lite0 at 224², for the estimate in docs/scale.md (needs that package).

Each figure comes with the machine's load: on a busy machine wall-clock times mean little, CPU times still do.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import leastpath as lp
from leastpath import jobs
from leastpath.jobs.executors import Executor
from leastpath.jobs.shards import Assignment
from leastpath.methods import METHODS

SIDE, STEPS = 64, 20
FIXED = {"tolerance": None, "n_steps": STEPS}


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


# ---- a CNN -------------------------------------------------------------------------------------------------------


def cnn() -> nn.Module:
    torch.manual_seed(0)
    widths = (3, 16, 32, 64)
    blocks = [
        layer
        for a, b in itertools.pairwise(widths)
        for layer in (nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    ]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(64 * (SIDE // 8) ** 2, 10)).eval()


class Noise:
    """Pictures of noise, made where they are needed."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> Tensor:
        return torch.rand(3, SIDE, SIDE, generator=torch.Generator().manual_seed(i))


def cnn_job(out: Path, n: int, shard: int = 64, batch: int = 32) -> jobs.Job:
    source = jobs.source_of(Noise(n))
    settings = {"method_settings": FIXED, "target": 3, "shard_size": shard, "batch_size": batch, "threads": 1}
    return jobs.Job(source, cnn, "integrated_gradients", out, **settings)


def steady(executor: Executor, workers: int, n: int) -> tuple[float, float]:
    """Rows a second once every worker has done a shard, and over all, with the start of the workers."""
    with tempfile.TemporaryDirectory() as folder:
        job = cnn_job(Path(folder), n)
        work, times = Assignment(job, job.config()), []
        begin = time.perf_counter()
        for _ in executor.run(work, range(job.n_shards), lambda: False):
            times.append(time.perf_counter())
    warm = times[workers - 1]
    return (job.n_shards - workers) * job.shard_size / (times[-1] - warm), n / (times[-1] - begin)


def throughput(n: int = 768, repeats: int = 3) -> None:
    """One and two workers in turn, so that a change of the machine's load meets both."""
    rates: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(repeats):
        for workers in (1, 2):
            rates[workers].append(steady(jobs.Processes(workers), workers, n))
    one, two = (np.median(np.array(rates[workers]), axis=0) for workers in (1, 2))
    print(f"throughput, {n} pictures {SIDE}², {STEPS} gradients each, {load()}")
    print(f"  1 worker  {one[0]:7.1f} rows/s steady, {one[1]:7.1f} with its start")
    print(f"  2 workers {two[0]:7.1f} rows/s steady, {two[1]:7.1f} with their start")
    print(f"  ratio     {two[0] / one[0]:.2f} steady, {two[1] / one[1]:.2f} with starts (wanted: at least 1.7)")


def overhead(n: int = 128, repeats: int = 5) -> None:
    """A plain loop that keeps values in memory, and the same batches through the job layer, in turn."""
    torch.set_num_threads(1)
    net, data = cnn(), Noise(n)
    method = METHODS["integrated_gradients"].with_settings(**FIXED)

    def plain(_: Path) -> None:
        kept = []
        for start in range(0, n, 32):
            inputs = torch.stack([data[i] for i in range(start, start + 32)])
            kept.append(method(lp.Score(net, 3), inputs).values)

    def job(folder: Path) -> None:
        made = cnn_job(folder, n)
        list(jobs.InProcess().run(Assignment(made, config), range(made.n_shards), lambda: False))

    config = cnn_job(Path("unused"), n).config()
    spent: dict[str, list[tuple[float, float]]] = {"plain": [], "job": []}
    for _ in range(repeats):
        for name, run in (("plain", plain), ("job", job)):
            with tempfile.TemporaryDirectory() as folder:
                cpu, wall = time.process_time(), time.perf_counter()
                run(Path(folder))
                spent[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    least = {name: np.array(times).min(0) for name, times in spent.items()}  # the least disturbed of each
    print(f"overhead of the job layer, {n} pictures {SIDE}², {STEPS} gradients each, {load()}")
    for column, kind in enumerate(("CPU", "wall")):
        a, b = least["plain"][column], least["job"][column]
        print(f"  {kind:4} seconds: loop {a:.3f}, job {b:.3f}: {100 * (b / a - 1):+.1f} % (wanted: at most 5 %)")


# ---- a million rows ----------------------------------------------------------------------------------------------


def people(csv: Path) -> tuple[np.ndarray, np.ndarray]:
    """The table in numbers, columns of words as codes, standardised; the last column as labels 0 and 1."""
    import pandas as pd

    frame = pd.read_csv(csv)
    label = frame.pop(frame.columns[-1])
    codes = frame.apply(lambda column: column if column.dtype.kind in "iuf" else column.astype("category").cat.codes)
    x = codes.to_numpy(np.float32)
    return (x - x.mean(0)) / (x.std(0) + 1e-6), label.astype("category").cat.codes.to_numpy(np.int64)


def trained(x: np.ndarray, y: np.ndarray) -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    inputs, labels = torch.as_tensor(x), torch.as_tensor(y)
    optimiser = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(3):
        for rows in torch.randperm(len(x)).split(256):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(inputs[rows]), labels[rows]).backward()
            optimiser.step()
    accuracy = float((net(inputs).argmax(1) == labels).float().mean())
    print(f"  MLP on {x.shape[0]} people × {x.shape[1]} columns: accuracy {accuracy:.3f}")
    return net.eval()


def written(x: np.ndarray, rows: int, folder: Path) -> Path:
    """Rows repeated with noise, as parquet parts of 100,000."""
    import pandas as pd

    rng = np.random.default_rng(0)
    folder.mkdir()
    for part, start in enumerate(range(0, rows, 100_000)):
        chosen = x[rng.integers(0, len(x), min(100_000, rows - start))]
        noisy = chosen + 0.1 * rng.standard_normal(chosen.shape, np.float32)
        frame = pd.DataFrame(noisy, columns=[f"c{i}" for i in range(x.shape[1])])
        frame.to_parquet(folder / f"part-{part:04d}.parquet", row_group_size=20_000)
    return folder


def load_net(file: str, features: int) -> nn.Module:
    net = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    net.load_state_dict(torch.load(file, weights_only=True))
    return net.eval()


class AlongGraph:
    """A graph that was built once and is loaded by each worker."""

    def __init__(self, file: str) -> None:
        self.file, self.graph = file, None

    def __getstate__(self) -> dict[str, str | None]:
        return {"file": self.file, "graph": None}

    def __call__(self, score: lp.Score, inputs: Tensor, baselines: Tensor, seed: int) -> lp.Attribution:
        self.graph = self.graph or lp.Graph.load(self.file)
        return lp.attribute(score, inputs, baselines, method=self.graph, seed=seed, **FIXED)


def million(csv: Path, rows: int, folder: Path, workers: int = 2) -> None:
    """Straight line and neighbour graph over a long table, in bounded memory."""
    print(f"{rows:,} rows of {csv.name}, {STEPS} gradients per path, {workers} workers, {load()}")
    x, y = people(csv)
    net = trained(x, y)
    torch.save(net.state_dict(), folder / "net.pt")
    data = written(x, rows, folder / "data")
    zero = torch.zeros(1, x.shape[1])
    graph = lp.NeighborGraph(torch.as_tensor(x[:2000]), 10).build(lp.Score(net, 1, "log_softmax"), lp.Conformal(), zero)
    graph.save(folder / "graph.npz")
    factory = {"model_factory": load_net, "model_settings": {"file": str(folder / "net.pt"), "features": x.shape[1]}}
    for name, method, settings in (
        ("straight line", "integrated_gradients", FIXED),
        ("neighbour graph", AlongGraph(str(folder / "graph.npz")), {}),
    ):
        begin = time.perf_counter()
        found = jobs.explain(
            data,
            method=method,
            method_settings=settings,
            out=folder / name.replace(" ", "-"),
            target=1,
            baselines=zero,
            output="log_softmax",
            shard_size=8192,
            batch_size=4096,
            executor="processes",
            workers=workers,
            **factory,
        )
        seconds = time.perf_counter() - begin
        cpu = sum(shard.record["seconds"] for shard in found.shards)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20  # of the largest worker so far
        begin = time.perf_counter()
        found = jobs.open(found.store.folder)
        opening = time.perf_counter() - begin
        index = found.rows.to_table(columns=["index"])["index"].to_numpy()
        assert found.finished and (index == np.arange(rows)).all()
        size = sum(p.stat().st_size for p in (found.store.folder / "units").iterdir()) / 1e9
        print(
            f"  {name}: {seconds:.0f} s ({rows / seconds:.0f} rows/s; {cpu:.0f} worker seconds), peak memory of a "
            f"worker {peak:.2f} GB (wanted: < 2), {size:.2f} GB on disk, opened in {opening:.3f} s (wanted: < 1), "
            f"{int(found.rows.count_rows(filter=None)):,} rows, each once; {load()}"
        )


# ---- pictures ----------------------------------------------------------------------------------------------------


def images(pictures: Path | None) -> None:
    """Seconds of a gradient, and of writing and checking a shard, for the estimate in the documentation."""
    from leastpath._support.store import Store
    from leastpath.commands.classifier import EfficientNetLite0

    torch.set_num_threads(1)
    net, noise = EfficientNetLite0(), torch.rand(8, 3, 224, 224)
    score = lp.Score(net, 0, "log_softmax").bind(noise)
    times, walls = [], []
    for _ in range(5):
        cpu, wall = time.process_time(), time.perf_counter()
        score.gradients(noise, torch.arange(8))
        times.append((time.process_time() - cpu) / 8)
        walls.append((time.perf_counter() - wall) / 8)
    print(f"EfficientNet-lite0 at 224², one thread, {load()}")
    print(f"  a gradient of one picture: {min(times):.3f} CPU s, {min(walls):.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        store, values = Store(folder, {}), {"values": torch.rand(64, 224, 224).half()}
        cpu, wall = time.process_time(), time.perf_counter()
        store.write("shard", {}, values)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        size = store.path("shard").stat().st_size / 1e6
        print(f"  writing 64 maps of float16: {cpu:.3f} CPU s, {wall:.3f} s, {size:.1f} MB")
        cpu = time.process_time()
        store.read("shard")
        print(f"  checking them: {time.process_time() - cpu:.3f} CPU s")
    if pictures is not None:
        pilot(jobs.source_of(pictures).read(0, 4).inputs, net)


def pilot(inputs: Tensor, net: nn.Module) -> None:
    """What a picture takes: a few of them tell what a million will cost."""
    score = lp.Score(net, net(inputs).argmax(1), "log_softmax")
    for name in ("integrated_gradients", "geodesic_descent"):
        cpu = time.process_time()
        found = METHODS[name](score, inputs)
        seconds = (time.process_time() - cpu) / len(inputs)
        print(f"  {name}: {found.n_gradients.double().mean():.0f} gradients and {seconds:.1f} CPU s a picture")


def flagged() -> None:
    """Scikit-learn's breast cancer table and a small net: the rows that a job's report would ask to look at again."""
    from sklearn.datasets import load_breast_cancer

    table, labels = load_breast_cancer(return_X_y=True)
    x = torch.tensor((table - table.mean(0)) / table.std(0)).float()
    y = torch.tensor(labels)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    x, y = x[::8], y[::8]
    contenders = (("geodesic_descent", {}), ("elastic_band", {}), ("integrated_gradients", {"support": True}))
    for output in ("log_softmax", "logit_margin"):
        for method, settings in contenders:
            result = METHODS[method](lp.Score(net.eval(), y, output), x, max_gradients=500, **settings)
            doubtful = sum(not status.ok for status in result.status)
            untrue = sum(lp.Outcome.UNSUPPORTED in status for status in result.status)
            print(
                f"{output} {method}: {doubtful / len(x):.0%} of {len(x)} rows need a second look, "
                f"{untrue / len(x):.0%} by support; median support {float(result.support.nanmedian()):.2f}, "
                f"{float(result.n_gradients.double().mean()):.0f} gradients per row",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["throughput", "overhead"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--save", type=Path, help="keep the million's output here")
    parser.add_argument("--pictures", type=Path, help="a folder, four of whose pictures are explained by `images`")
    given = parser.parse_args()
    words = list(given.what)
    while words:
        word = words.pop(0)
        if word == "million":
            folder = given.save or Path(tempfile.mkdtemp())
            folder.mkdir(parents=True, exist_ok=True)
            million(Path(words.pop(0)), given.rows, folder)
            if given.save is None:
                shutil.rmtree(folder)
        elif word == "images":
            images(given.pictures)
        elif word in ("throughput", "overhead", "flagged"):
            {"throughput": throughput, "overhead": overhead, "flagged": flagged}[word]()
        else:
            parser.error(f"{word!r} is no benchmark: throughput, overhead, flagged, million CSV or images")


if __name__ == "__main__":
    main()
