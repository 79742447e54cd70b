"""Guards: checks of inputs, targets, baselines and models, and a model that is left as it was.

Every check raises a ValueError that says what was got, what was expected, and the call that fixes it.
"""

from __future__ import annotations

import functools
import inspect
import numbers
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.checks import check_tensor
from leastpath._support.rows import flat_rows
from leastpath._support.threads import is_alone, watched_draws

if TYPE_CHECKING:
    from leastpath.score.bound import BoundScore

Target = int | Sequence[int] | Tensor | Callable[[Tensor], Tensor] | None
CheckedTarget = int | Tensor | Callable[[Tensor], Tensor] | None
Inputs = Tensor | tuple[Tensor, ...]
Baselines = float | Tensor | tuple[float | Tensor | None, ...] | None


def checked_inputs(inputs: Inputs, integers_allowed: bool) -> tuple[Tensor, ...]:
    """The inputs as a tuple of tensors (batch, *features) without graphs: finite numbers, at least one example."""
    given: Any = inputs
    if isinstance(given, list) and given and all(isinstance(part, Tensor) for part in given):
        raise ValueError("inputs is a list, expected a tensor, or for several inputs a tuple: pass tuple(inputs)")
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    if not parts:
        raise ValueError("inputs is an empty tuple, expected a tensor, or a tuple with one tensor an input")
    for i, part in enumerate(parts):
        name = f"inputs[{i}]" if isinstance(inputs, tuple) else "inputs"
        check_tensor(name, part)
        if part.ndim == 0 or len(part) == 0:
            raise ValueError(f"{name} has shape {tuple(part.shape)}, expected at least one example: (batch, *features)")
        if len(part) != len(parts[0]):
            raise ValueError(f"{name} has {len(part)} examples, inputs[0] has {len(parts[0])}: expected one batch size")
        if not part.is_floating_point():
            if not integers_allowed:
                raise ValueError(
                    f"{name} has dtype {part.dtype}, which has no gradient: pass {name}.float(), or for token ids "
                    "explain the embedding, Score(model, target, layer=model.embedding)"
                )
        elif not torch.isfinite(part).all():
            bad = int((~torch.isfinite(flat_rows(part))).any(1).nonzero()[0])
            remedy = f"drop or repair it, e.g. {name}.nan_to_num()"
            raise ValueError(f"{name} of example {bad} holds NaN or infinite values: {remedy}")
    return tuple(ordinary(part) for part in parts)


def checked_target(target: Target) -> CheckedTarget:
    """The target as an int, a tensor of integers (batch,), a callable or None."""
    if target is None or callable(target):
        return target
    if isinstance(target, (bool, float, str)):
        raise ValueError(f"target={target!r} must be a class index: an int, a (batch,) integer tensor or a callable")
    if isinstance(target, (int, np.integer)):
        return int(target)
    tensor = torch.as_tensor(target)
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.ndim > 1:
        got = f"dtype {tensor.dtype} and shape {tuple(tensor.shape)}"
        raise ValueError(f"target has {got}, expected integers of shape (batch,)")
    return int(tensor) if tensor.ndim == 0 else tensor.detach().long()


def flat_baseline(baseline: float | Tensor | None, inputs: Tensor, per_example: int) -> Tensor:
    """None, number, (1, …), (batch, …) or (batch, m, …) as one row a path: (batch · m, *features)."""
    n, features = len(inputs), inputs.shape[1:]
    if isinstance(baseline, Tensor):
        check_tensor("baselines", baseline)
    if not isinstance(baseline, Tensor) or baseline.ndim == 0:
        number = baseline.item() if isinstance(baseline, Tensor) else 0 if baseline is None else baseline
        given_number: object = number
        if not isinstance(given_number, numbers.Real):
            raise ValueError(
                f"baselines must be None, a number or a tensor, got {type(number).__name__}: torch.as_tensor(baselines)"
            )
        if not inputs.is_floating_point() and number != int(number):
            raise ValueError(f"baselines={number} for inputs of {inputs.dtype}: pass a whole number, or activations")
        return torch.full((n * per_example, *features), number, dtype=inputs.dtype, device=inputs.device)
    given = tuple(baseline.shape)
    baseline = ordinary(baseline).to(inputs.device, inputs.dtype)
    if baseline.ndim == inputs.ndim:
        baseline = baseline.unsqueeze(1)  # (1 or batch, 1, *features)
    fits = baseline.ndim == inputs.ndim + 1 and baseline.shape[2:] == features and len(baseline) in (1, n)
    if not fits or not per_example or baseline.shape[1] not in (1, per_example):
        several = ", ".join(map(str, (n, "m", *features)))
        raise ValueError(
            f"baselines have shape {given}, inputs {tuple(inputs.shape)}: expected a number, "
            f"{(1, *features)}, {tuple(inputs.shape)} or several an example, ({several})"
        )
    return baseline.expand(n, per_example, *features).reshape(n * per_example, *features)


def baselines_per_example(baselines: Baselines, inputs: Inputs, layer_shape: torch.Size | None = None) -> int:
    """How many baselines each example has: m of a (batch, m, …) tensor, else 1."""
    given = baselines if isinstance(baselines, tuple) else (baselines,)
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    counts = {
        b.shape[1]
        for b, x in zip(given, parts, strict=False)
        if isinstance(b, Tensor) and b.ndim == x.ndim + 1 and b.shape[1:] != layer_shape
    }
    if isinstance(baselines, Tensor) and layer_shape is not None and baselines.shape[2:] == layer_shape:
        counts = {baselines.shape[1]}  # several activations an example
    if len(counts) > 1:
        raise ValueError(f"the inputs have different numbers of baselines {sorted(counts)}: give each the same number")
    return counts.pop() if counts else 1


def fits_inputs(baseline: Tensor, inputs: Tensor) -> bool:
    """Whether a baseline has the shape and the kind of numbers of the inputs (batch, *features)."""
    shape = baseline.shape[1:] if baseline.ndim == inputs.ndim else baseline.shape[2:]
    same_kind = baseline.is_floating_point() == inputs.is_floating_point()
    return baseline.ndim >= inputs.ndim and shape == inputs.shape[1:] and same_kind


EMPTY_CELL = types.CellType()  # of a function that is not yet defined to its end

TYPE_WORDS = ("same dtype", "type (", "scalar type", "should be the same")
SHAPE_WORDS = (
    "cannot be multiplied", "size mismatch", "must match the size", "Dimension out of range", "D input", "(unbatched)",
    "channels, but got", "normalized_shape", "invalid for input of size",
)  # fmt: skip


class UnfitInputs(ValueError):
    """The model cannot read its inputs. Says what is probably wrong with them; the model's error is its cause."""


def advice_on(model: Any, inputs: Tensor, error: Exception, extra: Sequence[Any] = ()) -> UnfitInputs | None:
    """What is probably wrong with inputs and extra arguments, judged by the text of the model's error; None where it
    does not say."""
    if is_out_of_memory(error):
        return None
    words = str(error)
    tensors = [arg for arg in extra if isinstance(arg, Tensor)]
    advice = _advice_on_ids(model, inputs, words) or _advice_on_types(model, inputs, words, tensors)
    if advice is None and "Inference tensors cannot be saved" in words:
        advice = "the model's weights were made under torch.inference_mode(): build or load it outside of that block."
    if advice is None and any(part in words for part in SHAPE_WORDS):
        shape = f"{tuple(inputs.shape)}, {len(inputs)} examples of shape {tuple(inputs.shape[1:])}"
        also = f" with extra arguments of shape {', '.join(str(tuple(t.shape)) for t in tensors)}" if tensors else ""
        remedy = "expected (batch, *features) as in training. For a single example pass inputs.unsqueeze(0)."
        advice = f"the model cannot read inputs of shape {shape}{also}: {remedy}"
    return None if advice is None else UnfitInputs(f"{advice} The model's error: {words}")


def _advice_on_ids(model: Any, inputs: Tensor, words: str) -> str | None:
    """Where an embedding was given numbers that are no rows of it."""
    if inputs.is_floating_point() and "'indices'" in words:
        remedy = "pass integers, and explain the embedding: Score(model, target, layer=model.embedding)."
        return f"the model looks up token ids, and the inputs are {inputs.dtype}: {remedy}"
    rows = [module.num_embeddings for module in modules_of(model) if isinstance(module, nn.Embedding)]
    if not rows or inputs.is_floating_point() or "index out of range" not in words:
        return None
    low, high = int(inputs.min()), int(inputs.max())
    if low >= 0 and high < max(rows):  # the ids may be those of the vocabulary, and something else goes too far
        found = ", ".join(map(str, sorted(set(rows))))
        return (
            f"the inputs of shape {tuple(inputs.shape)} hold ids from {low} to {high}, and the model's embeddings have "
            f"{found} rows: a text may have more tokens than the model has positions."
        )
    return (
        f"the inputs hold ids from {low} to {high}, and an embedding of the model has {max(rows)} rows: expected "
        f"ids from 0 to {max(rows) - 1}, from the tokenizer of this model."
    )


def _advice_on_types(model: Any, inputs: Tensor, words: str, extra: Sequence[Tensor]) -> str | None:
    if not inputs.is_floating_point() or not any(part in words for part in TYPE_WORDS):
        return None
    parameter = parameter_of(model)
    dtype = inputs.dtype if parameter is None else parameter.dtype
    if dtype != inputs.dtype:
        remedy = f"pass inputs.to({dtype}), or use model.to({inputs.dtype})."
        return f"the inputs are {inputs.dtype}, the model's parameters {dtype}: {remedy}"
    other = next((t.dtype for t in extra if t.is_floating_point() and t.dtype != dtype), None)
    return (
        None if other is None else f"an extra argument is {other}, the inputs are {dtype}: pass argument.to({dtype})."
    )


def parameter_of(model: Any) -> Tensor | None:
    """A floating-point parameter of the model, which shows its device and dtype; None where it has none."""
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    return next((p for p in parameters if p.is_floating_point()), None)


def is_out_of_memory(error: Exception) -> bool:
    """Whether a smaller batch might have fitted in memory."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    said = isinstance(error, RuntimeError) and any(part in str(error) for part in words)
    return said or isinstance(error, (MemoryError, torch.OutOfMemoryError))


def warn_of_training_mode(model: Any) -> None:
    """Warn where dropout and batch statistics would be explained together with the model."""
    if isinstance(model, nn.Module) and model.training:
        why = "dropout and batch statistics would be part of the explanation"
        warnings.warn(f"the model is in training mode: {why}. Call model.eval() first", UserWarning, stacklevel=3)


def check_rows_are_independent(score: BoundScore, start: Tensor, end: Tensor) -> None:
    """Refuse models whose score of a row depends on the other rows, as with BatchNorm in training mode.

    The row is compared among others and among copies of itself: batches of one size round alike. Where both give 0, as
    for an input of zeros, nothing is known, and its baseline is compared too.
    """
    companions = torch.cat([end[:1], start[:1], end[1:2]])
    examples = torch.tensor([0, 0, 1])[: len(companions)]
    try:
        among_others = score.values(companions, examples)
        together, alone = among_others[0], _among_copies(score, companions, 0)
        if together == alone == 0:
            together, alone = among_others[1], _among_copies(score, companions, 1)
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise ValueError(_DEPENDENT_ROWS.format(alone="an error", together="a score")) from error
    # Some kernels round differently from call to call; dependence shows orders of magnitude above that.
    allowed = max(1e-3, 64 * score.eps) * max(1e-6, float(together.abs()), float(alone.abs()))
    if float((alone - together).abs()) > allowed:
        raise ValueError(_DEPENDENT_ROWS.format(alone=f"{float(alone):.6g}", together=f"{float(together):.6g}"))
    score.largest_logit[:] = 0  # this check saw only the first examples of the batch


def _among_copies(score: BoundScore, companions: Tensor, row: int) -> Tensor:
    """The score of a point of example 0 in a batch of copies of it."""
    copies = companions[row : row + 1].expand_as(companions)
    return score.values(copies, torch.zeros(len(copies), dtype=torch.long))[0]


_DEPENDENT_ROWS = (
    "the model's rows are not independent: example 0 gives {alone} among copies of itself, {together} among others. "
    "Attributions would mix examples. Call model.eval() (BatchNorm, dropout), "
    "or explain one example at a time with Score(…, batch_size=1)"
)


def device_of(inputs: Any) -> torch.device:
    """The device of the inputs; the CPU where they are not tensors."""
    first = inputs[0] if isinstance(inputs, tuple) and inputs else inputs
    return first.device if isinstance(first, Tensor) else torch.device("cpu")


@contextmanager
def untouched(model: Any, device: torch.device) -> Iterator[None]:
    """Afterwards the model has the buffers, and the program the random state, that they had before.

    BatchNorm in training mode updates its running statistics whenever it runs, some models count their calls in a
    buffer, and dropout draws random numbers. Modes, gradients and hooks are never changed.
    """
    modules = modules_of(model)
    may_draw = any(module.training for module in modules)
    with _buffers_kept(modules), _random_state_kept(device, may_draw), cpu_by_default():
        yield


def modules_of(model: Any) -> list[nn.Module]:
    """All modules that a model is made of, also those behind a function: in its closure, its globals, its arguments.

    Example:
        >>> net = nn.Linear(2, 1)
        >>> modules_of(lambda x: net(x)) == [net]
        True
    """
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
def _buffers_kept(modules: Sequence[nn.Module]) -> Iterator[None]:
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
    """For each thread: whether a model of each guarded block was seen to draw random numbers, and what
    `torch.set_default_device` was told."""

    def __init__(self) -> None:
        self.drew: list[bool] = []
        self.device: torch.device | None = None  # the user's default, where it is not the CPU


_WATCH = _Watch()


@contextmanager
def _random_state_kept(device: torch.device, may_draw: bool) -> Iterator[None]:
    """Put the global random state back if the model drew from it.

    Another thread may draw from it at the same time, and would draw its numbers again if the state were put back
    without need. So where there are other threads, the state is put back only for a model in training mode, or one
    that was seen to draw (`seen_drawing`).
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
def as_the_user_runs_it() -> Iterator[None]:
    """Around a call of the model, which gets the default device that its user chose."""
    if _WATCH.device is None:
        yield
        return
    with _WATCH.device:
        yield


def _is_compiled(model: Any) -> bool:
    """Whether the model's steps do not run one by one, so that nothing can look at each."""
    return isinstance(model, torch.jit.ScriptModule) or hasattr(model, "_orig_mod")


@contextmanager
def seen_drawing(model: Any) -> Iterator[None]:
    """Around a call of the model: notes for the guard whether it draws random numbers. Does nothing in a program of
    one thread, which needs no note."""
    if is_alone() or not _WATCH.drew or _is_compiled(model):
        yield
        return
    with watched_draws() as watched:
        yield
    _WATCH.drew[-1] |= watched.drew


@contextmanager
def at_work(model: Any, device: torch.device) -> Iterator[None]:
    """Where paths are found and measured: the model is left untouched, and the caller's gradient mode does not matter.

    No graph is recorded inside. Code that needs derivatives asks for them with `torch.enable_grad()`, which works even
    if the caller is in inference mode.
    """
    with untouched(model, device), torch.inference_mode(False), torch.no_grad():
        yield


def ordinary(tensor: Tensor) -> Tensor:
    """The tensor without its graph; a copy, where it was made under inference mode and autograd could not use it."""
    with torch.inference_mode(False):
        return tensor.clone() if tensor.is_inference() else tensor.detach()
