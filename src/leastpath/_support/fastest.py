"""Trials of speed: the clock that they read, and the size of a batch that takes the least time per row."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

GAIN = 0.97  # a larger batch must save at least 3 % of the time per row: it also takes more memory
PATIENCE = 4  # times the best size so far: no larger one is tried


def clock_of(device: torch.device) -> Callable[[], float]:
    """Seconds, for trials on a device.

    Where the program computes in one thread of the CPU, it is the time that this program has had, which leaves out what
    other programs take. Otherwise it is the time of day, after all that the device has to do.
    """
    if device.type == "cpu":
        return time.process_time if torch.get_num_threads() == 1 else time.perf_counter

    def after_all() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter()

    return after_all


def fastest_size(seconds: Callable[[int], float | None], largest: int, limit: float = 1.0) -> int:
    """The size, from 1 to `largest`, with the least time per row: sizes are doubled while that helps.

    Args:
        seconds: how long a batch of a size takes; None where it does not fit in memory.
        largest: allowed.
        limit: seconds that the trial may take; a size that has begun is finished.
    """
    best, rate, size, begin = 1, float("inf"), 1, time.perf_counter()
    while True:
        taken = seconds(size)
        if taken is None:
            return best
        if taken / size < GAIN * rate:
            best, rate = size, taken / size
        if size >= min(largest, PATIENCE * best) or time.perf_counter() - begin > limit:
            return best
        size = min(2 * size, largest)
