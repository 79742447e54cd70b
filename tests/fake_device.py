"""A device that is not there: tensors say that they lie on "mps", compute on the CPU, and refuse what MPS refuses.

Refused are float64 on the device, numbers of the CPU beside numbers of the device, and NumPy's view of either.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._meta_registrations  # PyTorch would import it inside the mode, which takes minutes
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("mps:0")
aten = torch.ops.aten
MAY_MIX = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}
COPIES = {aten.copy_.default, aten._to_copy.default}


class Away(Tensor):
    """A tensor of the fake device; `held` are its numbers."""

    @staticmethod
    def __new__(cls, held: Tensor) -> "Away":
        if held.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64")
        shape = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        # To PyTorch itself it is "meta", a device that needs no driver.
        return Tensor._make_wrapper_subclass(cls, held.size(), dtype=held.dtype, device="meta", **shape)

    def __init__(self, held: Tensor) -> None:
        self.held = held

    device = property(lambda self: DEVICE)
    is_meta = property(lambda self: False)

    def __repr__(self, **_: Any) -> str:
        return f"Away({self.held})"

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert mps:0 device type tensor to numpy: use Tensor.cpu()")

    __array__ = numpy

    def tolist(self) -> Any:
        return self.held.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """One operation as the device would run it."""
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    away = any(isinstance(x, Away) for x in tensors)
    if away and func not in MAY_MIX | COPIES and any(not isinstance(x, Away) and x.ndim for x in tensors):
        raise RuntimeError(f"Expected all tensors to be on the same device, found mps:0 and cpu, in {func}")
    target = kwargs.get("device")
    to_device = away if target is None else torch.device(target).type in ("mps", "meta")
    if func in (aten._local_scalar_dense.default, aten.equal.default):
        to_device = False
    inner = {**kwargs, "device": torch.device("cpu")} if target is not None else kwargs
    found = func(*tree_map(_held, args), **tree_map(_held, inner))
    if func in COPIES and args and func is aten.copy_.default:
        return args[0]
    if func._schema.is_mutable and args and isinstance(args[0], Tensor) and isinstance(found, Tensor):
        return args[0]  # in place: the same tensor as before
    return tree_map(lambda x: Away(x) if isinstance(x, Tensor) and to_device else x, found)


def _held(x: Any) -> Any:
    return x.held if isinstance(x, Away) else x


class _Operations(TorchDispatchMode):
    """Tensors that are made on the device, or sent there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


class _FromNumbers(TorchFunctionMode):
    """`torch.tensor` and `new_tensor` fill memory before any operation is seen."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.new_tensor and isinstance(args[0], Away):
            return Away(args[0].held.new_tensor(*args[1:], **kwargs))
        if func in (torch.tensor, torch.as_tensor) and torch.device(kwargs.get("device") or "cpu").type == "mps":
            made = func(*args, **(kwargs | {"device": None}))
            return made if isinstance(made, Away) else Away(made)
        return func(*args, **kwargs)


class _CpuGenerator(torch.Generator):
    def __new__(cls, _device: Any = "cpu") -> "_CpuGenerator":
        return super().__new__(cls)


@contextmanager
def fake_device() -> Iterator[None]:
    """Inside, the device is there."""
    generator = torch.Generator
    with _Operations(), _FromNumbers():
        torch.Generator = _CpuGenerator
        try:
            yield
        finally:
            torch.Generator = generator


def send(thing: Any) -> Any:
    """A tensor, or a module with its weights, on the fake device."""
    if isinstance(thing, Tensor):
        return Away(thing.detach().clone())
    for module in thing.modules():
        for name, weight in list(module._parameters.items()):
            if weight is not None:
                module._parameters[name] = nn.Parameter(Away(weight.detach()), requires_grad=False)
        for name, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[name] = Away(buffer.detach())
    return thing
