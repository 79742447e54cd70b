"""Work that takes long, interrupted at random moments: the verb, the verdict, a language model, photographs.

Ctrl-C is raised as such, the model is what it was before, and the next call gives what an undisturbed one gives.
"""

from __future__ import annotations

import random
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

import leastpath as lp
from helpers import flat_points, left_untouched, mlp, seeded
from invariants.columns import assert_same, lived_in


@dataclass(frozen=True)
class Work:
    """Something long: a model, and what is done with it."""

    model: nn.Module
    do: Callable[[nn.Module], list[Tensor]]


@dataclass
class Tally:
    """How often Ctrl-C was raised, and how often it came after the work was finished."""

    interrupted: int = 0
    finished: int = 0


def press_at_random(work: Work, times: int, seed: int = 0) -> Tally:
    """Ctrl-C at so many moments, drawn over the time that the work takes. Raises AssertionError if a promise breaks."""
    model, draw, tally = lived_in(work.model), random.Random(seed), Tally()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work.do(model)  # what is imported late is imported now
        began = time.process_time()
        expected = work.do(model)
        takes = time.process_time() - began
        for _ in range(times):
            with left_untouched(model):
                try:
                    with ctrl_c_after(draw.uniform(0, takes)):
                        work.do(model)
                    tally.finished += 1
                except KeyboardInterrupt:
                    tally.interrupted += 1
            assert_same(work.do(model), expected)
    return tally


@contextmanager
def ctrl_c_after(seconds: float) -> Iterator[None]:
    """As if somebody pressed Ctrl-C after so much of the processor's time, wherever the program then is."""

    def press(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGPROF, press)
    try:
        signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-4))
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# ---- what is interrupted -----------------------------------------------------------------------------------------

X = flat_points(3, 4, 1)


def explain(model: nn.Module) -> list[Tensor]:
    result = lp.attribute(lp.Score(model, 1, "log_softmax"), X)
    return [*result.values, result.support, result.p_value]


def judge(model: nn.Module) -> list[Tensor]:
    found = lp.verdict(lp.Score(model, 1, "log_softmax"), X, X * X.sign(), draws=99)
    return [found.support, found.p_value, found.p_model]


def explain_prompt(model: nn.Module) -> list[Tensor]:
    from leastpath.language import explain

    return [explain(model, tokenizer(), "the cat sat on the", " mat", support=False).values]


def explain_photograph(model: nn.Module) -> list[Tensor]:
    return list(lp.METHODS["windows_in_context"](lp.Score(model, 1), PHOTOGRAPH, quality="fast").values)


PHOTOGRAPH = flat_points(1, 3 * 24 * 24, 2).view(1, 3, 24, 24)


def photo_net() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 22 * 22, 3))).eval()


@cache
def toy() -> tuple[nn.Module, Any]:
    from leastpath.language.toy import toy_model

    return toy_model()


def tokenizer() -> Any:
    return toy()[1]


WORK: dict[str, Callable[[], Work]] = {
    "attribute": lambda: Work(mlp(), explain),
    "verdict": lambda: Work(mlp(), judge),
    "language.explain": lambda: Work(toy()[0], explain_prompt),
    "windows_in_context": lambda: Work(photo_net(), explain_photograph),
}


# ---- models that fail --------------------------------------------------------------------------------------------


@contextmanager
def failing(model: nn.Module, error: Exception, *, at: int = 0, rows: int = 0) -> Iterator[None]:
    """The model raises at its n-th call, or at every call of so many rows."""
    calls = [0]

    def fail(_module: nn.Module, args: Any, named: dict[str, Any]) -> None:
        calls[0] += 1
        given = next(value for value in (*args, *named.values()) if isinstance(value, Tensor))
        if calls[0] == at or (rows and len(given) >= rows):
            raise error

    handle = model.register_forward_pre_hook(fail, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def out_of_memory() -> torch.OutOfMemoryError:
    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
