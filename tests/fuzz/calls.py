"""Calls of `attribute` over its whole signature and over the settings of every method."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

import leastpath as lp
from fuzz import values
from fuzz.oracle import Outcome, Wrong, judge
from helpers import cnn, fast_method, flat_points, mlp


class Net(nn.Module):
    """Takes extra arguments, and reads the tensors among them."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, *more: Any) -> Tensor:
        return self.net(x) + sum(part.sum() for part in more if isinstance(part, Tensor))


NET, POINTS = Net(mlp()).eval(), flat_points(20, 4, 3)
PICTURES, PICTURE_NET = flat_points(2, 72, 1).view(2, 2, 6, 6), Net(cnn()).eval()
IMAGES_ONLY = [name for name in lp.METHODS if lp.METHODS[name].fits == ("image",) and name != "rise"]

# The arguments of Score and attribute, each with the values that it may be given.
ARGUMENTS: dict[str, dict[str, values.Make]] = {
    "inputs": values.INPUTS,
    "baselines": values.BASELINES,
    "target": values.TARGETS,
    "output": values.OUTPUTS,
    "batch_size": values.ANYTHING,
    "class_dim": values.ANYTHING,
    "additional_forward_args": values.ANYTHING,
    "method": values.METHODS,
    "groups": values.GROUPS,
    "support": {**values.ANYTHING, "full": lambda: "full"},
    "seed": values.ANYTHING,
    "on_interrupt": {**values.ANYTHING, "return": lambda: "return"},
}
OF_SCORE = ("target", "output", "batch_size", "class_dim", "additional_forward_args")

# Numbers that are checked by more than their default's type: a value of ABSURD must be refused by these.
NUMBERS = ("tolerance", "n_steps", "max_gradients", "max_seconds", "seed", "batch_size")


@st.composite
def recipes(draw: Any) -> dict[str, Any]:
    """A method, and up to three arguments or settings that are not what they usually are."""
    method = draw(st.sampled_from(list(lp.METHODS)))
    settings = list(lp.METHODS[method].defaults)
    changes: dict[str, str] = {}
    for _ in range(draw(st.integers(1, 3))):
        if settings and draw(st.booleans()):
            name = f"setting {draw(st.sampled_from(settings))}"
            changes[name] = draw(st.sampled_from(list(values.SETTINGS_OF_PATHS)))
        else:
            name = draw(st.sampled_from(list(ARGUMENTS)))
            changes[name] = draw(st.sampled_from(list(ARGUMENTS[name])))
    return {"method": method, "changes": changes}


def judge_recipe(recipe: dict[str, Any]) -> Outcome:
    """Run the call, and hold its answer against what must be true of every answer."""
    name, changes = recipe["method"], recipe["changes"]
    given = {what: ARGUMENTS[what][value]() for what, value in changes.items() if not what.startswith("setting ")}
    settings = {
        what.removeprefix("setting "): values.SETTINGS_OF_PATHS[value]()
        for what, value in changes.items()
        if what.startswith("setting ")
    }
    pictures = name in IMAGES_ONLY
    inputs = given.pop("inputs", PICTURES if pictures else values.X)
    of_score = {"target": 1, **{what: given.pop(what) for what in OF_SCORE if what in given}}

    def call() -> lp.Attribution:
        score = lp.Score(PICTURE_NET if pictures else NET, **of_score)
        method = given.pop("method", None) or fast_method(name, POINTS)
        usual = {"support": False, **({"max_gradients": 60} if "max_gradients" in lp.METHODS[name].defaults else {})}
        usual = {} if "method" in changes else usual
        return lp.attribute(
            score, inputs, given.pop("baselines", None), method=method, **{**usual, **given, **settings}
        )

    def check(result: lp.Attribution) -> None:
        refuse_absurd(name, changes)
        check_result(result, inputs)

    return judge(call, check)


def refuse_absurd(name: str, changes: dict[str, str]) -> None:
    """A setting that is a number must not take what is none."""
    if "method" in changes:
        return  # another method may have no such setting, or one of another kind
    for what, value in changes.items():
        setting = what.removeprefix("setting ")
        default = lp.METHODS[name].defaults.get(setting) if what.startswith("setting ") else None
        number = setting in NUMBERS or (isinstance(default, (int, float)) and not isinstance(default, bool))
        switch = isinstance(default, bool) and value in ("True", "False")
        if number and not switch and value in values.ABSURD:
            raise Wrong(f"{setting}={value} was taken for a number")


def check_result(result: Any, inputs: Any) -> None:
    """Shapes, types, finite numbers, a status for each; sums that are what they are said to be."""
    if not isinstance(result, lp.Attribution):
        raise Wrong(f"the answer is a {type(result).__name__}")
    parts = result.values if isinstance(result.values, tuple) else (result.values,)
    wanted = inputs if isinstance(inputs, tuple) else (inputs,)
    if len(parts) != len(wanted):
        raise Wrong(f"{len(parts)} values for {len(wanted)} inputs")
    for part, like in zip(parts, wanted, strict=True):
        if not isinstance(part, Tensor) or part.shape != like.shape or part.dtype != like.dtype:
            raise Wrong(f"values of {tuple(part.shape)}, {part.dtype}, for inputs of {tuple(like.shape)}, {like.dtype}")
        if not torch.isfinite(part).all() and all(lp.Outcome.INTERRUPTED not in status for status in result.status):
            raise Wrong("values that are not finite")
    batch = len(wanted[0])
    if len(result.status) != batch or any(not status.value for status in result.status):
        raise Wrong(f"{len(result.status)} statuses for {batch} examples")
    total = sum(part.double().flatten(1).sum(1) for part in parts)
    gap = total - result.score_change.double()
    scale = sum(part.double().flatten(1).abs().sum(1) for part in parts) + result.score_change.double().abs()
    rounding = 0.05 if parts[0].dtype in (torch.float16, torch.bfloat16) else 1e-3
    if ((gap - result.completeness_gap.double()).abs() > rounding * scale + 1e-6).any():
        raise Wrong("completeness_gap is not Σ values − score_change")
