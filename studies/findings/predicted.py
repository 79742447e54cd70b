"""The predicted class of digits, explained by methods of the table; what is kept of it, and how it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leastpath.methods import METHODS
from leastpath.result.attribution import Attribution
from leastpath.score.calls import Output
from leastpath.score.score import Score
from studies.findings.config import Setting
from studies.findings.measuring import evidence, mean
from studies.findings.study import Record

Numbers = Sequence[float | None]
"""One an example."""
IG, GEODESIC, RANDOM = "integrated_gradients", "geodesic_descent", "random"


def settings_of(setting: Setting, name: str) -> dict[str, Any]:
    """A method's own, but for quick looks, which need no exact integral."""
    few = {"max_gradients": 300 if name == GEODESIC else 60} | ({"n_steps": 10} if name == "guided_ig" else {})
    return {key: value for key, value in few.items() if setting.quick and key in METHODS[name].defaults}


def values_of(result: Attribution) -> Tensor:
    """(n, *features), of inputs that are one tensor."""
    assert isinstance(result.values, Tensor)
    return result.values


def brief_evidence(result: Attribution) -> Record:
    """What every result carries, but for what the sections do not use."""
    told = evidence(result)
    kept = ("cancellation", "length_ratio", "gradients", "ok")
    return {key: told[key] for key in kept}


def percent(numbers: Numbers) -> str:
    """Their mean, in per cent."""
    return f"{100 * mean(numbers):.0f} %"


def predicted_score(net: nn.Module, images: Tensor, output: Output) -> Score:
    """The score of the classes that the net predicts for images (n, …)."""
    with torch.no_grad():
        return Score(net, net(images).argmax(1), output)
