"""Score: what is explained. A model and a target become one scalar per example.

`Score.bind` joins it to a batch of inputs (`bound.py`), which gives the scalar and its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.checks import check_integer
from leastpath.score.arguments import Marked, has_batch_length, per_example
from leastpath.score.bound import BoundScore, check_rows_are_independent
from leastpath.score.calls import FastestSize, ModelCalls, Output, OutputName, choose_classes
from leastpath.score.estimators import as_module
from leastpath.score.inputs import Baselines, CheckedTarget, Inputs, Target, baselines_per_example
from leastpath.score.untouched import leave_untouched

__all__ = ["Baselines", "Inputs", "Score", "Target"]


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """What is explained: one scalar per example, made from a model's output.

    A Score cannot be changed; `dataclasses.replace(score, target=2)` makes a copy with another target.

    Args:
        model: module or plain callable, `(batch, ...) -> (batch, classes)`, `(batch,)` or `(batch, 1)`. An output
            object with `.logits` (Hugging Face) is read at its logits. Linear models and networks of scikit-learn
            become modules by their weights (`leastpath.score.estimators`).
        target: class index for all examples, one per example `(batch,)`, or a callable `output -> (batch,)`.
            None where the model already returns one number per example.
        output: what happens to the model's output before the target is picked: "raw", "softmax", "log_softmax",
            "sigmoid", "logit_margin" (z_t − logsumexp of the other logits), or a callable.
        layer: explain this module's output instead of the model's input. The inputs may then be integers.
        additional_forward_args: further positional arguments of the model. `lp.per_example(t)` has one row for each
            example; `lp.shared(t)` is passed to every call unchanged. Without a mark, a tensor whose first dimension
            is the batch is split row by row if the model can only work so, or if both readings give the same answer,
            and refused otherwise; anything else is shared.
        batch_size: rows in one model call. None chooses by the size of an input; "auto" finds the fastest by a trial
            of about a second, once for this Score, its copies by `replace`, and a shape of inputs: the Score keeps what
            was found. The trial's gradients are not counted, and results change by rounding only. Halved when memory
            runs out.
        class_dim: the dimension of the model's output that "softmax" and "log_softmax" are taken over. It must be given
            where the output has more than two: -1 for a language model's (batch, length, vocabulary).

    Example:
        >>> score = Score(torch.nn.Linear(3, 2).eval(), target=1, output="log_softmax")
        >>> score(torch.zeros(4, 3)).shape
        torch.Size([4])
        >>> replace(score, target=0)
        Score(Linear, target=0, output='log_softmax')
    """

    model: Callable[..., Any]
    target: Target = None
    output: Output = "raw"
    _: KW_ONLY
    layer: nn.Module | None = None
    additional_forward_args: Any = ()
    batch_size: int | Literal["auto"] | None = None
    class_dim: int | None = None

    def __post_init__(self) -> None:
        given: object = self.model
        if not callable(given) and hasattr(given, "predict"):  # an estimator of scikit-learn
            object.__setattr__(self, "model", as_module(given))
        if not callable(self.model):
            raise ValueError(f"model must be callable, got {type(self.model).__name__}: pass the module itself")
        if not callable(self.output) and self.output not in get_args(OutputName):
            known = list(get_args(OutputName))
            raise ValueError(f"output={self.output!r} is unknown: use one of {known} or a callable")
        if self.output == "logit_margin" and (self.target is None or callable(self.target)):
            raise ValueError('output="logit_margin" compares one class with the others: give target as an index')
        if self.batch_size == "auto":
            trials = self.batch_size if isinstance(self.batch_size, FastestSize) else FastestSize("auto")
            object.__setattr__(self, "batch_size", trials)  # copies by `replace` share it
        else:
            words = ', "auto" for the fastest, or None for a default by input size'
            check_integer("batch_size", self.batch_size, 1, or_none=words)
        if self.class_dim is not None:
            check_integer("class_dim", self.class_dim, -64)
        modules = self.model.modules() if isinstance(self.model, nn.Module) else ()
        if self.layer is not None and not any(self.layer is module for module in modules):
            raise ValueError("layer is not a part of model: pass a submodule, as in Score(…, layer=model.embedding)")
        object.__setattr__(self, "target", _check_target(self.target))
        args = () if self.additional_forward_args is None else self.additional_forward_args
        object.__setattr__(self, "additional_forward_args", args if isinstance(args, tuple) else (args,))

    def bind(self, inputs: Inputs, baselines_per_example: int = 1) -> BoundScore:
        """The score over one batch of inputs: per-example targets and arguments are fixed from here on."""
        return BoundScore(self, inputs, baselines_per_example)

    def __call__(self, inputs: Inputs) -> Tensor:
        """The score of each input, without gradients: (batch,)."""
        with leave_untouched(self.model, inputs):
            bound = self.bind(inputs)
            return bound.values(bound.space.points(), torch.arange(bound.batch))

    def outputs(self, inputs: Inputs) -> Tensor:
        """What the model itself returns, before `output` and `target`, without gradients: (batch, …).

        The inputs may be integers. Use it to choose a target.

        Example:
            >>> Score(torch.nn.Linear(3, 2)).outputs(torch.zeros(4, 3)).argmax(1).shape
            torch.Size([4])
        """
        with leave_untouched(self.model, inputs):
            return ModelCalls(self, inputs, integers_allowed=True).outputs()

    def __repr__(self) -> str:
        plain = getattr(self.model, "__name__", "callable")
        name = type(self.model).__name__ if isinstance(self.model, nn.Module) else plain
        return f"Score({name}, target={self.target if isinstance(self.target, int) else '…'}, output={self.output!r})"


def _check_target(target: Target) -> CheckedTarget:
    """The target as an int, a tensor of integers (batch,), a callable or None."""
    if target is None or callable(target):
        return target
    if isinstance(target, (bool, float, str)):
        raise ValueError(f"target={target!r} must be a class index: an int, a (batch,) integer tensor or a callable")
    if isinstance(target, (int, np.integer)):
        return int(target)
    tensor = torch.as_tensor(target)
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.ndim > 1:
        got = f"dtype {tensor.dtype} and shape {tuple(tensor.shape)}"
        raise ValueError(f"target has {got}, expected integers of shape (batch,)")
    return int(tensor) if tensor.ndim == 0 else tensor.detach().long()


def bind_paths(score: Score, inputs: Inputs, baselines: Baselines) -> tuple[BoundScore, Tensor, Tensor, int]:
    """The score over a batch, where paths start and end (batch, *shape), and how many baselines each input has.

    Refuses baselines that do not fit, and models whose rows depend on each other.
    """
    bound = score.bind(inputs)
    m = baselines_per_example(baselines, inputs, bound.shape if score.layer is not None else None)
    bound = bound if m == 1 else score.bind(inputs, m)
    start, end = bound.space.ends(baselines)
    check_rows_are_independent(bound, start, end)
    return bound, start, end, m


def with_classes(score: Score, target: Any, output: Output | None, outputs: Tensor) -> Score:
    """The score of a classifier's classes, given its outputs (batch, classes): those asked for, or the predicted ones.

    The log-softmax by default. Of a model with one output it is that output, and the target is None.
    """
    classes = choose_classes(target, outputs)
    return replace(score, target=classes, output=output or ("raw" if classes is None else "log_softmax"))


def with_marks(score: Score, inputs: Inputs) -> Score:
    """The score with a mark on each extra argument: which have one row for each of these inputs is settled."""
    if all(isinstance(arg, Marked) and arg.reading != "by length" for arg in score.additional_forward_args):
        return score
    return replace(score, additional_forward_args=ModelCalls(score, inputs, integers_allowed=True).marked_args)


def rows_of(score: Score, inputs: Inputs, baselines: Baselines, rows: Sequence[int]) -> tuple[Score, Inputs, Baselines]:
    """The problem for some of its examples. A row may come several times."""
    batch = len(inputs[0] if isinstance(inputs, tuple) else inputs)
    score = with_marks(score, inputs)

    def of(value: Any) -> Any:
        if isinstance(value, Marked):
            return per_example(value.value[list(rows)]) if value.reading == "per example" else value
        return value[list(rows)] if has_batch_length(value, batch) else value

    def of_each(values: Any) -> Any:
        return tuple(map(of, values)) if isinstance(values, tuple) else of(values)

    args = of_each(score.additional_forward_args)
    return replace(score, target=of(score.target), additional_forward_args=args), of_each(inputs), of_each(baselines)
