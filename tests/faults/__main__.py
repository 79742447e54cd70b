"""`python -m faults --times 50 --minutes 5`: Ctrl-C at random moments of all that takes long, and a soak of jobs and of
the explorer, which share the minutes, with a fault in every round."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import torch

from faults.load import WORK, press_at_random
from faults.soak import soak_explorer, soak_jobs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--times", type=int, default=50, help="that Ctrl-C is pressed")
    parser.add_argument("--minutes", type=float, default=5.0, help="of the soak")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    broken = press_ctrl_c(given.times, given.seed) if given.times else False
    for name, soak in {"jobs": soak_jobs, "explorer": soak_explorer}.items() if given.minutes else ():
        tally = soak(after(30 * given.minutes), given.seed)
        broken |= not tally.ok
        print(f"{name:<20} {'' if tally.ok else 'BROKEN: '}{tally}", flush=True)
    return int(broken)


def press_ctrl_c(times: int, seed: int) -> bool:
    """Whether a promise was broken."""
    broken = False
    for name, make in WORK.items():
        try:
            tally = press_at_random(make(), times, seed)
            print(f"{name:<20} {tally.interrupted} interrupted, {tally.finished} finished before, nothing left behind")
        except AssertionError as error:
            broken = True
            print(f"{name:<20} BROKEN: {error}")
        sys.stdout.flush()
    return broken


def after(seconds: float) -> Callable[[int], bool]:
    """Whether the time is over."""
    end = time.monotonic() + seconds
    return lambda _: time.monotonic() > end


if __name__ == "__main__":
    sys.exit(main())
