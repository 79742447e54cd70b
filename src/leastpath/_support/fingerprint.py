"""What a result depends on, as JSON: settings as they are, tensors and weights by the checksum of their bytes.

Where two descriptions are equal, a stored result can be used again. What cannot be described at all is marked, so that
nobody goes on without being asked (`doubts`). Of code, the text of functions and of a user's own classes is compared,
not what they call: whether a model still does the same is asked of the model (`score/behavior.py`).
By hand: pickles and joblib's hash differ between processes and versions, and do not depend on a function's text.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import inspect
import json
import logging
import os
import sys
import sysconfig
import threading
import types
import weakref
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.optional import import_by_name

Above = ChainMap[int, str]
"""Objects that are being described, by id, with the name to use where they occur inside themselves."""
UNKNOWN = "unknown"
"""The key under which a description names what it cannot describe."""
_STATELESS = (type(threading.Lock()), type(threading.RLock()), weakref.ref, logging.Logger)
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))  # torch's own bookkeeping; parameters and buffers are read elsewhere
_INSTALLED = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
_SKIPPED = frozenset({"_abc_impl", "_is_protocol", "_is_runtime_protocol"})


def describe(value: Any) -> Any:
    """A value as JSON that is the same in every process, and differs where the value would change a result.

    Numbers, strings and containers stay as they are. Objects are described by their class and by what a pickle of them
    would hold. A function is its text, its defaults and what its closure holds. A module is its weights, attributes and
    hooks, and the functions of its classes. Memory addresses are left out.
    """
    return _describe(value, ChainMap())


def digest(value: Any) -> str:
    """The first 16 digits of the checksum of a value's description."""
    return _json_hash(describe(value))


def doubts(description: Any) -> list[str]:
    """What a description could not describe, such as an open file: nobody can tell whether it has changed."""
    if isinstance(description, list):
        return sorted({name for part in description for name in doubts(part)})
    if not isinstance(description, dict):
        return []
    own = description.get(UNKNOWN, [])
    return sorted({*(own if isinstance(own, list) else [own]), *doubts([*description.values()])})


def source_digest(name: Any) -> str | None:
    """The checksum of the file of the module that "package.module:name" names; None for what is no such name."""
    if not isinstance(name, str) or ":" not in name:
        return None
    import_by_name(name)  # says what is wrong with the name
    file = getattr(sys.modules[name.partition(":")[0]], "__file__", None)
    return None if file is None else _hash([Path(file).read_bytes()])


def _describe(value: Any, above: Above) -> Any:
    if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum)):
        return value
    if id(value) in above:
        return above[id(value)]  # an object that holds itself
    above = above.new_child({id(value): "itself"})
    if isinstance(value, Tensor):
        return _describe_tensor(value)
    if isinstance(value, np.generic):
        return value.item() if not isinstance(value.item(), (complex, np.generic)) else repr(value)
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return {"array": list(value.shape), "of": _describe(value.ravel().tolist(), above)}
        return f"array{value.shape} {value.dtype} sha256:{_hash([np.ascontiguousarray(value).tobytes()])}"
    if isinstance(value, Mapping):
        named = {str(key): _describe(part, above) for key, part in value.items()}
        if len(named) == len(value):
            return named
        pairs = [[f"{type(key).__name__} {key}", _describe(part, above)] for key, part in value.items()]
        return {"mapping": sorted(pairs, key=str)}  # 1 and "1" are two keys
    if isinstance(value, (list, tuple)):
        return [_describe(part, above) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_describe(part, above) for part in value), key=str)
    if isinstance(value, (bytes, bytearray)):
        return f"bytes({len(value)}) sha256:{_hash([value])}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, (torch.dtype, torch.device, os.PathLike, complex)):
        return str(value)
    return _describe_object(value, above)


def _describe_object(value: Any, above: Above) -> Any:
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, type):
        return _describe_class(value, above) if _is_users(value) else _name(value)
    if isinstance(value, functools.partial):
        return {"partial": _describe([value.func, value.args, value.keywords], above)}
    if isinstance(value, types.MethodType):
        return {"method": _describe(value.__func__, above), "of": _describe(value.__self__, above)}
    if isinstance(value, types.FunctionType):
        return _describe_function(value, above)
    if isinstance(value, nn.Module):
        return _describe_module(value, above)
    if isinstance(value, _STATELESS):
        return _name(type(value))
    if callable(value) and hasattr(value, "__wrapped__"):  # of functools.cache
        return {"wrapped": _describe(value.__wrapped__, above)}
    if isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__
        is_plain = owner is None or isinstance(owner, (types.ModuleType, type))
        return value.__qualname__ if is_plain else {"method": value.__qualname__, "of": _describe(owner, above)}
    try:
        return _describe_contents(value, above)
    except RecursionError:
        raise
    except Exception:  # an object whose attributes cannot be read
        return {UNKNOWN: _name(type(value))}


def _describe_contents(value: Any, above: Above) -> Any:
    """An object by its class and all that it holds."""
    kind = type(value)
    about: dict[str, Any] = {"type": _name(kind)}
    if _is_users(kind):
        about["code"] = _describe_class(kind, above)["code"]
    if is_dataclass(value):
        # field(compare=False) is a class's own word for what two equal objects may differ in.
        names = [f.name for f in fields(value) if f.compare and (_is_users(kind) or not f.name.startswith("_"))]
        return about | {name: _describe(getattr(value, name), above) for name in names}
    state = _pickled_state(value)
    if state is None:
        named = callable(value) and hasattr(value, "__qualname__")
        return value.__qualname__ if named else {UNKNOWN: _name(kind)}
    remembered = functools.cached_property
    names = [name for name in sorted(state) if not isinstance(getattr(kind, name, None), remembered)]
    return about | {name: _describe(state[name], above) for name in names}


def _pickled_state(value: Any) -> dict[str, Any] | None:
    """What a pickle of an object would hold, by name; without a pickle its attributes; None if it has none either."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # classes refuse in any way
        return dict(getattr(value, "__dict__", {})) or None
    if isinstance(reduced, str):
        return {"state": reduced}
    made, given, state, *items = [*reduced, None, None][:5]
    state, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    if made.__name__ == "__newobj__" and not any(items) and isinstance(state or {}, dict):
        return {str(name): held for name, held in ((state or {}) | (slots or {})).items()}
    return {"state": [given, state, slots, *(part and list(part) for part in items)]}  # items are iterators


def _describe_tensor(value: Tensor) -> Any:
    kind = f"tensor{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    try:
        return f"{kind} sha256:{_hash(_bytes(value))}"
    except (RuntimeError, NotImplementedError):  # a meta tensor, say, has no numbers
        return {UNKNOWN: f"{kind} of device {value.device} and layout {value.layout}"}


# ---- modules -----------------------------------------------------------------------------------------------------


def _describe_module(value: nn.Module, above: Above) -> Any:
    """Weights, repr (such as kernel sizes), attributes (such as a temperature), hooks and code of all its parts."""
    parts = dict(value.named_modules())
    state = dict(value.named_buffers()) | value.state_dict()  # buffers need not be part of the state
    above = above.new_child({id(part): f"module {path}".rstrip() for path, part in parts.items()})
    attributes = {path: _describe(dict(_module_attributes(part)), above) for path, part in parts.items()}
    code = [_module_code(part, above) for part in parts.values()]
    hooks = [found for part in parts.values() if (found := _describe(list(_hooks(part)), above))]
    in_doubt = doubts([attributes, code, hooks])
    return {
        "module": _name(type(value)),
        "layout": _hash([repr(value).encode()]),
        "weights": _hash(part for name in sorted(state) for part in (name.encode(), *_bytes(state[name]))),
        "attributes": _json_hash(attributes),
        "code": _json_hash(code),
        **({"hooks": _json_hash(hooks)} if hooks else {}),
        **({UNKNOWN: in_doubt} if in_doubt else {}),
    }


def _module_code(module: Any, above: Above) -> list[Any]:
    """The module's classes; of a traced module, its own code and constants."""
    found: list[Any] = [_describe(type(module), above)]
    with contextlib.suppress(AttributeError, RuntimeError):  # a scripted container has no code
        found.append(str(module.code))
    with contextlib.suppress(AttributeError, RuntimeError):
        found.append(_describe(module.code_with_constants[1].const_mapping, above))  # of torch.jit
        found.append(module._c.dump_to_str(False, True, False))  # attributes that are not weights
    return found


def _module_attributes(part: nn.Module) -> Iterator[tuple[str, Any]]:
    """What torch does not keep itself. Of torch's own classes, private names are bookkeeping."""
    is_torchs = type(part).__module__.partition(".")[0] == "torch"
    for name, held in sorted(vars(part).items()):
        if name not in _OF_EVERY_MODULE | _SKIPPED and not (is_torchs and name.startswith("_")):
            yield name, held


def _hooks(part: nn.Module) -> Iterator[Any]:
    """What runs before and after forward and backward. The keys are numbers that differ between processes."""
    for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
        yield from getattr(part, kind, {}).values()  # a module of an old pickle lacks some


# ---- code --------------------------------------------------------------------------------------------------------


def _describe_class(kind: type, above: Above) -> dict[str, Any]:
    """The functions and plain attributes of a user's own class, which forward may use, and of its bases."""
    above = above.new_child({id(kind): "itself"})
    members: dict[str, Any] = {}
    for name, member in sorted(vars(kind).items()):
        held = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
        held = held.func if isinstance(held, functools.cached_property) else held
        is_data = not name.startswith("__") and name not in _SKIPPED and not inspect.isdatadescriptor(held)
        if is_data or isinstance(held, types.FunctionType):
            members[name] = _describe(held, above)
    bases = [_describe(base, above) for base in kind.__bases__]
    in_doubt = doubts([members, bases])
    return {"class": _name(kind), "code": _json_hash([members, bases]), **({UNKNOWN: in_doubt} if in_doubt else {})}


def _describe_function(value: types.FunctionType, above: Above) -> dict[str, Any]:
    cells = []
    for cell in value.__closure__ or ():
        with contextlib.suppress(ValueError):  # of an empty cell
            cells.append(cell.cell_contents)
    own = {name: held for name, held in vars(value).items() if name != "__wrapped__"}
    held = [_describe(part, above) for part in (value.__defaults__, value.__kwdefaults__, cells, own) if part]
    found: dict[str, Any] = {"function": f"{_name(value)} text:{_hash(_text(value))}"}
    return found | ({"holds": held} if held else {})


def _text(function: types.FunctionType) -> Iterator[bytes]:
    """The source of a function with its constants, as a line may hold several; its code where there is no source."""
    try:
        yield inspect.getsource(function).encode()
    except (OSError, TypeError, IndentationError):
        yield function.__code__.co_code
    yield from _constants(function.__code__)


def _constants(code: types.CodeType) -> Iterator[bytes]:
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _constants(constant)
        else:  # the order of a set differs between starts of Python
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant).encode()


def _is_users(value: type) -> bool:
    """Whether a class is a user's own, and not from this library, Python's or an installed one."""
    module = value.__module__ or "builtins"
    if module in ("__main__", "__mp_main__"):
        return True
    if module.partition(".")[0] in sys.stdlib_module_names | {"leastpath", "torch"}:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or not file.startswith(_INSTALLED)


def _name(kind: type | types.FunctionType) -> str:
    module = "__main__" if kind.__module__ == "__mp_main__" else kind.__module__  # as spawned processes call it
    return f"{module}.{kind.__qualname__}"


# ---- bytes -------------------------------------------------------------------------------------------------------


def _bytes(value: Any) -> list[bytes]:
    if not isinstance(value, Tensor):
        return [repr(value).encode()]  # a module's extra state
    if value.is_quantized:
        return [str(value.q_scale()).encode(), *_bytes(value.int_repr())]
    if value.layout == torch.sparse_coo:
        whole = value.coalesce()
        return _bytes(whole.indices()) + _bytes(whole.values())
    plain = value.detach().cpu().contiguous()
    return [plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""]


def _json_hash(description: Any) -> str:
    return _hash([json.dumps(description, sort_keys=True).encode()])


def _hash(parts: Iterable[bytes | bytearray]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:16]
