"""Results as files: safetensors, which holds tensors and text and can run no code."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path as File
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_kind
from leastpath._support.files import write_atomically
from leastpath._support.optional import import_optional
from leastpath.geometry.path import Path
from leastpath.result.status import Note, Outcome, Status

FORMAT = "leastpath attribution 1"


def packed_fields(fields: Mapping[str, Any]) -> bytes:
    """Named values as the bytes of a safetensors file. What has no place in one is kept as its `repr`.

    Kept as they are: tensors, NumPy arrays (as tensors), numbers, text, None, tuples, lists, dictionaries with text as
    keys, paths and statuses.

    Example:
        >>> import pytest
        >>> _ = pytest.importorskip("safetensors")
        >>> unpacked_fields(packed_fields({"a": torch.ones(2), "b": ("x", None)}), "here")
        {'a': tensor([1., 1.]), 'b': ('x', None)}
    """
    save = import_optional("safetensors.torch", "results are kept as safetensors", "io").save
    tensors: dict[str, Tensor] = {}
    tree = {name: _tree(value, tensors) for name, value in fields.items()}
    tensors = tensors or {"0": torch.zeros(1)}  # an empty file has no tensor at all, which safetensors does not read
    words = json.dumps(tree)
    about = {"leastpath": FORMAT, "fields": words, "sha256": _checksum(words, tensors)}
    content: bytes = save(tensors, metadata=about)
    return content


def unpacked_fields(content: bytes, name: str) -> dict[str, Any]:
    """The values that `packed_fields` packed. ValueError for other bytes; `name` is what the sentence calls them."""
    library = import_optional("safetensors", "results are kept as safetensors", "io")
    load = import_optional("safetensors.torch", "results are kept as safetensors", "io").load
    try:
        size = int.from_bytes(content[:8], "little")
        tensors = load(content)  # checks all sizes, so that what is cut off is found
        header = json.loads(content[8 : 8 + size])
    except (library.SafetensorError, ValueError) as error:
        raise ValueError(f"{name} is cut off, or is not a safetensors file ({error}): save the result again") from error
    about = header.get("__metadata__") or {}
    if about.get("leastpath") != FORMAT:
        raise ValueError(f"{name} holds no explanation, or one of another version: write it with result.save(path)")
    try:
        if about["sha256"] != _checksum(about["fields"], tensors):
            raise ValueError("its numbers are not those that were written")
        return {key: _value(tree, tensors) for key, tree in json.loads(about["fields"]).items()}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ValueError(f"{name} is damaged ({error}): save the result again") from error


def _checksum(words: str, tensors: Mapping[str, Tensor]) -> str:
    """Of all that a file holds: safetensors checks sizes, and not whether a disk or a copy has changed a number."""
    found = hashlib.sha256(words.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel():
            found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def write_fields(path: str | os.PathLike[str], fields: Mapping[str, Any]) -> File:
    """Write named values to a file, completely or not at all."""
    return write_atomically(path, packed_fields(fields))


def read_fields(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_fields` wrote."""
    check_kind("path", path, (str, os.PathLike), "the file that result.save(path) wrote")
    file = File(path)
    if not file.is_file():
        raise ValueError(f"{file} is not a file: pass what result.save(path) wrote")
    return unpacked_fields(file.read_bytes(), str(file))


def _tree(value: Any, tensors: dict[str, Tensor]) -> Any:
    """A value as JSON; tensors are put aside. A dictionary of one key says what it is."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return _tree(value.item(), tensors)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        value = torch.as_tensor(value)
    if isinstance(value, Tensor) and not value.is_complex() and not value.is_sparse:
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)  # none shares memory
        return {"tensor": name}
    if isinstance(value, Path):
        return {"path": [_tree(part, tensors) for part in (value.points, value.route, value.offsets)]}
    if isinstance(value, Status):
        return {"status": [[note.outcome.name, note.sentence] for note in value.notes]}
    if isinstance(value, (tuple, list)):
        return {type(value).__name__ if type(value) in (tuple, list) else "tuple": [_tree(v, tensors) for v in value]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _tree(inner, tensors) for key, inner in value.items()}}
    return repr(value)


def _value(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, inner),) = tree.items()
    if kind == "tensor":
        return tensors[inner]
    if kind == "status":
        if not all(isinstance(sentence, str) for _, sentence in inner):
            raise ValueError("a status is no text")
        return Status(tuple(Note(Outcome[outcome], sentence) for outcome, sentence in inner))
    if kind == "dict":
        return {key: _value(value, tensors) for key, value in inner.items()}
    makers: dict[str, Any] = {"path": lambda parts: Path(*parts), "tuple": tuple, "list": list}
    return makers[kind]([_value(value, tensors) for value in inner])
