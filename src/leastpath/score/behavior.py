"""What a model does: its outputs and gradients for a few inputs, compared with those of an earlier start.

A description (`_support/fingerprint.py`) sees what a model is made of. This sees what no description can: a library of
another version, a file that the model reads, a setting of the process.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from leastpath._support.files import write_atomically
from leastpath._support.fingerprint import digest
from leastpath._support.store import StoreMismatch
from leastpath.score.calls import Inputs, device_of, is_out_of_memory, leave_untouched
from leastpath.score.score import Score, rows_of

ROWS = 4
NUMBERS = 1024  # of a row's output that are kept
ALLOWED = 1e-3  # relative: other machines round otherwise. Smaller changes are the description's to find
ALLOWED_OF_GRADIENTS = 0.1  # relative, of the norm: rounding moves single numbers across the kinks of a network


def check_behavior(folder: str | Path, score: Score, inputs: Inputs) -> None:
    """Refuse a model that does something else to the first of these inputs than it did at an earlier start.

    Args:
        folder: of the results; outputs and gradients are kept in its folder `behavior`.
        score: the model.
        inputs: (batch, *features). Inputs that the folder has not met before are added.

    A model that fails, or that gives other outputs each time, is not compared.
    """
    batch = len(inputs[0] if isinstance(inputs, tuple) else inputs)
    outputs = _outputs(score, inputs, min(ROWS, batch))
    if outputs is None:
        return
    gradients = _gradients(score, inputs, len(outputs))
    place = Path(folder) / "behavior"
    place.mkdir(parents=True, exist_ok=True)
    for row, numbers in enumerate(outputs):
        own, x, _ = rows_of(score, inputs, None, [row])
        name = digest([x, own.additional_forward_args])
        kept = _read_or_keep(place / f"{name}.json", numbers)
        _refuse_other_outputs(kept, numbers, row, Path(folder))
        if gradients is not None:
            kept = _read_or_keep(place / f"{name}.gradient.json", gradients[row])
            rounding = ALLOWED * float(numbers.nan_to_num().abs().max()) if numbers.numel() else 0.0
            _refuse_other_gradients(kept, gradients[row], rounding, row, Path(folder))


def _outputs(score: Score, inputs: Inputs, rows: int) -> Tensor | None:
    """What the model returns for the first rows, (rows, numbers), from the same random state each time."""
    try:
        own, x, _ = rows_of(score, inputs, None, range(rows))
        found = []
        for _ in range(2):
            device = device_of(x)
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                torch.default_generator.manual_seed(0)
                found.append(own.outputs(x).cpu().double().reshape(rows, -1)[:, :NUMBERS])
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return None  # the work itself will say what is wrong
    return found[0] if torch.equal(found[0].nan_to_num(), found[1].nan_to_num()) else None


def _gradients(score: Score, inputs: Inputs, rows: int) -> Tensor | None:
    """Of a weighted sum of the outputs of the first rows, (rows, numbers), times the size of the row.

    Hooks can change gradients and leave the outputs. None where there are no gradients, as for token ids.
    """
    try:
        own, x, _ = rows_of(score, inputs, None, range(rows))
        with leave_untouched(own.model, x):
            bound = replace(own, target=_mix_outputs, output="raw").bind(x)
            points = bound.space.points()
            found = bound.gradients(points, torch.arange(rows))[1].cpu().double().reshape(rows, -1)
            sizes = points.cpu().double().reshape(rows, -1).norm(dim=1, keepdim=True).clamp_min(1.0)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return None
    return (found * sizes)[:, :NUMBERS]


def _mix_outputs(output: Tensor) -> Tensor:
    """All outputs of a row in one number. The plain sum of probabilities is 1 and has no gradient."""
    flat = output.reshape(len(output), -1)
    return flat @ torch.linspace(0.5, 1.5, flat.shape[1], dtype=flat.dtype, device=flat.device)


def _read_or_keep(file: Path, numbers: Tensor) -> Tensor:
    """What an earlier start kept; the numbers themselves, which are kept now, where it kept none."""
    try:
        return torch.tensor(json.loads(file.read_text(encoding="utf-8")), dtype=torch.float64)
    except (OSError, ValueError, TypeError):
        write_atomically(file, json.dumps(numbers.tolist()).encode())
        return numbers


def _refuse_other_gradients(kept: Tensor, numbers: Tensor, rounding: float, row: int, folder: Path) -> None:
    scale = max(float(kept.norm()), float(numbers.norm()))
    if kept.shape != numbers.shape or scale <= rounding:  # of another layer; of a score that is flat here
        return
    if not float((kept - numbers).norm()) > ALLOWED_OF_GRADIENTS * scale:
        return
    raise StoreMismatch(
        f"the model's gradient is another than when {folder} was begun: for input {row} its norm was "
        f"{float(kept.norm()):.6g} then and is {float(numbers.norm()):.6g} now, and the outputs are the same. "
        "Something that the model uses, such as a hook, has changed. Give another folder, or go back to the old state"
    )


def _refuse_other_outputs(kept: Tensor, numbers: Tensor, row: int, folder: Path) -> None:
    scale = max(float(kept.nan_to_num().abs().max()), float(numbers.nan_to_num().abs().max())) if kept.numel() else 0.0
    if kept.shape == numbers.shape:
        if torch.allclose(kept, numbers, rtol=0.0, atol=ALLOWED * scale, equal_nan=True):
            return
        worst = int((kept - numbers).nan_to_num(torch.inf).abs().argmax())
        said = f"{float(kept[worst]):.6g} then and {float(numbers[worst]):.6g} now"
    else:
        said = f"{kept.numel()} numbers then and {numbers.numel()} now"
    raise StoreMismatch(
        f"the model does something else than when {folder} was begun: for input {row} it gave {said}. Its weights and "
        "code are the same, so something that it uses has changed. Give another folder, or go back to the old state"
    )
