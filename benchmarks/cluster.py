"""What a million rows and a hundred thousand photographs take on 32 nodes: a simulation, fed with measured unit costs.

    python benchmarks/cluster.py [--nodes 32] [--cores 32] [--deaths 0.05] [--slow 0.1]

Nobody here has a cluster. Simulated is what `leastpath.jobs` does: one worker a core takes the next shard when it is
done with one, a shard is written whole or not at all, a node that dies loses the shards that it was at, and another
worker does them again. Unit costs are those that `benchmarks/jobs.py` and `benchmarks/cost.py` measured on one machine
(docs/scale.md, docs/cost.md). The first line repeats the run with two workers from which the cost of a row was taken.
Drawn, with a fixed seed: how much the inputs of a shard take (the 90 % point of the measured spread), which nodes are
slow (half as fast), and when nodes die (a share of the nodes in each hour). The shared folder takes writes one after
another, at the speed given.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from dataclasses import dataclass

START = 6.0  # seconds until a worker has imported everything and loaded its model
RETURN = 60.0  # seconds until a dead node's shards are given to others
DISK = 1.0e9  # bytes a second of the shared folder


@dataclass(frozen=True)
class Work:
    """A data set and what one input takes of one core."""

    name: str
    inputs: int
    shard: int
    seconds: float  # the median input
    spread: float  # of its logarithm: 0 where all take the same
    size: float  # bytes written for an input


WORK = (
    # 556 s for 10⁶ rows by two workers, of which each needs START: docs/scale.md
    Work("10⁶ rows, straight line", 1_000_000, 8192, 2 * 550 / 1e6, 0.0, 90.0),
    Work("the same in shards of 512", 1_000_000, 512, 2 * 550 / 1e6, 0.0, 90.0),
    Work("10⁶ rows, neighbour graph", 1_000_000, 8192, 2 * 2058 / 1e6, 0.0, 110.0),
    # gradients in the median and at the 90 % point, at .08 s each: docs/cost.md
    Work("10⁵ photographs, line to tolerance .01", 100_000, 64, 96 * 0.08, math.log(168 / 96) / 1.2816, 100_352.0),
    Work("10⁵ photographs, the same in shards of 16", 100_000, 16, 96 * 0.08, math.log(168 / 96) / 1.2816, 100_352.0),
    Work("10⁵ photographs, IG of 50 steps", 100_000, 64, 50 * 0.08, 0.0, 100_352.0),
    # 650 forwards from each of two baselines, a third of a gradient each
    Work("10⁵ photographs, staircases", 100_000, 64, 1300 * 0.08 / 3, 0.0, 100_352.0),
)


def simulate(work: Work, nodes: int, cores: int, deaths: float, slow: float, seed: int = 0) -> tuple[float, float, int]:
    """Hours from start to the last shard, the share of core time that was of use, and shards done twice."""
    draw = random.Random(seed)  # noqa: S311
    speed = [0.5 if draw.random() < slow else 1.0 for _ in range(nodes)]
    dies = [draw.expovariate(deaths / 3600) if deaths else math.inf for _ in range(nodes)]
    waiting = [(0.0, i) for i in range(-(-work.inputs // work.shard))]  # since when each shard may be begun
    heapq.heapify(waiting)
    free = [(START, node, core) for node in range(nodes) for core in range(cores)]
    heapq.heapify(free)
    useful, disk, end, again = 0.0, 0.0, 0.0, 0
    while waiting:
        begin, node, core = heapq.heappop(free)
        since, shard = heapq.heappop(waiting)
        begin = max(begin, since)
        if begin >= dies[node]:  # this node is gone
            heapq.heappush(waiting, (since, shard))
            continue
        n = min(work.shard, work.inputs - shard * work.shard)
        own = random.Random(f"{seed} {shard}")  # noqa: S311
        # the sum over a shard of numbers with a logarithmic spread, by its mean and deviation
        mean, s2 = math.exp(work.spread**2 / 2), math.exp(work.spread**2) - 1
        amount = n * work.seconds * mean * max(0.1, own.gauss(1.0, math.sqrt(s2 / n)))
        done = begin + amount / speed[node]
        if done >= dies[node]:
            heapq.heappush(waiting, (dies[node] + RETURN, shard))
            again += 1
            continue
        disk = max(disk, done) + n * work.size / DISK
        useful, end = useful + amount, max(end, disk)
        heapq.heappush(free, (disk, node, core))
    return end / 3600, useful / (end * nodes * cores), again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--cores", type=int, default=32)
    parser.add_argument("--deaths", type=float, default=0.05, help="share of the nodes that die in an hour")
    parser.add_argument("--slow", type=float, default=0.1, help="share of the nodes that are half as fast")
    given = parser.parse_args()
    hours, share, _ = simulate(WORK[0], 1, 2, 0.0, 0.0)
    print(
        f"check: {WORK[0].name}, two workers of one machine: {hours * 3600:.0f} s (measured: 556 s), {share:.2f} of use"
    )
    print(f"{given.nodes} nodes of {given.cores} cores, {given.deaths:.0%} die an hour, {given.slow:.0%} half as fast")
    print(f"{'':42} {'core hours':>10} {'minutes':>8} {'ideal':>7} {'of use':>7} {'shards again':>13}")
    for work in WORK:
        hours, share, again = simulate(work, given.nodes, given.cores, given.deaths, given.slow)
        alone = work.inputs * work.seconds * math.exp(work.spread**2 / 2) / 3600
        ideal = 60 * alone / (given.nodes * given.cores)
        print(f"{work.name:42} {alone:10.1f} {60 * hours:8.1f} {ideal:7.1f} {share:7.2f} {again:13}")


if __name__ == "__main__":
    main()
