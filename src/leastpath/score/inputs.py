"""What is refused before a model runs: inputs, targets and baselines that do not fit it."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
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


def check_target(target: Target) -> CheckedTarget:
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
