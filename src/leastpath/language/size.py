"""Size: large models. Frozen weights, checkpoints, models spread over devices or quantised, and a plan of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from leastpath._support.threads import finish

QUANTIZED = ("Linear8bitLt", "Linear4bit", "QuantLinear", "WQLinear", "AqlmLinear", "HQQLinear")


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Inside, no parameter asks for a gradient: the activations that only weights would need are not kept.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> with frozen(layer):
        ...     print(layer.weight.requires_grad)
        False
        >>> layer.weight.requires_grad
        True
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        finish(lambda: [parameter.requires_grad_(True) for parameter in trained])


@contextmanager
def checkpointed(model: nn.Module) -> Iterator[None]:
    """Inside, a gradient keeps the inputs of the model's blocks only and runs each block again on the way back.

    The library's own switch works in training mode alone, which would bring dropout back.
    """
    blocks = find_blocks(model)
    if not blocks:
        raise ValueError(
            f"checkpointing=True: {type(model).__name__} has no list of blocks to run again; leave it out, or lower "
            "batch_size"
        )
    with ExitStack() as stack:
        for block in blocks:
            stack.enter_context(_rerun(block))
        yield


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """The layers that a transformer repeats: the longest list of modules in it."""
    lists = [list(module) for module in model.modules() if isinstance(module, nn.ModuleList) and len(module) > 1]
    return max(lists, key=lambda blocks: sum(p.numel() for b in blocks for p in b.parameters()), default=[])


@contextmanager
def _rerun(block: nn.Module) -> Iterator[None]:
    own = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return own(*args, **kwargs)
        return checkpoint(partial(own, **kwargs), *args, use_reentrant=False)

    had = "forward" in vars(block)
    block.forward = forward
    try:
        yield
    finally:
        if had:
            block.forward = own
        else:
            del block.forward


def find_quantized(model: nn.Module) -> str:
    """The name of a kind of quantised weights in the model; empty where there is none."""
    for module in model.modules():
        if type(module).__name__ in QUANTIZED:
            return type(module).__name__
        weight = vars(module).get("_parameters", {}).get("weight")
        kind = type(getattr(weight, "data", None)).__name__
        if kind not in ("Tensor", "Parameter", "NoneType", "FakeTensor"):
            return kind
    return ""


def check_gradients(model: nn.Module, has_path: bool, method: str) -> None:
    """Refuse methods by gradients on quantised weights, whose kernels round what flows back."""
    kind = find_quantized(model)
    if kind and has_path:
        raise ValueError(
            f"the model has quantised weights ({kind}), through which no exact gradient flows back, and {method} needs "
            'gradients: use method="leave_one_out" or "token_staircase", which only run the model forwards'
        )


def count_saved_bytes(run: Callable[[], Any], model: nn.Module) -> int:
    """Bytes of activations that `run()`, a call with gradient, keeps for its way back; weights are not counted."""
    weights = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    seen: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        kept = run()  # noqa: F841 - while it lives, nothing that it keeps is given back and counted twice
    return sum(seen.values())
