"""Failures: what is wrong with inputs that a model cannot read, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn


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


def explain_failure(
    model: Any, modules: Sequence[nn.Module], inputs: Tensor, args: Sequence[Any], unmarked: Sequence[int],
    error: Exception,
) -> str:  # fmt: skip
    """One sentence for a model call that has failed: the shapes, what can be seen to be wrong, the model's own error.

    Args:
        model: that was called.
        modules: that it is made of.
        inputs: the first of its inputs.
        args: its extra arguments.
        unmarked: which of these are tensors that nobody has marked as shared or per example.
        error: that it raised.
    """
    tensors = [arg for arg in args if isinstance(arg, Tensor)]
    also = f" with extra arguments of shape {', '.join(str(tuple(t.shape)) for t in tensors)}" if tensors else ""
    shape = f"{tuple(inputs.shape)}, {len(inputs)} examples of shape {tuple(inputs.shape[1:])}{also}"
    advice = _advice_on_args(len(inputs), args, unmarked) or _advice_on_weights(model, modules, inputs, tensors)
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


def _advice_on_weights(model: Any, modules: Sequence[nn.Module], inputs: Tensor, args: Sequence[Tensor]) -> str:
    """Where inputs and extra arguments do not go with the model's weights."""
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
