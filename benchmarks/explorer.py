"""How long the explorer's first picture of a 224-pixel photograph takes, against two straight-line integrals.

python benchmarks/explorer.py [repeats]

Both are measured side by side, in turn, in one run. A straight-line integral is `attribute` with StraightLine() and 50
fixed steps. The first picture is all that the page waits for: 41 gradients, the walk, the removal curves of every fill,
and the result as JSON.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch

import leastpath as lp
from leastpath.commands.explore_samples import sample_source
from leastpath.explorer.arrays import as_json
from leastpath.explorer.opening import session_of


def main(repeats: int) -> None:
    torch.set_num_threads(1)
    source, sentence = sample_source("photos")
    print(sentence)
    firsts, integrals = [], []
    for _ in range(repeats):
        session = session_of(source)  # a new one: nothing is kept from before
        question = session._question
        began = time.perf_counter()
        for _ in range(2):
            lp.attribute(
                question.score, question.subject.inputs, question.baselines, solver=lp.StraightLine(), tolerance=None,
                n_steps=50,
            )  # fmt: skip
        integrals.append(time.perf_counter() - began)
        began = time.perf_counter()
        job = session.explain("integrated_gradients")
        job.finished.wait()
        as_json(session.result(job.result))
        firsts.append(time.perf_counter() - began)
        session.close()
    ratios = [first / two for first, two in zip(firsts, integrals, strict=True)]
    print(f"first picture {statistics.median(firsts):.2f} s, two integrals {statistics.median(integrals):.2f} s")
    print(
        f"ratio: median {statistics.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}; below 1 is good"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
