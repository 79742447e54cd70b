"""`python -m fuzz --minutes 5`: look for calls and files that are neither right nor refused in a sentence.

What is found is made as small as it goes and kept in `tests/fuzz/found`, where `test_fuzz.py` tries it again in every
run of the suite. The command ends with 1 if something was found.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from fuzz.search import SEARCHES, Found, keep, search


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
    print(f"seed {seed}", flush=True)
    while time.monotonic() < until:
        for name in chosen:
            search_apart(name, rounds.randrange(2**32), counts, found, min(until, time.monotonic() + 30))
    verdicts = ", ".join(f"{n:,} {verdict}" for verdict, n in counts.items())
    print(f"{sum(counts.values()):,} cases in {given.minutes:g} minutes: {verdicts}")
    for (name, signature), recipe in found.items():
        print(f"{keep(name, recipe, signature)}: {signature}")
    return 1 if found else 0


def search_apart(name: str, seed: int, counts: Counter[str], found: Found, until: float) -> None:
    """A round of 200 cases in a process of its own: a case that ends the process is a finding, and not the end."""
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        last = Path(folder) / "last.json"

        def work() -> None:
            torch.set_num_threads(1)
            own_counts, own_found = Counter[str](), {}
            search(name, seed, 200, own_counts, own_found, until, last)
            results.put((own_counts, own_found))

        process = fork.Process(target=work)
        process.start()
        while process.is_alive() and results.empty():
            time.sleep(0.05)
        if results.empty():
            process.join()
            counts["crash"] += 1
            found[name, f"crash: the process ended with {process.exitcode}"] = json.loads(last.read_text())
            return
        own_counts, own_found = results.get()
        process.join()
    counts.update(own_counts)
    for signature, recipe in own_found.items():
        found.setdefault(signature, recipe)


if __name__ == "__main__":
    sys.exit(main())
