"""`python -m faults --times 50`: Ctrl-C at random moments of all that takes long."""

from __future__ import annotations

import argparse
import sys

import torch

from faults.load import WORK, press_at_random


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    broken = False
    for name, make in WORK.items():
        try:
            tally = press_at_random(make(), given.times, given.seed)
            print(f"{name:<20} {tally.interrupted} interrupted, {tally.finished} finished before, nothing left behind")
        except AssertionError as error:
            broken = True
            print(f"{name:<20} BROKEN: {error}")
        sys.stdout.flush()
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
