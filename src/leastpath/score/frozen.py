"""What a gradient by the inputs need not keep: everything that only gradients by the weights would ask for.

PyTorch keeps the input of every layer whose weights require a gradient, and those of convolutions and of batch
normalisations always. Inside `FrozenParameters` weights are constants, for this thread alone and without a touch of the
model: another thread may train it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import batch_norm, silu
from torch.overrides import TorchFunctionMode

WORTH_FREEZING = 262_144  # numbers of a batch: below it, looking at every step costs more than it saves
_NEEDS_ONLY_SHAPE = {torch.conv1d, torch.conv2d, torch.conv3d, torch.conv_transpose1d, torch.conv_transpose2d}


class FrozenParameters(TorchFunctionMode):
    """Inside, parameters are constants, and convolutions and batch normalisations keep no input for their gradient.

    Example:
        >>> layer, x = nn.Linear(3, 2), torch.ones(1, 3, requires_grad=True)
        >>> with FrozenParameters():
        ...     y = layer(x)
        >>> torch.equal(torch.autograd.grad(y.sum(), x)[0], layer.weight.sum(0)[None]), layer.weight.requires_grad
        (True, True)
    """

    _gate: tuple[weakref.ref[Tensor], Tensor] | None = None  # of a language model, and what it is made of

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = _constant(args), {name: _constant(value) for name, value in kwargs.items()} if kwargs else {}
        if func in _NEEDS_ONLY_SHAPE and args and _is_plain(args[0]):
            with _forget(args[0]):
                return func(*args, **kwargs)
        if func is batch_norm and _is_plain(args[0]):
            return _normalise(*args, **kwargs)
        if func is silu and _is_plain(args[0]) and not kwargs.get("inplace", len(args) > 1):
            found = func(*args, **kwargs)
            self._gate = weakref.ref(found), args[0].detach()
            return found
        gate = self._gate[0]() if func is Tensor.mul and self._gate is not None else None
        if gate is not None and self._gate is not None and args[0] is gate:
            with _forget(gate, partial(silu, self._gate[1])):
                return func(*args, **kwargs)
        return func(*args, **kwargs)


def freeze_where_it_pays(leaf: Tensor, runs_step_by_step: bool) -> AbstractContextManager[object]:
    """Around a model call for a gradient by `leaf`; a model that was compiled does not run in steps to look at."""
    return FrozenParameters() if runs_step_by_step and leaf.numel() >= WORTH_FREEZING else nullcontext()


def _constant(value: Any) -> Any:
    """The same without gradients by parameters, also those in a list."""
    if isinstance(value, nn.Parameter):
        return value.detach()
    if type(value) in (tuple, list) and any(isinstance(part, (nn.Parameter, tuple, list)) for part in value):
        return type(value)(map(_constant, value))
    return value


def _is_plain(value: Any) -> bool:
    """Whether this is a tensor whose gradient is asked for, and not one that stands for several (`torch.func`)."""
    return (
        isinstance(value, Tensor) and value.requires_grad and not torch._C._functorch.is_functorch_wrapped_tensor(value)
    )


def _forget(given: Tensor, again: Callable[[], Tensor] | None = None) -> saved_tensors_hooks:
    """Around a step whose derivative needs the shape of `given` only, or can make it `again`: it is not kept."""
    place, shape, last = given.data_ptr(), given.shape, not given.is_contiguous()

    def pack(kept: Tensor) -> Any:
        return (kept.dtype, kept.device) if kept.data_ptr() == place and kept.shape == shape else kept

    def unpack(kept: Any) -> Tensor:
        if isinstance(kept, Tensor):
            return kept
        if again is not None:
            return again()
        arranged = torch.channels_last if last and len(shape) == 4 else torch.contiguous_format
        return torch.empty(shape, dtype=kept[0], device=kept[1], memory_format=arranged)  # nobody reads it

    return saved_tensors_hooks(pack, unpack)


def _normalise(
    given: Tensor, mean: Tensor | None, variance: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Batch normalisation; with known statistics as given · scale + shift, of which only the scale is kept."""
    mixed = torch.is_autocast_enabled(given.device.type) or (mean is not None and mean.dtype != given.dtype)
    if training or mean is None or variance is None or mixed:
        return batch_norm(given, mean, variance, weight, bias, training, momentum, eps)
    scale = torch.rsqrt(variance + eps) if weight is None else weight * torch.rsqrt(variance + eps)
    shift = -mean * scale if bias is None else bias - mean * scale
    sides = (1, -1, *[1] * (given.ndim - 2))
    return torch.addcmul(shift.reshape(sides), given, scale.reshape(sides))
