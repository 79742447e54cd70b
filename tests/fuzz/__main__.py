"""`python -m fuzz --minutes 5`: look for calls and files that are neither right nor refused in a sentence.

What is found is made as small as it goes and kept in `tests/fuzz/found`, where `test_fuzz.py` tries it again in every
run of the suite. The command ends with 1 if something was found.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

import torch

from fuzz.search import SEARCHES, keep, search


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="of what is drawn; the clock's by default")
    parser.add_argument("--only", choices=list(SEARCHES), help="one kind of case")
    given = parser.parse_args()
    torch.set_num_threads(1)
    seed = given.seed if given.seed is not None else time.time_ns() % 10**9
    until, chosen = time.monotonic() + 60 * given.minutes, [given.only] if given.only else list(SEARCHES)
    counts, found, rounds = Counter[str](), {}, random.Random(seed)
    while time.monotonic() < until:
        for name in chosen:
            search(name, rounds.randrange(2**32), 200, counts, found, min(until, time.monotonic() + 30))
    verdicts = ", ".join(f"{n:,} {verdict}" for verdict, n in counts.items())
    print(f"seed {seed}, {sum(counts.values()):,} cases in {given.minutes:g} minutes: {verdicts}")
    for (name, signature), recipe in found.items():
        print(f"{keep(name, recipe, signature)}: {signature}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
