"""The columns of the table: what must hold of every way to explain, each as one check of a row.

A row explains a world (`row.explain(world) -> list of values, one for each example`). A check raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from helpers import left_untouched
from invariants.worlds import ORDER

CLOSE = 1e-5  # of the largest value, what the order of additions may change in float32


def assert_same(found: list[Tensor], expected: list[Tensor], close: float = CLOSE) -> None:
    assert [tuple(v.shape) for v in found] == [tuple(v.shape) for v in expected]
    largest = max(float(v.abs().max()) for v in expected)
    for b, (one, other) in enumerate(zip(found, expected, strict=True)):
        apart = float((one.double() - other.double()).abs().max())
        assert apart <= close * largest, f"example {b} differs by {apart / largest:.1e} of the largest value"


def batch_equals_loop(row: Any) -> None:
    assert_same(row.whole, [v for alone in row.alone for v in alone])


def any_batch_size(row: Any) -> None:
    assert_same(row.explain(replace(row.world, batch_size=3)), row.whole)


def order_of_rows(row: Any) -> None:
    assert_same(row.explain(row.world.take(ORDER)), [v for b in ORDER for v in row.alone[b]])


def numbering_of_features(row: Any) -> None:
    world = row.world.renumber()
    found = row.explain(world)
    assert_same([world.numbered_back(v) for v in found] if row.has_features else found, row.whole)


def unit_of_features(row: Any) -> None:
    assert_same(row.explain(row.world.rescale()), row.whole, 1e-4)  # a weight divided by its unit is rounded again


def completeness(row: Any) -> None:
    found, changes = row.answered
    for values, change in zip(found, changes, strict=True):
        assert float(values.sum()) == pytest.approx(change, abs=0.02 * float(values.abs().sum()) + 1e-3)


def dtype(row: Any) -> None:
    for kind in (torch.float64, torch.float32, torch.bfloat16):
        for values in row.whole if kind == torch.float32 else row.explain(row.world.to(kind)):
            assert values.dtype == row.answers_in(kind) and values.isfinite().all()


def same_seed_same_answer(row: Any) -> None:
    """And the program's own random numbers neither change it nor are changed by it."""
    first = row.whole
    torch.rand(3)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    again = row.explain(row.world)
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def model_untouched(row: Any) -> None:
    """A model that counts its calls in a buffer and draws random numbers, with gradients kept and a weight frozen."""
    assert calls_of(row)[1] > 0


def calls_of(row: Any) -> tuple[Any, int, list[Tensor]]:
    """The row's world with a model that was lived in, asked once and left untouched; how often, and the answer.

    That need not be the answer of the model itself: LIME and NUTS draw from the generator that this one draws from.
    """
    if row not in _CALLS_OF:
        world = replace(row.world, model=lived_in(row.world.model))
        attributes = [set(vars(module)) for module in world.model.modules()]
        with left_untouched(world.model), counted(world.model) as calls:
            answer = row.explain(world)
            n = calls[0]
        assert [set(vars(module)) for module in world.model.modules()] == attributes
        _CALLS_OF[row] = world, n, answer
    return _CALLS_OF[row]


_CALLS_OF: dict[Any, tuple[Any, int, list[Tensor]]] = {}


def interruption(row: Any) -> None:
    """Ctrl-C at the first, a middle and the last call of the model is raised, leaves nothing behind, and the next
    answer is right."""
    world, n, answer = calls_of(row)
    for at in sorted({1, n // 2, n} - {0}):
        with left_untouched(world.model), counted(world.model, at), pytest.raises(KeyboardInterrupt):
            row.explain(world)
    assert_same(row.explain(world), answer)


COLUMNS: dict[str, Callable[[Any], None]] = {
    "batch = loop": batch_equals_loop,
    "any batch_size": any_batch_size,
    "order of rows": order_of_rows,
    "numbering": numbering_of_features,
    "unit": unit_of_features,
    "complete": completeness,
    "dtype": dtype,
    "same seed": same_seed_same_answer,
    "model untouched": model_untouched,
    "interruption": interruption,
}


def lived_in(model: nn.Module) -> nn.Module:
    """A copy with a buffer that counts calls, random numbers drawn in each, kept gradients and a frozen weight."""
    used = deepcopy(model)
    used.register_buffer("calls_so_far", torch.zeros(()))

    def count(module: nn.Module, _inputs: Any, _output: Any) -> None:
        module.calls_so_far += 1
        torch.rand(1)

    used.register_forward_hook(count)
    parameters = list(used.parameters())
    for parameter in parameters[1:]:
        parameter.grad = torch.ones_like(parameter)
    parameters[-1].requires_grad_(False)
    return used


_CALLS = [0, 0]  # so far, and the one that is interrupted; not in the hook, whose contents jobs would tell a model by


def _count(*_: Any) -> None:
    _CALLS[0] += 1
    if _CALLS[0] == _CALLS[1]:
        raise KeyboardInterrupt


@contextmanager
def counted(model: nn.Module, interrupt_at: int = 0) -> Iterator[list[int]]:
    """How often the model is called; at one of its calls Ctrl-C is pressed."""
    _CALLS[:] = [0, interrupt_at]
    handle = model.register_forward_pre_hook(_count)
    try:
        yield _CALLS
    finally:
        handle.remove()
