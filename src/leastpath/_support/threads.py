"""Several threads explain at once: hooks of one thread, random numbers of one block, one lock for the rest. And Ctrl-C,
which reaches one of them at any moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import init
from torch.overrides import TorchFunctionMode

Hook = TypeVar("Hook", bound=Callable[..., Any])

ONE_AT_A_TIME = threading.RLock()
"""Held around libraries that keep state for the whole program: Pyro's stack of handlers, NumPy's global generator."""

LIKE = {torch.rand_like: torch.rand, torch.randn_like: torch.randn}
DRAWING = {
    torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal, torch.bernoulli, torch.multinomial,
    torch.poisson, torch.binomial, torch._standard_gamma, torch._sample_dirichlet, Tensor.bernoulli, Tensor.multinomial,
    Tensor.bernoulli_, Tensor.cauchy_, Tensor.exponential_, Tensor.geometric_, Tensor.log_normal_, Tensor.normal_,
    Tensor.random_, Tensor.uniform_,
    init.uniform_, init.normal_, init.trunc_normal_, init.kaiming_uniform_, init.kaiming_normal_,
}  # fmt: skip


class own_draws(TorchFunctionMode):
    """Inside, torch's random functions draw from a generator of this block, as after `torch.manual_seed(seed)`.

    The global generator is neither seeded nor used, so other threads do not notice. A library that has no argument for
    a generator (Captum, Pyro, the first weights of a module) can be made repeatable in this way.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed % 2**63
        self._generators: dict[torch.device, torch.Generator] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in LIKE:
            like = kwargs.pop("input", None) if "input" in kwargs else args[0]
            kwargs = {"dtype": like.dtype, "device": like.device} | kwargs
            kwargs.pop("memory_format", None)
            func, args = LIKE[func], (like.shape,)
        if func in DRAWING and kwargs.get("generator") is None:
            kwargs["generator"] = self._generator(_device_of(args, kwargs))
        return func(*args, **kwargs)

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]


def _device_of(args: Any, kwargs: Any) -> torch.device:
    given = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
    if given is not None:
        return given.device
    return torch.device(kwargs.get("device") or torch.get_default_device())


def in_this_thread(hook: Hook) -> Hook:
    """A module's hook that acts only in the thread that made it: other threads may run the same model meanwhile.

    Autograd's own workers, which run a checkpointed module again, are not threads of Python and count as this one.
    """
    owner = threading.get_ident()

    @wraps(hook)
    def of_owner(*args: Any) -> Any:
        if threading.get_ident() == owner or threading.current_thread().name.startswith("Dummy-"):
            return hook(*args)
        return None

    return of_owner  # type: ignore[return-value]


def finish(step: Callable[[], object]) -> None:
    """Put something back, also if Ctrl-C is pressed meanwhile: it is raised when all is done.

    Args:
        step: what is done; a second time it does no harm.
    """
    try:
        step()
    except KeyboardInterrupt:
        step()
        raise
