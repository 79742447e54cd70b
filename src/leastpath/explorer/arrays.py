"""Arrays as the page reads them: type, shape and the bytes in base64; pictures for a screen; and JSON without NaN."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

LARGEST = 224  # pixels per side of the frames along a path
DTYPES = {"float32": "<f4", "uint8": "|u1"}
MOST_NUMBERS = 64_000_000  # of an array that a request brings


def pack(array: Tensor | np.ndarray) -> dict[str, Any]:
    """An array as JSON. Numbers that are not uint8 go as float32.

    Example:
        >>> pack(torch.tensor([1, 2], dtype=torch.uint8))
        {'dtype': 'uint8', 'shape': [2], 'data': 'AQI='}
    """
    numbers = array.detach().cpu().numpy() if isinstance(array, Tensor) else np.asarray(array)
    name = str(numbers.dtype) if str(numbers.dtype) in DTYPES else "float32"
    plain = np.ascontiguousarray(numbers, dtype=DTYPES[name])
    return {"dtype": name, "shape": list(numbers.shape), "data": base64.b64encode(plain.tobytes()).decode("ascii")}


def unpack(given: Any) -> Tensor:
    """The array in what `pack` made. What does not fit together is refused with a sentence."""
    expected = 'expected {"dtype": "uint8", "shape": [2], "data": "AQI="}'
    if not isinstance(given, Mapping) or given.get("dtype") not in list(DTYPES):  # a list asks for no hash
        raise ValueError(f"an array has a dtype of {', '.join(DTYPES)}: {expected}")
    shape: Any = given.get("shape")
    data: Any = given.get("data")
    is_shape = isinstance(shape, list) and all(type(side) is int and side >= 0 for side in shape)
    if not is_shape or not isinstance(data, str) or math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"an array has a shape and data in base64: {expected}")
    try:
        numbers = np.frombuffer(base64.b64decode(data, validate=True), dtype=DTYPES[given["dtype"]]).reshape(shape)
    except ValueError as error:
        raise ValueError(f"the data of an array do not fit its shape {shape}: {error}") from error
    return torch.from_numpy(numbers.copy())


def in_plain_numbers(value: Any) -> Any:
    """What `pack` packed as nested lists, with the seven digits that float32 has. Pictures (uint8) are left out.

    Example:
        >>> in_plain_numbers({"values": pack(torch.tensor([[0.1, 2.0]])), "frame": pack(torch.ones(2).byte())})
        {'values': [[0.1, 2.0]]}
    """
    if is_array(value):
        numbers = unpack(value)
        digits = [float(f"{number:.7g}") for number in numbers.flatten().tolist()]
        return np.array(digits).reshape(numbers.shape).tolist()
    if isinstance(value, Mapping):
        shown = {key: inner for key, inner in value.items() if not (is_array(inner) and inner["dtype"] == "uint8")}
        return {key: in_plain_numbers(inner) for key, inner in shown.items()}
    return [in_plain_numbers(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def is_array(value: Any) -> bool:
    """Whether it is what `pack` makes."""
    return isinstance(value, Mapping) and set(value) == {"dtype", "shape", "data"}


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """Nested mappings and lists whose leaves, arrays of `pack` among them, are changed.

    Example:
        >>> map_leaves({"a": [1, -2]}, abs)
        {'a': [1, 2]}
    """
    if isinstance(value, Mapping) and not is_array(value):
        return {str(key): map_leaves(inner, change) for key, inner in value.items()}
    return [map_leaves(inner, change) for inner in value] if isinstance(value, (list, tuple)) else change(value)


def as_json(value: Any) -> str:
    """JSON text, with null for NaN and infinite numbers, which JSON does not have."""
    finite = map_leaves(value, lambda leaf: None if isinstance(leaf, float) and not math.isfinite(leaf) else leaf)
    return json.dumps(finite, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def value_range(inputs: Tensor) -> tuple[float, float]:
    """What is shown as black and as white: 0 and 1 where the values lie between them, else their own ends."""
    low, high = float(inputs.min()), float(inputs.max())
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def pictures_of(images: Tensor, ends: tuple[float, float], largest: int | None = None) -> Tensor:
    """(n, channels, height, width) -> (n, height, width, 3) uint8: three channels in colour, others as grey."""
    colours = images.detach().float().cpu()
    if colours.shape[1] != 3:
        colours = colours.mean(1, keepdim=True).expand(-1, 3, -1, -1)
    side = max(colours.shape[2:])
    if largest is not None and side > largest:
        size = [max(1, round(s * largest / side)) for s in colours.shape[2:]]
        colours = interpolate(colours, size, mode="area")
    low, high = ends
    shares = ((colours - low) / max(high - low, 1e-12)).clamp(0, 1)
    return (shares * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
