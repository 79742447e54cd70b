"""Outputs: what happens to whatever a model returned before it is one number an example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

OutputName = Literal["raw", "softmax", "log_softmax", "sigmoid", "logit_margin"]
Output = OutputName | Callable[[Tensor], Tensor]


class UnreadableOutput(ValueError):
    """The model returned something that has no score for each row."""


def output_tensor(model_output: Any) -> Tensor:
    """The tensor in whatever the model returned."""
    tensor = model_output if isinstance(model_output, Tensor) else getattr(model_output, "logits", None)
    if not isinstance(tensor, Tensor):
        raise UnreadableOutput(
            f"the model returned {type(model_output).__name__}, expected a tensor or an object with .logits: "
            "wrap it, as in Score(lambda x: model(x)[0], …)"
        )
    return tensor


def scalar_output(
    model_output: Any, target: int | Tensor | Callable[[Tensor], Tensor] | None, output: Output, rows: int
) -> Tensor:
    """One number a row, out of whatever the model returned: (rows,)."""
    tensor = output_tensor(model_output)
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()  # a softmax in half precision would add noise that the model does not have
    if callable(output):
        tensor = output(tensor)
    elif output == "sigmoid":
        tensor = tensor.sigmoid()
    elif output != "raw":
        if tensor.ndim < 2 or tensor.shape[1] < 2:
            raise ValueError(
                f'output="{output}" needs logits (batch, classes ≥ 2), the model returned {tuple(tensor.shape)}: '
                'use "sigmoid" or "raw"'
            )
        if output == "logit_margin":
            check_rows(tensor, rows)
            return _logit_margin(tensor, _check_index(target, tensor))
        tensor = tensor.softmax(1) if output == "softmax" else tensor.log_softmax(1)
    return _pick_target(tensor, target, rows)


def _pick_target(tensor: Tensor, target: int | Tensor | Callable[[Tensor], Tensor] | None, rows: int) -> Tensor:
    if callable(target):
        tensor = target(tensor)
        if tensor.shape == (rows, 1):
            tensor = tensor[:, 0]
        if tensor.shape != (rows,):
            raise ValueError(
                f"the target callable returned {tuple(tensor.shape)}, expected ({rows},): one number an example"
            )
        return tensor
    check_rows(tensor, rows)
    if tensor.shape == (rows,) and target is None:
        return tensor
    if target is None:
        if tensor.numel() == rows:  # one number a row, in as many dimensions as the model likes: (rows, 1, 1, 1)
            return tensor.reshape(rows)
        raise ValueError(
            f"the model returns {tuple(tensor.shape[1:])} numbers an example: say which, Score(model, target=0)"
        )
    if isinstance(target, int):
        _check_range(target, tensor)
        return tensor.select(1, target)
    return tensor.gather(1, _check_index(target, tensor))[:, 0]


def choose_classes(target: Any, outputs: Tensor) -> Tensor | None:
    """(rows,) the classes asked for, or those that a model's outputs (rows, classes) predict; None for one output.

    Args:
        target: a class index, one per row, or None for the predicted ones.
        outputs: (rows, classes), (rows, 1) or (rows,).

    Example:
        >>> choose_classes(None, torch.tensor([[0.0, 2.0], [1.0, 0.0]])), choose_classes(0, torch.zeros(2, 1))
        (tensor([1, 0]), None)
    """
    rows, n = len(outputs), 1 if outputs.ndim == 1 else outputs.shape[1]
    if target is None:
        return None if n == 1 else outputs.argmax(1)
    indices = torch.as_tensor(np.array(target), device=outputs.device)  # a copy: pandas' own is read-only
    if indices.is_floating_point() or indices.dtype == torch.bool or indices.ndim > 1:
        raise ValueError(f"target={target!r}: expected a class index, or one per row")
    if indices.ndim and len(indices) != rows:
        raise ValueError(f"got {len(indices)} targets for {rows} rows: pass one class index, or one per row")
    if n == 1 and not (indices == 0).all():
        raise ValueError(f"target={target!r} of a model with a single output: pass target=None, or 0")
    if int(indices.min()) < 0 or int(indices.max()) >= n:
        raise ValueError(f"target={target!r} is out of range: the model returns {n} classes, 0 to {n - 1}")
    return None if n == 1 else indices.long().expand(rows)


def check_rows(tensor: Tensor, rows: int) -> None:
    """Refuse a model's output whose first dimension is not the batch."""
    if tensor.ndim == 0 or len(tensor) != rows:
        raise UnreadableOutput(
            f"the model returned {tuple(tensor.shape)} for {rows} rows: it must keep the batch dimension first. "
            "For a single example pass inputs.unsqueeze(0)"
        )


def _logit_margin(logits: Tensor, index: Tensor) -> Tensor:
    others = logits.scatter(1, index, -torch.inf).logsumexp(1)
    return logits.gather(1, index)[:, 0] - others


def _check_index(target: Any, tensor: Tensor) -> Tensor:
    """(rows, 1) class indices, within range."""
    _check_range(target, tensor)
    return target[:, None] if isinstance(target, Tensor) else torch.full((len(tensor), 1), target, device=tensor.device)


def _check_range(target: Any, tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise ValueError(
            f"an index target needs an output (batch, classes), got {tuple(tensor.shape)}: pass target=lambda output: …"
        )
    low, high = (int(target.min()), int(target.max())) if isinstance(target, Tensor) else (target, target)
    if low < 0 or high >= tensor.shape[1]:
        raise ValueError(
            f"target {low if low < 0 else high} is out of range: "
            f"the model returns {tensor.shape[1]} classes, 0 to {tensor.shape[1] - 1}"
        )
