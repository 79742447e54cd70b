"""Loading somebody's model from a file, without running code that hides in it.

A pickle may run anything when it is opened, so none is opened. What remains: a program that torch itself exported
(.pt2), a TorchScript archive, or the weights as safetensors with the class that they belong to.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import json
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

FORMATS = (
    "a program saved by torch.export.save(…, 'model.pt2'), a TorchScript archive, or weights as .safetensors with "
    "--model-class package.module:Class"
)


def load_model(
    file: str | Path, model_class: str | None = None, arguments: str | None = None
) -> Callable[[Tensor], Any]:
    """A model in evaluation mode, on the CPU.

    Args:
        file: .pt2 (torch.export), .pt or .pth (TorchScript), or .safetensors.
        model_class: "package.module:Class" of weights; it is imported, so it must be code that you trust.
        arguments: JSON object of the class's keyword arguments.

    Example:
        >>> load_model("model.bin")
        Traceback (most recent call last):
        ...
        ValueError: model.bin is no file: ...
    """
    file = Path(file)
    if not file.is_file():
        raise ValueError(f"{file} is no file: pass {FORMATS}")
    if model_class is not None:
        return _from_class(file, model_class, arguments)
    if file.suffix == ".safetensors":
        raise ValueError(f"{file} holds weights only: add --model-class package.module:Class, the class they belong to")
    members = _members(file)
    if any(name.endswith("constants.pkl") for name in members):  # only TorchScript archives have one
        return _from_script(file)
    if file.suffix == ".pt2":
        return _from_export(file)
    raise ValueError(
        f"{file} is a pickle, which could run any code when it is opened, or no model at all: pass {FORMATS}"
    )


def _members(file: Path) -> list[str]:
    if not zipfile.is_zipfile(file):
        return []
    with zipfile.ZipFile(file) as archive:
        return archive.namelist()


def _from_script(file: Path) -> nn.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is on its way out; its files are not
            module: nn.Module = torch.jit.load(str(file), map_location="cpu")
    except RuntimeError as error:
        raise ValueError(f"{file} cannot be read as TorchScript: {str(error).splitlines()[0]}") from error
    return module.eval()


def _from_export(file: Path) -> nn.Module:
    content = file.read_bytes()  # once: what is checked is what is loaded
    check_program(content, str(file))
    try:
        program = torch.export.load(io.BytesIO(content))
        # Guards are code in the file, which only checks shapes: they are not run.
        takes_guards = "check_guards" in inspect.signature(program.module).parameters
        module = program.module(**({"check_guards": False} if takes_guards else {}))
    except Exception as error:  # torch names no type for a file that it cannot read
        raise ValueError(f"{file} cannot be read as an exported program: {str(error).splitlines()[0]}") from error
    for part in module.modules():
        part.training = False  # what was exported is what runs; `eval()` is not offered
    return module


def _from_class(file: Path, model_class: str, arguments: str | None) -> nn.Module:
    module_name, _, name = model_class.partition(":")
    if not name:
        raise ValueError(f"--model-class {model_class!r} names no class: write package.module:Class")
    folder = str(Path.cwd())  # where somebody's own module usually is; installed commands do not look there
    added = folder not in sys.path
    try:
        if added:
            sys.path.insert(0, folder)
        made: Any = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--model-class {model_class!r} cannot be imported: {error}") from error
    finally:
        if added:
            sys.path.remove(folder)
    model = made(**_keywords(arguments))
    if not isinstance(model, nn.Module):
        raise ValueError(f"--model-class {model_class!r} makes a {type(model).__name__}, expected a torch.nn.Module")
    try:
        model.load_state_dict(read_state(file))
    except RuntimeError as error:
        raise ValueError(f"{file} holds no weights of {model_class}: {str(error).splitlines()[-1].strip()}") from error
    return model.eval()


def read_state(file: Path) -> dict[str, Tensor]:
    """A state dict from .safetensors, or from a file of torch.save that holds tensors and nothing else.

    Example:
        >>> read_state(Path("net.safetensors"))  # doctest: +SKIP
    """
    if file.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(file)
        except SafetensorError as error:
            raise ValueError(f"{file} cannot be read as safetensors: {error}") from error
    from pickle import UnpicklingError

    try:
        state = torch.load(file, weights_only=True, map_location="cpu")
    except (UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{file} is no plain file of tensors, and anything else could run code when it is opened: save the "
            "weights with safetensors.torch.save_file(model.state_dict(), …)"
        ) from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(
            f"{file} holds a {type(state).__name__}, expected a state dict: torch.save(model.state_dict())"
        )
    return state


def _keywords(arguments: str | None) -> dict[str, Any]:
    try:
        given = json.loads(arguments or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"--model-args {arguments!r} is no JSON ({error}): write '{{\"width\": 8}}'") from error
    if not isinstance(given, dict):
        raise ValueError(f"--model-args {arguments!r} is no JSON object: write '{{\"width\": 8}}'")
    return given


# ---- what may be in an exported program --------------------------------------------------------------------------

_TARGET = re.compile(r"(torch\.ops\.\w+|_operator|math)(\.\w+)+|torch\.sym_\w+")
_SYMBOLIC = re.compile(
    "Symbol|Integer|Rational|Float|Add|Mul|Pow|Max|Min|Mod|Eq|Ne|Lt|Le|Gt|Ge|And|Or|Not|CeilDiv|CeilToInt|CleanDiv|"
    "FloorDiv|FloorToInt|FloatPow|FloatTrueDiv|Identity|IntTrueDiv|LShift|ModularIndexing|PowByNatural|PythonMod|RShift|"
    "RoundDecimal|RoundToInt|ToFloat|TruncToFloat|TruncToInt|Where"
)
_ARITHMETIC = (
    ast.Expression, ast.Call, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.keyword,
    ast.Load, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


def check_program(content: bytes, name: str) -> None:
    """Refuse a .pt2 archive that could run anything but torch's own operators when it is loaded.

    `torch.export.load` falls back to an unsafe pickle where a safe one fails, opens pickled weights and constants,
    evaluates the expressions of its shapes and loads compiled libraries: none of these may be in the file.

    Example:
        >>> check_program(b"no archive", "model.pt2")
        Traceback (most recent call last):
        ...
        ValueError: model.pt2 is no exported program: save one by torch.export.save(torch.export.export(model, ...
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except zipfile.BadZipFile as error:
        raise ValueError(
            f"{name} is no exported program: save one by torch.export.save(torch.export.export(model, (example,)), "
            "'model.pt2')"
        ) from error
    with archive:
        members = archive.namelist()
        if len({member.lower() for member in members}) < len(members):
            raise ValueError(f"{name} is refused: it holds two files of one name, which readers take for each other")
        for member in members:
            if (why := _objection(member, archive.read(member))) is not None:
                raise ValueError(f"{name} is refused: its part {member} {why}")


def _objection(member: str, content: bytes) -> str | None:
    """Why a part of an archive could run code; None if it cannot."""
    if "aotinductor" in member or member.endswith((".so", ".cubin", ".dll", ".dylib")):
        return "is compiled code"
    if member.endswith(".json"):
        try:
            return next(_objections(json.loads(content)), None)
        except (ValueError, RecursionError):
            return "is no JSON"
    if member.endswith((".pt", ".pkl")) and content:
        try:
            torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
        except Exception:  # whatever is wrong with it, torch would try again and run what it finds
            return "is a pickle of more than tensors"
    return None


def _objections(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for item in part:
            yield from _objections(item)
    elif isinstance(part, dict):
        if part.get("use_pickle") or str(part.get("path_name", "")).startswith(("custom_obj", "opaque")):
            yield "points to a pickle"
        target, expression = part.get("target"), part.get("expr_str")
        if isinstance(target, str) and not _TARGET.fullmatch(target):
            yield f"calls {target}, which is none of torch's operators"
        if isinstance(expression, str) and not _is_arithmetic(expression):
            yield f"has the expression {expression[:60]!r}, which is more than arithmetic"
        for item in part.values():
            yield from _objections(item)


def _is_arithmetic(expression: str) -> bool:
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        if not isinstance(node, _ARITHMETIC):
            return False
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and _SYMBOLIC.fullmatch(node.func.id)):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.isidentifier():
            return False
    return True
