"""An explainer in the calling convention of Quantus.

Nothing here imports Quantus, whose licence is the (L)GPL: pass `explain` to its metrics as `explain_func`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leastpath.attribution import attribute
from leastpath.score.calls import Output
from leastpath.score.failures import home_of
from leastpath.score.score import Score


def explain(
    model: Callable[..., Any],
    inputs: np.ndarray | Tensor,
    targets: np.ndarray | Tensor | int,
    *,
    output: Output = "raw",
    baselines: float | np.ndarray | Tensor | None = None,
    reduce_channels: bool = False,
    batch_size: int | None = None,
    device: str | torch.device | None = None,
    **settings: Any,
) -> np.ndarray:
    """Attributions as an array: `quantus.MaxSensitivity()(…, explain_func=explain, explain_func_kwargs={…})`.

    Args:
        model: a torch module or callable.
        inputs: (batch, …).
        targets: (batch,) class indices, or one for all.
        output: what is explained: "raw" logits, "softmax", "log_softmax", … (see `Score`).
        baselines: None (zeros), a number, (1, …), (batch, …) or several per example, as in `leastpath.attribute`.
        reduce_channels: sum over the channels of images: (batch, channels, …) becomes (batch, 1, …).
        batch_size: rows in one model call.
        device: where to compute; None: where the model is.
        settings: method, metric, tolerance, n_steps, rule, max_gradients, seed, …: as in `leastpath.attribute`.

    Returns:
        (batch, …) like the inputs, or with one channel.

    Example:
        >>> import leastpath as lp
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3)).eval()
        >>> explain(model, np.ones((2, 4), "float32"), np.array([0, 2]), method=lp.StraightLine()).shape
        (2, 4)
    """
    home, dtype = home_of(model)
    tensor = _tensor(inputs, "inputs").to(device or home, dtype)
    if isinstance(baselines, np.ndarray):
        baselines = _tensor(baselines, "baselines")
    score = Score(model, _classes(targets), output, batch_size=batch_size)
    values = attribute(score, tensor, baselines, **settings).values
    assert isinstance(values, Tensor)
    if reduce_channels:
        if values.ndim < 3:
            raise ValueError(f"reduce_channels needs (batch, channels, …), got {tuple(values.shape)}: leave it out")
        values = values.sum(1, keepdim=True)
    return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).cpu().numpy()


def _tensor(array: Any, name: str) -> Tensor:
    if isinstance(array, Tensor):
        return array
    numbers = np.array(array)  # a copy: arrays may be read-only
    if numbers.dtype.kind not in "biuf":
        raise ValueError(f"{name} of type {type(array).__name__} hold no numbers: pass an array of them")
    return torch.as_tensor(numbers)


def _classes(targets: Any) -> int | Tensor:
    """Quantus hands labels over as it got them: integers, or floats that are whole numbers."""
    tensor = _tensor(targets, "targets")
    if tensor.ndim > 1 or not torch.equal(tensor, tensor.round() if tensor.is_floating_point() else tensor):
        got = f"shape {tuple(tensor.shape)} and dtype {tensor.dtype}"
        raise ValueError(f"targets have {got}, expected whole numbers (batch,): class indices")
    return int(tensor) if tensor.ndim == 0 else tensor.long()
