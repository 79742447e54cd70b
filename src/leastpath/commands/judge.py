"""The verdict on values that any library made, from files: `leastpath judge values.npy cat.jpg`."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from leastpath.commands.case import Case
from leastpath.commands.explain import check_source, read_case
from leastpath.commands.files import kind_of_file
from leastpath.commands.model_files import GivenModel
from leastpath.commands.options import JudgeOptions
from leastpath.removal.referee import verdict
from leastpath.removal.verdict import Judgment, headline

NUMBERS = ("support", "chance", "p_value", "p_model", "n_forwards")


def run_judge(options: JudgeOptions) -> Judgment:
    """What `leastpath judge` does: one sentence, and the numbers behind it.

    Example:
        >>> run_judge(JudgeOptions(values=Path("values.npy"), source=Path("cat.jpg")))  # doctest: +SKIP
    """
    model = GivenModel(options)
    check_source(options, model)
    given = read_values(options.values)
    start = options.baseline or ("mean" if kind_of_file(options.source) == "table" else "black,mean")
    case = read_case(options, model, start)
    found = verdict(
        case.score, case.inputs, _fit(given, case), case.baselines,
        n_removals=options.n_removals, seed=options.seed, progress=True,
    )  # fmt: skip
    numbers = {name: getattr(found, name)[0].item() for name in NUMBERS}
    if options.as_json:
        outcome = found.status[0].outcomes[0].value
        print(json.dumps({"outcome": outcome, "status": found.status[0].value, "explained": case.explained, **numbers}))
        return found
    said = headline(found.status)
    print(f"{said[:1].upper()}{said[1:]}.")
    p_values = f"p {numbers['p_value']:.3g} (chance), {numbers['p_model']:.3g} (the input alone)"
    print(f"Explained: {case.explained}. {p_values}.")
    return found


def read_values(file: Path) -> np.ndarray:
    """The numbers of a .npy file, which can run no code.

    Example:
        >>> read_values(Path("nowhere.npy"))
        Traceback (most recent call last):
        ...
        ValueError: nowhere.npy is not a file: save the values first, numpy.save("values.npy", values)
    """
    if not file.is_file():
        raise ValueError(f'{file} is not a file: save the values first, numpy.save("values.npy", values)')
    with suppress(ValueError, OSError, EOFError):
        found = np.load(file, allow_pickle=False)
        if isinstance(found, np.ndarray) and found.dtype.kind in "fiu":
            return found
    raise ValueError(f'{file} holds no array of numbers: save it by numpy.save("values.npy", values)')


def _fit(values: np.ndarray, case: Case) -> torch.Tensor:
    """Values (1, *features), or (1, height, width), of the one input."""
    given, shape = torch.as_tensor(values.astype("float32")), tuple(case.inputs.shape)
    without_channels = (1, *shape[2:])
    for expected in (shape, without_channels) if case.features is None else (shape,):
        if tuple(given.shape) in (expected, expected[1:]):
            return given.reshape(expected)
    size = "" if case.features is not None else f"; pictures are brought to {shape[-1]} pixels, --size changes it"
    got = f"values have shape {tuple(values.shape)}, the input {shape}"
    raise ValueError(f"{got}: expected one number per feature{size}")
