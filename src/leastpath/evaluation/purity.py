"""Purity: are the inputs with the largest attributions of another class than the baseline?

The paper's measure for half-moons. It judges a whole data set, so it is a function and not a `Measure`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from leastpath._support.checks import check_tensor
from leastpath._support.rows import flat_rows
from leastpath.evaluation.measure import one_start, read_attributions
from leastpath.evaluation.statistics import trapezoid
from leastpath.removal.curves import share_of_top
from leastpath.result.attribution import Attribution
from leastpath.score.calls import leave_untouched
from leastpath.score.score import Baselines, Inputs, Score


def purity(values: Tensor, predicted: Tensor, baseline_class: int | Tensor) -> float:
    """The share of inputs predicted as another class than the baseline's, among the top half by Σ|A|.

    The paper sums the predicted class over the top half, class 1 being the one that the baseline is not. A random
    ranking gives the class balance, one half for half-moons; 1 is the best. Of n inputs the top ⌊n/2⌋ count; equal Σ|A|
    go to the input that comes first.

    Args:
        values: attributions (n, *features).
        predicted: class of each input (n,), integers.
        baseline_class: class of the baseline, or of each input's baseline (n,).

    Example:
        >>> purity(torch.tensor([[3.0, -1.0], [0.1, 0.0], [2.0, 0.0], [0.0, 0.2]]), torch.tensor([1, 0, 1, 0]), 0)
        1.0
    """
    check_tensor("values", values)
    check_tensor("predicted", predicted)
    n, baseline = len(values), torch.as_tensor(baseline_class).cpu()
    for name, classes in (("predicted", predicted), ("baseline_class", baseline)):
        if classes.is_floating_point():
            raise ValueError(f"{name} has dtype {classes.dtype}, expected classes as integers: logits.argmax(1)")
    if predicted.shape != (n,) or baseline.shape not in ((), (n,)):
        raise ValueError(
            f"got attributions of {n} inputs, classes {tuple(predicted.shape)} and a baseline class of shape "
            f"{tuple(baseline.shape)}: expected one class per input, ({n},)"
        )
    if n < 2:
        raise ValueError("purity compares the halves of a data set: pass two or more inputs")
    magnitude = flat_rows(values.detach().cpu()).abs().double().sum(1)
    if not torch.isfinite(magnitude).all():
        raise ValueError("the attributions hold NaN or infinite values, which have no order: drop these inputs")
    if not bool((magnitude > 0).any()):
        raise ValueError("all attributions are zero: they have no order, and purity is not defined")
    return float((predicted.cpu() != baseline).double() @ share_of_top(magnitude[None], n // 2)[0] / (n // 2))


def purity_of(score: Score, inputs: Inputs, baselines: Baselines, result: Attribution) -> float:
    """Purity of an explanation, with the classes that the model predicts for inputs and baselines.

    The prediction is the largest output, or for a single output its sign.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: torch.stack([-x[:, 0], x[:, 0]], 1), 1)
        >>> inputs, baseline = torch.tensor([[2.0, 0.0], [-1.0, 0.0]]), torch.tensor([[-1.0, 0.0]])
        >>> purity_of(score, inputs, baseline, lp.attribute(score, inputs, baseline, method=lp.StraightLine()))
        1.0
    """
    judged = replace(score, target=_predict, output="raw")
    with leave_untouched(score.model, inputs):
        bound = judged.bind(inputs)
        start, end = one_start(bound, inputs, baselines, "purity"), bound.space.points()
        rows = torch.arange(bound.batch)
        classes, baseline_classes = bound.values(end, rows), bound.values(start, rows)
    return purity(read_attributions(bound, result), classes.long(), baseline_classes.long())


def auc_purity(noises: Sequence[float] | Tensor, purities: Sequence[float] | Tensor) -> float | Tensor:
    """Area under purity over noise levels, by trapezoid: (levels,) -> a number, (repeats, levels) -> (repeats,).

    The plain area: over the paper's noises .05 to .65 chance is .30 and the ceiling .60.

    Example:
        >>> round(auc_purity([0.05, 0.35, 0.65], [1.0, 1.0, 1.0]), 6)
        0.6
    """
    area = trapezoid(torch.as_tensor(purities, dtype=torch.float64), noises)
    return float(area) if area.ndim == 0 else area


def _predict(output: Tensor) -> Tensor:
    """The class of each row, as numbers: (rows, classes) -> (rows,)."""
    single = output.ndim == 1 or output.shape[1] == 1
    classes = output.reshape(len(output)) > 0 if single else output.argmax(1)
    return classes.to(output.dtype if output.is_floating_point() else torch.float32)
