"""What a result depends on, as JSON: settings as they are, tensors and weights by the checksum of their bytes.

Where two descriptions are equal, a stored result can be used again. In doubt they differ.
By hand: pickles and joblib's hash differ between processes and versions, and do not depend on a function's code.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import inspect
import json
import os
import types
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Above = ChainMap[int, str]
"""Objects that are being described, by id, with the name to use where they occur inside themselves."""


def described(value: Any) -> Any:
    """A value as JSON that is the same in every process, and differs where the value would change a result.

    Numbers, strings and containers stay as they are. Dataclasses, modules, functions and other objects are described by
    their class or name and their contents. For a function these are its compiled code and the variables of its closure,
    but not the globals that it uses. For a module they include the code of its classes, but not names that begin with
    an underscore. Memory addresses and random numbers are left out.

    Example:
        >>> described({"seed": 0, "points": torch.zeros(2)})["points"]
        'tensor(2,) float32 sha256:af5570f5a1810b7a'
        >>> described(torch.nn.ReLU()) == described(torch.nn.ReLU())
        True
    """
    return _described(value, ChainMap())


def digest(value: Any) -> str:
    """The first 16 digits of the checksum of a value's description.

    Example:
        >>> digest([1, 2]) == digest([1, 2]) != digest([1, 3])
        True
    """
    return hashlib.sha256(json.dumps(described(value), sort_keys=True).encode()).hexdigest()[:16]


def _described(value: Any, above: Above) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if id(value) in above:
        return above[id(value)]  # an object that holds itself
    above = above.new_child({id(value): "itself"})
    if isinstance(value, Tensor):
        return f"tensor{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')} sha256:{_hash([_bytes(value)])}"
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return f"array{value.shape} {value.dtype} sha256:{_hash([np.ascontiguousarray(value).tobytes()])}"
    if isinstance(value, Mapping):
        return {str(key): _described(part, above) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_described(part, above) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_described(part, above) for part in value), key=str)
    if isinstance(value, (bytes, bytearray)):
        return f"bytes({len(value)}) sha256:{_hash([value])}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, (torch.dtype, torch.device, os.PathLike)):
        return str(value)
    return _described_object(value, above)


def _described_object(value: Any, above: Above) -> Any:
    if isinstance(value, type):
        return _name(value)
    if isinstance(value, functools.partial):
        return {"partial": [_described(part, above) for part in (value.func, value.args, value.keywords)]}
    if isinstance(value, types.MethodType):
        return {"method": _described(value.__func__, above), "of": _described(value.__self__, above)}
    if isinstance(value, types.FunctionType):
        return _described_function(value, above)
    if isinstance(value, nn.Module):
        return _described_module(value, above)
    if is_dataclass(value):
        return {"type": _name(type(value))} | {
            f.name: _described(getattr(value, f.name), above) for f in fields(value) if not f.name.startswith("_")
        }
    held = getattr(value, "__dict__", {})
    if held:
        return {"type": _name(type(value))} | {name: _described(part, above) for name, part in sorted(held.items())}
    return getattr(value, "__qualname__", _name(type(value)))


def _described_module(value: nn.Module, above: Above) -> Any:
    """Weights, repr (such as kernel sizes), public attributes (such as a temperature) and code of all its parts."""
    parts = dict(value.named_modules())
    state = dict(value.named_buffers()) | value.state_dict()  # buffers need not be part of the state
    above = above.new_child({id(part): f"module {path}".rstrip() for path, part in parts.items()})
    attributes = {
        path: {name: _described(held, above) for name, held in vars(part).items() if not name.startswith("_")}
        for path, part in parts.items()
    }
    return {
        "module": _name(type(value)),
        "layout": _hash([repr(value).encode()]),
        "weights": _hash(part for name in sorted(state) for part in (name.encode(), _bytes(state[name]))),
        "attributes": _hash([json.dumps(attributes, sort_keys=True).encode()]),
        "code": _hash(code for part in parts.values() for code in _module_code(part)),
    }


def _module_code(module: nn.Module) -> Iterable[bytes]:
    """The code of the module's classes, except for torch's own; of a traced module, its own code."""
    yield _name(type(module)).encode()
    with contextlib.suppress(AttributeError, RuntimeError):  # a scripted container has no code
        yield str(module.code).encode()
    for kind in type(module).__mro__:
        if kind.__module__.partition(".")[0] not in ("torch", "builtins"):
            yield from _class_code(kind)


def _class_code(kind: type) -> Iterable[bytes]:
    """Its functions and plain attributes, which forward may use."""
    for name, member in sorted(vars(kind).items()):
        held = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
        if isinstance(held, types.FunctionType):
            yield from (name.encode(), *_code(held.__code__))
        elif not name.startswith("_"):
            yield from (name.encode(), json.dumps(described(held), sort_keys=True).encode())


def _described_function(value: types.FunctionType, above: Above) -> Any:
    cells = []
    for cell in value.__closure__ or ():
        with contextlib.suppress(ValueError):  # of an empty cell
            cells.append(cell.cell_contents)
    held = [_described(part, above) for part in (value.__defaults__, value.__kwdefaults__, cells) if part]
    name = f"{_name(value)} code:{_hash(_code(value.__code__))}"
    return {"function": name, "holds": held} if held else {"function": name}


def _code(code: types.CodeType) -> Iterable[bytes]:
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            # The order of a set differs between starts of Python.
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant).encode()


def _name(kind: type | types.FunctionType) -> str:
    module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__  # as spawned processes call it
    return f"{module}.{kind.__qualname__}"


def _bytes(value: Any) -> bytes:
    if not isinstance(value, Tensor):
        return repr(value).encode()  # a module's extra state
    plain = value.detach().cpu().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def _hash(parts: Iterable[bytes | bytearray]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:16]
