"""Settings of a wrong type or without a meaning, made from the fields of every dataclass that users make."""

import collections.abc
import math
import types
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from functools import partial
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch

import leastpath as lp
from catalogue.table import Case, Refused
from leastpath import evaluation

POINTS = torch.linspace(-1, 1, 40).reshape(20, 2)
LINE = lp.Path.straight(torch.zeros(1, 2), torch.ones(1, 2))

# Each class that users make, with what it needs besides its defaults. A new one is one more line.
MADE: dict[str, tuple[type, dict[str, Any]]] = {
    "BlurIG": (lp.BlurIG, {}),
    "Descent": (lp.Descent, {}),
    "ElasticBand": (lp.ElasticBand, {}),
    "EnhancedIG": (lp.EnhancedIG, {"points": POINTS, "n_neighbors": 3}),
    "GeodesicODE": (lp.GeodesicODE, {}),
    "GuidedIG": (lp.GuidedIG, {}),
    "Hamiltonian": (lp.Hamiltonian, {}),
    "Manifold": (lp.Manifold, {"encoder": torch.sin, "decoder": torch.cos}),
    "NeighborGraph": (lp.NeighborGraph, {"points": POINTS, "n_neighbors": 3}),
    "Variational": (lp.Variational, {}),
    "WarmDescent": (lp.WarmDescent, {"solver": lp.Descent(), "inputs": torch.ones(1, 2), "paths": LINE}),
    "SAMP": (lp.SAMP, {}),
    "SpectralIG": (lp.SpectralIG, {}),
    "DiscretizedIG": (lp.DiscretizedIG, {"points": POINTS}),
    "AsPrinted": (lp.AsPrinted, {}),
    "Fisher": (lp.Fisher, {}),
    "Pullback": (lp.Pullback, {}),
    "Conformal": (lp.Conformal, {}),
    "Euclidean": (lp.Euclidean, {}),
    "RankOne": (lp.RankOne, {}),
    "NoCancellation": (lp.NoCancellation, {}),
    "DataDensity": (lp.DataDensity, {"points": POINTS}),
    "Reconstruction": (lp.Reconstruction, {"encoder": torch.sin, "decoder": torch.cos, "scale": 1.0}),
    "Mixed": (lp.Mixed, {"model_metric": lp.Conformal(), "data_metric": lp.Euclidean()}),
    "evaluation.Masking": (evaluation.Masking, {}),
    "evaluation.Infidelity": (evaluation.Infidelity, {}),
    "evaluation.MaxSensitivity": (evaluation.MaxSensitivity, {}),
    "evaluation.NoiseRobustness": (evaluation.NoiseRobustness, {}),
    "evaluation.AttackRobustness": (evaluation.AttackRobustness, {}),
    "evaluation.SymmetricRelevanceGain": (evaluation.SymmetricRelevanceGain, {}),
    "evaluation.NearOptimalRemoval": (evaluation.NearOptimalRemoval, {}),
    "evaluation.FineTunedFidelity": (evaluation.FineTunedFidelity, {"judge": torch.nn.Linear(2, 2)}),
    "evaluation.ModelRandomization": (evaluation.ModelRandomization, {}),
    "evaluation.Blur": (evaluation.Blur, {}),
    "evaluation.NoisyLinear": (evaluation.NoisyLinear, {}),
    "evaluation.Samples": (evaluation.Samples, {"pool": POINTS}),
}
UNCHECKED = {"name", "higher_is_better", "needs_method"}  # what a measure says about itself


def wrong_values(kind: Any) -> Iterator[tuple[str, Any]]:
    """What no user means for a field of this type."""
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    may_be_none = type(None) in options
    if any(option is Any or get_origin(option) is tuple for option in options):
        return
    if int in options and float not in options:
        yield "a fraction", 2.5
        yield "True", True
    if (int in options or float in options) and str not in options:
        yield "a word", "many"
        yield "a row of numbers", torch.ones(3)[:2] if torch.Tensor not in options else "many"
        yield "NaN", math.nan
    if not may_be_none:
        yield "None", None
    if any(get_origin(option) is Literal for option in options) and str not in options:
        yield "an unknown word", "nonsense"
    if torch.Tensor in options and int not in options and str not in options:
        yield "an array", np.ones((20, 2))
        yield "a list", [[1.0, 2.0]]
    if bool in options:
        yield "a word for a switch", "yes"
    if any(get_origin(option) is collections.abc.Callable for option in options) and str not in options:
        yield "a word for a function", "f"


def cases() -> Iterator[Case]:
    for group, (made, needed) in MADE.items():
        kinds = get_type_hints(made)
        for field in fields(made):
            if not field.init or field.name in UNCHECKED:
                continue
            for name, value in wrong_values(kinds[field.name]):
                yield Case(
                    group,
                    f"{field.name} is {name}",
                    partial(made, **{**needed, field.name: value}),
                    Refused(field.name),
                )
            default = None if field.default is MISSING else field.default
            if isinstance(default, float):
                yield Case(
                    group,
                    f"{field.name} is negative",
                    partial(made, **{**needed, field.name: -1.0}),
                    Refused(field.name),
                )
            if isinstance(default, int) and not isinstance(default, bool):
                yield Case(
                    group, f"{field.name} is −3", partial(made, **{**needed, field.name: -3}), Refused(field.name)
                )


def numpy_numbers() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every number as NumPy's own type: these must work."""
    for group, (made, needed) in MADE.items():
        numbers: dict[str, Any] = {}
        for field in fields(made):
            if field.init and type(field.default) in (int, float):
                numbers[field.name] = (
                    np.int64(field.default) if type(field.default) is int else np.float64(field.default)
                )
        if numbers:
            yield group, partial(made, **{**needed, **{k: v for k, v in numbers.items() if k not in needed}})
