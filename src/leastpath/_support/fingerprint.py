"""What a result depends on, as JSON: settings as they are, tensors and weights by the checksum of their bytes.

Where two descriptions are equal, a stored result can be used again. In doubt they differ; what cannot be described at
all is marked, so that nobody goes on without being asked (`doubts`).
By hand: pickles and joblib's hash differ between processes and versions, and do not depend on a function's code.
"""

from __future__ import annotations

import contextlib
import dis
import enum
import functools
import hashlib
import importlib.util
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

from leastpath._support.optional import imported

Above = ChainMap[int, str]
"""Objects that are being described, by id, with the name to use where they occur inside themselves."""
UNKNOWN = "unknown"
"""The key under which a description names what it cannot describe."""
_STATELESS = (type(threading.Lock()), type(threading.RLock()), weakref.ref, logging.Logger)
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))  # torch's own bookkeeping; parameters and buffers are read elsewhere
_SKIPPED = frozenset({"_abc_impl", "_is_protocol", "_is_runtime_protocol"})


def described(value: Any) -> Any:
    """A value as JSON that is the same in every process, and differs where the value would change a result.

    Numbers, strings and containers stay as they are. Objects are described by their class and all that they hold: the
    attributes, also private ones and slots, or what a pickle of them would hold. A function is its compiled code, what
    its closure holds and, where it is a user's own, the globals that it names, with the functions that it calls. A
    module is its weights, attributes, hooks and the code of its classes. Memory addresses are left out.

    Example:
        >>> described({"seed": 0, "points": torch.zeros(2)})["points"]
        'tensor(2,) float32 sha256:af5570f5a1810b7a'
        >>> described(torch.nn.ReLU()) == described(torch.nn.ReLU())
        True
    """
    return _Describer().of(value, ChainMap())


def digest(value: Any) -> str:
    """The first 16 digits of the checksum of a value's description.

    Example:
        >>> digest([1, 2]) == digest([1, 2]) != digest([1, 3])
        True
    """
    return _json_hash(described(value))


def doubts(description: Any) -> list[str]:
    """What a description could not describe, such as an open file: nobody can tell whether it has changed.

    Example:
        >>> doubts(described({"rows": iter([1]), "numbers": (n for n in range(3))}))
        ['builtins.generator']
    """
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
    imported(name)  # says what is wrong with the name
    file = getattr(sys.modules[name.partition(":")[0]], "__file__", None)
    return None if file is None else _hash([Path(file).read_bytes()])


class _Describer:
    """Describes one value. A function that it meets a second time is only named."""

    def __init__(self) -> None:
        self._met: dict[int, Any] = {}

    def of(self, value: Any, above: Above) -> Any:
        if value is None or (isinstance(value, (bool, int, float, str)) and not isinstance(value, enum.Enum)):
            return value
        if id(value) in above:
            return above[id(value)]  # an object that holds itself
        above = above.new_child({id(value): "itself"})
        if isinstance(value, Tensor):
            return _described_tensor(value)
        if isinstance(value, np.generic):
            return value.item() if not isinstance(value.item(), (complex, np.generic)) else repr(value)
        if isinstance(value, np.ndarray):
            if value.dtype.hasobject:
                return {"array": list(value.shape), "of": [self.of(part, above) for part in value.ravel().tolist()]}
            return f"array{value.shape} {value.dtype} sha256:{_hash([np.ascontiguousarray(value).tobytes()])}"
        if isinstance(value, Mapping):
            named = {str(key): self.of(part, above) for key, part in value.items()}
            if len(named) == len(value):
                return named
            pairs = [[f"{type(key).__name__} {key}", self.of(part, above)] for key, part in value.items()]
            return {"mapping": sorted(pairs, key=str)}  # 1 and "1" are two keys
        if isinstance(value, (list, tuple)):
            return [self.of(part, above) for part in value]
        if isinstance(value, (set, frozenset)):
            return sorted((self.of(part, above) for part in value), key=str)
        if isinstance(value, (bytes, bytearray)):
            return f"bytes({len(value)}) sha256:{_hash([value])}"
        if isinstance(value, enum.Enum):
            return f"{type(value).__qualname__}.{value.name}"
        if isinstance(value, (torch.dtype, torch.device, os.PathLike, complex)):
            return str(value)
        return self._object(value, above)

    def _object(self, value: Any, above: Above) -> Any:
        if isinstance(value, types.ModuleType):
            return value.__name__
        if isinstance(value, type):
            return self._class(value, above) if _is_users(value) else _name(value)
        if isinstance(value, functools.partial):
            return {"partial": [self.of(part, above) for part in (value.func, value.args, value.keywords)]}
        if isinstance(value, types.MethodType):
            return {"method": self.of(value.__func__, above), "of": self.of(value.__self__, above)}
        if isinstance(value, types.FunctionType):
            return self._function(value, above)
        if isinstance(value, nn.Module):
            return self._module(value, above)
        if isinstance(value, _STATELESS):
            return _name(type(value))
        if callable(value) and hasattr(value, "__wrapped__"):  # of functools.cache
            return {"wrapped": self.of(value.__wrapped__, above)}
        if isinstance(value, types.BuiltinFunctionType):
            owner = value.__self__
            is_plain = owner is None or isinstance(owner, (types.ModuleType, type))
            return value.__qualname__ if is_plain else {"method": value.__qualname__, "of": self.of(owner, above)}
        try:
            return self._held(value, above)
        except RecursionError:
            raise
        except Exception:  # an object whose attributes cannot be read
            return {UNKNOWN: _name(type(value))}

    def _held(self, value: Any, above: Above) -> Any:
        """An object by its class and all that it holds."""
        kind = type(value)
        about: dict[str, Any] = {"type": _name(kind)}
        if _is_users(kind):
            about["code"] = self._class(kind, above)["code"]
        if is_dataclass(value):
            # field(compare=False) is a class's own word for what two equal objects may differ in.
            names = [f.name for f in fields(value) if f.compare and (_is_users(kind) or not f.name.startswith("_"))]
            return about | {name: self.of(getattr(value, name), above) for name in names}
        held = _attributes(value)
        if _pickles_itself(kind) or not held:
            reduced = _reduced(value)
            if reduced is not None:
                return about | {"state": [self.of(part, above) for part in reduced]}
            if not held:
                named = callable(value) and hasattr(value, "__qualname__")
                return value.__qualname__ if named else {UNKNOWN: _name(kind)}
        return about | {name: self.of(part, above) for name, part in sorted(held.items())}

    # ---- modules -------------------------------------------------------------------------------------------------

    def _module(self, value: nn.Module, above: Above) -> Any:
        """Weights, repr (such as kernel sizes), attributes (such as a temperature), hooks and code of all its parts."""
        parts = dict(value.named_modules())
        state = dict(value.named_buffers()) | value.state_dict()  # buffers need not be part of the state
        above = above.new_child({id(part): f"module {path}".rstrip() for path, part in parts.items()})
        attributes = {
            path: {name: self.of(held, above) for name, held in _module_attributes(part)}
            for path, part in parts.items()
        }
        code = [self._module_code(part, above) for part in parts.values()]
        hooks = [found for part in parts.values() if (found := [self.of(hook, above) for hook in _hooks(part)])]
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

    def _module_code(self, module: Any, above: Above) -> Any:
        """The code of the module's classes, except for torch's own; of a traced module, its own code and constants."""
        found: list[Any] = [_name(type(module))]
        with contextlib.suppress(AttributeError, RuntimeError):  # a scripted container has no code
            found.append(str(module.code))
        with contextlib.suppress(AttributeError, RuntimeError):
            found.append(self.of(module.code_with_constants[1].const_mapping, above))  # of torch.jit
            found.append(module._c.dump_to_str(False, True, False))  # attributes that are not weights
        for kind in type(module).__mro__:
            if kind.__module__.partition(".")[0] not in ("torch", "builtins"):
                found.append(self._class(kind, above))
        return found

    def _class(self, kind: type, above: Above) -> dict[str, Any]:
        """Its functions and plain attributes, which forward may use."""
        if id(kind) in self._met:
            return {"class": _name(kind), "code": "above"}
        self._met[id(kind)] = kind
        members: dict[str, Any] = {}
        for name, member in sorted(vars(kind).items()):
            held = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
            held = getattr(held, "func", held) if isinstance(held, functools.cached_property) else held
            if isinstance(held, types.FunctionType):
                members[name] = self._function(held, above)
            elif not name.startswith("__") and name not in _SKIPPED and not inspect.isdatadescriptor(held):
                members[name] = self.of(held, above)
        in_doubt = doubts(members)
        bases = [self._class(base, above) for base in kind.__bases__ if _is_users(base)]
        code = {"class": _name(kind), "code": _json_hash([members, bases])}
        return code | ({UNKNOWN: in_doubt} if in_doubt else {})

    # ---- functions -----------------------------------------------------------------------------------------------

    def _function(self, value: types.FunctionType, above: Above) -> Any:
        if id(value) in self._met:
            return {"function": f"{_name(value)} above"}
        self._met[id(value)] = value
        cells = []
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # of an empty cell
                cells.append(cell.cell_contents)
        own = {name: held for name, held in vars(value).items() if name != "__wrapped__"}
        held = [self.of(part, above) for part in (value.__defaults__, value.__kwdefaults__, cells, own) if part]
        found: dict[str, Any] = {"function": f"{_name(value)} code:{_hash(_code(value.__code__))}"}
        if held:
            found["holds"] = held
        used = {name: self.of(part, above) for name, part in _globals_of(value)} if _is_users(value) else {}
        if used:
            found["uses"] = used
        imports = dict(_imports_of(value.__code__)) if _is_users(value) else {}
        if imports:
            found["imports"] = imports
        return found


def _imports_of(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """The user's own modules that a function imports when it runs, each with the checksum of its file.

    They are not imported here: a description must not depend on whether the function has run.
    """
    named = {step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME"}
    for name in sorted(named):
        with contextlib.suppress(ImportError, ValueError, AttributeError, OSError):
            found = importlib.util.find_spec(name)  # imports the package of a dotted name, as the function would
            if found is not None and found.origin is not None and _is_users_file(name, found.origin):
                yield name, _hash([Path(found.origin).read_bytes()])
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _imports_of(constant)


def _globals_of(value: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The globals that a function names, except for foreign modules: of a user's own module, what it names of that."""
    names = sorted(_names_in(value.__code__))
    for name in names:
        if name not in value.__globals__:
            continue
        held = value.__globals__[name]
        if not isinstance(held, types.ModuleType):
            yield name, held
        elif _is_users_module(held.__name__):
            yield from ((f"{name}.{inner}", vars(held)[inner]) for inner in names if inner in vars(held))


def _names_in(code: types.CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names_in, inner))


def _is_users(value: Any) -> bool:
    """Whether a class or function is a user's own, and not from this library, Python's or an installed one."""
    return _is_users_module(getattr(value, "__module__", None) or "builtins")


@functools.lru_cache(maxsize=1024)
def _is_users_module(name: str) -> bool:
    if name in ("__main__", "__mp_main__"):
        return True
    return _is_users_file(name, getattr(sys.modules.get(name), "__file__", None))


def _is_users_file(module: str, file: str | None) -> bool:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top in ("leastpath", "torch"):
        return False
    installed = {sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    return file is None or not any(Path(file).is_relative_to(folder) for folder in installed)


def _attributes(value: Any) -> dict[str, Any]:
    """All that an object holds in its dictionary and slots, except for what it has only remembered."""
    held = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            is_hidden = name.startswith("__") and not name.endswith("__")
            full = f"_{kind.__name__.lstrip('_')}{name}" if is_hidden else name
            if full not in ("__dict__", "__weakref__") and hasattr(value, full):
                held[full] = getattr(value, full)
    remembered = functools.cached_property
    return {name: part for name, part in held.items() if not isinstance(getattr(type(value), name, None), remembered)}


def _module_attributes(part: nn.Module) -> Iterator[tuple[str, Any]]:
    """What torch does not keep itself. Of torch's own classes, private names are bookkeeping."""
    is_torchs = type(part).__module__.partition(".")[0] == "torch"
    for name, held in _attributes(part).items():
        if name not in _OF_EVERY_MODULE | _SKIPPED and not (is_torchs and name.startswith("_")):
            yield name, held


def _hooks(part: nn.Module) -> Iterator[Any]:
    """What runs before and after forward and backward. The keys are numbers that differ between processes."""
    for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
        yield from getattr(part, kind, {}).values()  # a module of an old pickle lacks some


def _pickles_itself(kind: type) -> bool:
    names = ("__reduce__", "__reduce_ex__", "__getstate__")
    return any(getattr(kind, name, None) is not getattr(object, name, None) for name in names)


def _reduced(value: Any) -> list[Any] | None:
    """What a pickle of the object would hold; None if it has no pickle."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:
        return None
    if isinstance(reduced, str):
        return [reduced]
    # Parts four and five are iterators over items.
    return [list(part) if i in (3, 4) and part is not None else part for i, part in enumerate(reduced)]


def _described_tensor(value: Tensor) -> Any:
    kind = f"tensor{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    try:
        return f"{kind} sha256:{_hash(_bytes(value))}"
    except (RuntimeError, NotImplementedError):  # a meta tensor, say, has no numbers
        return {UNKNOWN: f"{kind} of device {value.device} and layout {value.layout}"}


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
