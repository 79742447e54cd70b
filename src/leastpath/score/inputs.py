"""What is refused before a model runs: inputs, targets and baselines that do not fit it."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.checks import check_tensor
from leastpath._support.rows import flat_rows
from leastpath.score.untouched import modules_of, ordinary

Target = int | Sequence[int] | Tensor | Callable[[Tensor], Tensor] | None
CheckedTarget = int | Tensor | Callable[[Tensor], Tensor] | None
Inputs = Tensor | tuple[Tensor, ...]
Baselines = float | Tensor | tuple[float | Tensor | None, ...] | None


def check_inputs(inputs: Inputs, integers_allowed: bool) -> tuple[Tensor, ...]:
    """The inputs as a tuple of tensors (batch, *features) without graphs: finite numbers, at least one example."""
    given: Any = inputs
    if isinstance(given, list) and given and all(isinstance(part, Tensor) for part in given):
        raise ValueError("inputs is a list, expected a tensor, or for several inputs a tuple: pass tuple(inputs)")
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    if not parts:
        raise ValueError("inputs is an empty tuple, expected a tensor, or a tuple with one tensor per input")
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


def flat_baseline(baseline: float | Tensor | None, inputs: Tensor, per_example: int) -> Tensor:
    """None, number, (1, …), (batch, …) or (batch, m, …) as one row per path: (batch · m, *features)."""
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
            f"{(1, *features)}, {tuple(inputs.shape)} or several per example, ({several})"
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


class UnfitInputs(ValueError, RuntimeError):
    """The model fails on its inputs. Says what can be seen to be wrong with them; the model's own error is its cause.

    A RuntimeError too, as most errors of PyTorch are.
    """


def reason_of(error: BaseException) -> str:
    """The first line of what went wrong: of the model's own error, where that is known.

    Example:
        >>> reason_of(ValueError("too long\\nmore"))
        'too long'
    """
    own = error.__cause__ if isinstance(error, UnfitInputs) and error.__cause__ is not None else error
    return str(own).strip().partition("\n")[0] or type(own).__name__


def explain_failure(model: Any, inputs: Tensor, args: Sequence[Any], unmarked: Sequence[int], error: Exception) -> str:
    """One sentence for a model call that has failed: the shapes, what can be seen to be wrong, the model's own error.

    Args:
        model: that was called.
        inputs: the first of its inputs.
        args: its extra arguments.
        unmarked: which of these are tensors that nobody has marked as shared or per example.
        error: that it raised.
    """
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    also = f" with extra arguments of shape {', '.join(str(tuple(t.shape)) for t in tensors)}" if tensors else ""
    shape = f"{tuple(inputs.shape)}, {len(inputs)} examples of shape {tuple(inputs.shape[1:])}{also}"
    advice = _advice_on_args(len(inputs), args, unmarked) or _advice_on_weights(model, inputs, tensors)
    advice = advice or "expected (batch, *features) as in training; for a single example pass inputs.unsqueeze(0)"
    return f"the model cannot read inputs of shape {shape}: {advice}. The model's error: {error}"


def _advice_on_args(batch: int, args: Sequence[Any], unmarked: Sequence[int]) -> str:
    for i in unmarked:
        if args[i].ndim and len(args[i]) not in (1, batch):
            return (
                f"additional_forward_args[{i}] has shape {tuple(args[i].shape)} and a batch of {batch}: if it has one "
                f"row for each example, give {batch} rows; if all examples share it, mark it lp.shared(…)"
            )
    return ""


def _advice_on_weights(model: Any, inputs: Tensor, args: Sequence[Tensor]) -> str:
    """Where inputs and extra arguments do not go with the model's weights."""
    modules = modules_of(model)
    if any(weight.is_inference() for module in modules for weight in module.parameters(recurse=False)):
        return "the model's weights were made under torch.inference_mode(): build or load it outside of that block"
    rows = sorted({module.num_embeddings for module in modules if isinstance(module, nn.Embedding)})
    if not inputs.is_floating_point():
        return _advice_on_ids(inputs, rows) if rows else ""
    parameter = parameter_of(model)
    dtype = inputs.dtype if parameter is None else parameter.dtype
    if dtype != inputs.dtype:
        remedy = f"pass inputs.to({dtype}), or use model.to({inputs.dtype})"
        return f"the inputs are {inputs.dtype}, the model's parameters {dtype}: {remedy}"
    other = next((t.dtype for t in args if t.is_floating_point() and t.dtype != dtype), None)
    if other is not None:
        return f"an extra argument is {other}, the inputs are {dtype}: pass argument.to({dtype})"
    remedy = "where they stand for ids pass integers, and explain the embedding: Score(…, layer=model.embedding)"
    return f"the model looks up token ids, and the inputs are {dtype}: {remedy}" if rows else ""


def _advice_on_ids(ids: Tensor, rows: Sequence[int]) -> str:
    low, high = int(ids.min()), int(ids.max())
    found = f"the inputs hold ids from {low} to {high}, and an embedding of the model has"
    if low < 0 or high >= rows[-1]:
        return f"{found} {rows[-1]} rows: expected ids from 0 to {rows[-1] - 1}, from the tokenizer of this model"
    length = ids.shape[-1]
    return f"{found} {rows[0]} rows: {length} are more tokens than the model has positions" if length > rows[0] else ""


def home_of(model: Any) -> tuple[torch.device, torch.dtype]:
    """Where a model's floating-point parameters are, and their dtype; the CPU and float32 where it has none."""
    parameter = parameter_of(model)
    return (torch.device("cpu"), torch.float32) if parameter is None else (parameter.device, parameter.dtype)


def parameter_of(model: Any) -> Tensor | None:
    """A floating-point parameter of the model, which shows its device and dtype; None where it has none."""
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    return next((p for p in parameters if p.is_floating_point()), None)
