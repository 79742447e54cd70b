"""The model is left as it was: its buffers, the program's random state, the caller's gradient mode."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

EMPTY_CELL = types.CellType()  # of a function that is not yet defined to its end


def warn_of_training_mode(model: Any) -> None:
    """Warn where dropout and batch statistics would be explained together with the model."""
    if isinstance(model, nn.Module) and model.training:
        why = "dropout and batch statistics would be part of the explanation"
        warnings.warn(f"the model is in training mode: {why}. Call model.eval() first", UserWarning, stacklevel=3)


def device_of(inputs: Any) -> torch.device:
    """The device of the inputs; the CPU where they are not tensors."""
    first = inputs[0] if isinstance(inputs, tuple) and inputs else inputs
    return first.device if isinstance(first, Tensor) else torch.device("cpu")


@contextmanager
def leave_untouched(model: Any, inputs: Any) -> Iterator[None]:
    """Around everything that runs a model. Afterwards the model has the buffers, and the program the random state, that
    they had before.

    BatchNorm in training mode updates its running statistics whenever it runs, some models count their calls in a
    buffer, and dropout draws random numbers. Modes, gradients and hooks are never changed.

    No graph is recorded inside, whatever the caller's mode. Code that needs derivatives asks for them with
    `torch.enable_grad()`, which works even if the caller is in inference mode.

    Args:
        model: a module or callable. Inside a block for the same model there is nothing more to keep.
        inputs: what it is run on, a tensor or a tuple: they say on which device.
    """
    with torch.inference_mode(False), torch.no_grad():
        if any(model is guarded for guarded in _WATCH.models):
            yield
            return
        _WATCH.models.append(model)
        modules = modules_of(model)
        may_draw = any(module.training for module in modules)
        try:
            with _keep_buffers(modules), _keep_random_state(device_of(inputs), may_draw), cpu_by_default():
                yield
        finally:
            _WATCH.models.pop()


def modules_of(model: Any) -> list[nn.Module]:
    """All modules that a model is made of, also those behind a function: in its closure, its globals, its arguments."""
    found: dict[int, nn.Module] = {}
    _collect_modules(model, found, depth=5)
    return list(found.values())


def _collect_modules(thing: Any, found: dict[int, nn.Module], depth: int) -> None:
    if isinstance(thing, nn.Module):
        if id(thing) not in found:
            found.update((id(module), module) for module in thing.modules())
        return
    if depth == 0 or isinstance(thing, (Tensor, str, bytes, type)):
        return
    for part in _behind(thing):
        _collect_modules(part, found, depth - 1)


def _behind(thing: Any) -> list[Any]:
    """What a callable, or a container, holds that may be a module."""
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if inspect.ismethod(thing):
        return [thing.__self__, thing.__func__]
    if inspect.isfunction(thing):
        cells = [cell.cell_contents for cell in thing.__closure__ or () if cell != EMPTY_CELL]
        named = [thing.__globals__[name] for name in thing.__code__.co_names if name in thing.__globals__]
        return [*cells, *(part for part in named if isinstance(part, nn.Module) or inspect.isfunction(part))]
    if isinstance(thing, (list, tuple)):
        return list(thing[:1000])
    if isinstance(thing, dict):
        return list(thing.values())
    return [] if isinstance(thing, types.ModuleType) else list(getattr(thing, "__dict__", {}).values())


@contextmanager
def _keep_buffers(modules: Sequence[nn.Module]) -> Iterator[None]:
    saved = [(m, name, buffer, buffer.clone()) for m in modules for name, buffer in m.named_buffers(recurse=False)]
    try:
        yield
    finally:
        with torch.inference_mode():  # writes to buffers of every kind, and records nothing
            for module, name, buffer, copy in saved:
                if getattr(module, name) is not buffer and not isinstance(module, torch.jit.ScriptModule):
                    module._buffers[name] = buffer  # the model has put another tensor in its place
                _put_back(buffer, copy)


def _put_back(buffer: Tensor, copy: Tensor) -> None:
    if buffer.shape != copy.shape or not torch.equal(buffer, copy):
        buffer.resize_(copy.shape).copy_(copy)


class _Watch(threading.local):
    """For each thread: which models are guarded, whether one was seen to draw random numbers in each guarded block,
    and the device that `torch.set_default_device` was given."""

    def __init__(self) -> None:
        self.models: list[Any] = []
        self.drew: list[bool] = []
        self.device: torch.device | None = None  # the user's default, where it is not the CPU


_WATCH = _Watch()


@contextmanager
def _keep_random_state(device: torch.device, may_draw: bool) -> Iterator[None]:
    """Put the global random state back if the model drew from it.

    Another thread may draw from it at the same time, and would draw its numbers again if the state were put back
    without need. So where there are other threads, the state is put back only for a model in training mode, or one
    that was seen to draw (`note_draws`).
    """
    alone, on_gpu = is_alone(), device.type == "cuda"
    state = torch.get_rng_state()
    gpu_state = torch.cuda.get_rng_state(device) if on_gpu else None
    _WATCH.drew.append(False)
    try:
        yield
    finally:
        drew = _WATCH.drew.pop()
        if (alone and is_alone()) or may_draw or drew:
            if not torch.equal(state, torch.get_rng_state()):
                torch.set_rng_state(state)
            if gpu_state is not None:
                torch.cuda.set_rng_state(gpu_state, device)


@contextmanager
def cpu_by_default() -> Iterator[None]:
    """New tensors are made on the CPU, where our own code expects them, whatever `torch.set_default_device` says."""
    default = torch.get_default_device()
    if default.type == "cpu":
        yield
        return
    outer, _WATCH.device = _WATCH.device, default
    try:
        with torch.device("cpu"):
            yield
    finally:
        _WATCH.device = outer


@contextmanager
def as_user_runs_it() -> Iterator[None]:
    """Around a call of the model, which gets the default device that its user chose."""
    if _WATCH.device is None:
        yield
        return
    with _WATCH.device:
        yield


def _is_compiled(model: Any) -> bool:
    """Whether the model's steps do not run one by one, so that nothing can look at each."""
    return isinstance(model, torch.jit.ScriptModule) or hasattr(model, "_orig_mod")


class WatchedDraws(TorchDispatchMode):
    """Notices whether this thread, inside, drew from a global generator: `drew`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and kwargs.get("generator") is None:
            self.drew = True
        return func(*args, **kwargs)


def is_alone() -> bool:
    """Whether no other thread of this program runs Python code."""
    return threading.active_count() == 1


@contextmanager
def note_draws(model: Any) -> Iterator[None]:
    """Around a call of the model: notes for the guard whether it draws random numbers. Does nothing in a program of
    one thread, which needs no note."""
    if is_alone() or not _WATCH.drew or _is_compiled(model):
        yield
        return
    with WatchedDraws() as watched:
        yield
    _WATCH.drew[-1] |= watched.drew


def ordinary(tensor: Tensor) -> Tensor:
    """The tensor without its graph; a copy, where it was made under inference mode and autograd could not use it."""
    with torch.inference_mode(False):
        return tensor.clone() if tensor.is_inference() else tensor.detach()
