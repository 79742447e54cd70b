"""The axioms as measurements: numbers per example, not just yes or no.

`explain` is any function (score, inputs, baselines) -> Attribution, e.g. `functools.partial(lp.attribute, method=…)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows
from leastpath.evaluation.measure import Again, ExplainingMeasure, Measured, NamedMeasure, check_result
from leastpath.result.attribution import Attribution
from leastpath.score.score import Baselines, Inputs, Score, flat_baseline

ExplainFunction = Callable[[Score, Tensor, Tensor], Attribution]


def symmetry(
    explain: ExplainFunction,
    score: Score,
    inputs: Tensor,
    pairs: Iterable[tuple[int, int]],
    baselines: float | Tensor | None = None,
) -> Tensor:
    """|Aᵢ − Aⱼ| for features that the score treats alike, at inputs where both are equal: (pairs, batch).

    Features are flat indices. Inputs and baselines are made symmetric first (both features take their mean), and the
    score is checked to be symmetric. Curved paths may break the axiom: shortest paths can come in mirrored pairs.
    """
    start = flat_baseline(baselines, inputs, 1)
    gaps = []
    for i, j in pairs:
        _check_symmetric(score, inputs, i, j)
        result = explain(score, _make_alike(inputs, i, j), _make_alike(start, i, j))
        values = _rows(result.values, result.score_change)
        gaps.append((values[:, i] - values[:, j]).abs())
    if not gaps:
        raise ValueError("pairs is empty: name at least one pair of features, as in pairs=[(0, 1)]")
    return torch.stack(gaps)


class _Reported(NamedMeasure):
    """A measure that only reads the result."""

    def _read_result(self, result: Attribution) -> Tensor:
        raise NotImplementedError

    def __call__(
        self, score: Score, inputs: Inputs | None, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Values (batch,), as the result reports them; runs no model."""
        check_result(result)
        n = None if inputs is None else len(inputs[0] if isinstance(inputs, tuple) else inputs)
        if n not in (None, len(result.status)):
            raise ValueError(
                f"the result explains {len(result.status)} examples, the inputs are {n}: pass its own inputs"
            )
        return Measured.of(self._read_result(result))


@dataclass(frozen=True)
class CompletenessGap(_Reported):
    """|Σ values − Δf|. Lower is better; NaN where Δf is not known (attributions given without it).

    Args:
        relative: divide by |Δf|; inf where Δf is zero and the gap is not.

    Example:
        >>> from leastpath.evaluation import given_attribution
        >>> result = given_attribution(torch.tensor([[2.0, -1.0]]), torch.tensor([2.0]))
        >>> CompletenessGap(relative=True)(None, None, None, result).values
        tensor([0.5000])
    """

    relative: bool = False
    higher_is_better: bool = False

    def _read_result(self, result: Attribution) -> Tensor:
        return self._scale(result.completeness_gap.abs(), result)

    def _scale(self, gap: Tensor, result: Attribution) -> Tensor:
        return torch.where(gap == 0, gap, gap / result.score_change.abs()) if self.relative else gap


@dataclass(frozen=True)
class Cancellation(CompletenessGap):
    """Σ|values| − |Δf|, the gap to No-Cancellation Completeness. Lower is better; NaN where Δf is not known.

    `relative` is as in `CompletenessGap`.

    Example:
        >>> from leastpath.evaluation import given_attribution
        >>> Cancellation()(None, None, None, given_attribution(torch.tensor([[2.0, -1.0]]), torch.ones(1))).values
        tensor([2.])
    """

    def _read_result(self, result: Attribution) -> Tensor:
        return self._scale(result.cancellation, result)


@dataclass(frozen=True)
class Certificate(_Reported):
    """Length of the path over |Δf|; 1 is provably shortest. Lower is better; NaN for methods without a path.

    Example:
        >>> import leastpath as lp
        >>> score, inputs = lp.Score(lambda x: x.sum(1)), torch.ones(1, 2)
        >>> result = lp.attribute(score, inputs, method=lp.StraightLine())
        >>> Certificate()(score, inputs, None, result).values  # along the gradient of a linear score
        tensor([1.])
    """

    higher_is_better: bool = False

    def _read_result(self, result: Attribution) -> Tensor:
        return result.certificate


@dataclass(frozen=True)
class Asymmetry(ExplainingMeasure):
    """Largest |Aᵢ − Aⱼ| over pairs of features that the score treats alike. Lower is better. See `symmetry`.

    Explains again, at inputs where both features of a pair are equal.

    Args:
        pairs: flat indices (i, j) of features that the score treats alike.

    Example:
        >>> import leastpath as lp
        >>> score, inputs, line = lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), lp.StraightLine()
        >>> Asymmetry(((0, 1),))(score, inputs, None, lp.attribute(score, inputs, method=line), explain=line).values
        tensor([0.])
    """

    pairs: tuple[tuple[int, int], ...]
    higher_is_better: bool = False

    def _judge(self, again: Again, result: Attribution) -> Measured:
        if not isinstance(again.inputs, Tensor) or isinstance(again.baselines, tuple):
            raise ValueError("symmetry is measured on one input tensor, got a tuple: join the inputs first")

        def explain(score: Score, points: Tensor, start: Tensor) -> Attribution:
            return again(inputs=points, baselines=start)

        gaps = symmetry(explain, again.score, again.inputs, self.pairs, again.baselines)
        return Measured.of(gaps.amax(0), n_forwards=2 * len(gaps))  # for each pair, the score is checked at two points


def _rows(values: Inputs, score_change: Tensor) -> Tensor:
    """Attributions as (batch, features), the parts of a tuple side by side."""
    rows = torch.cat([flat_rows(part) for part in (values if isinstance(values, tuple) else (values,))], 1)
    if len(rows) != len(score_change):
        raise ValueError(f"values of {len(rows)} examples and score changes of {len(score_change)}: they must match")
    return rows


def _make_alike(points: Tensor, i: int, j: int) -> Tensor:
    flat = points.clone().flatten(1)
    flat[:, [i, j]] = flat[:, [i, j]].mean(1, keepdim=True)
    return flat.view_as(points)


def _check_symmetric(score: Score, inputs: Tensor, i: int, j: int) -> None:
    swapped = inputs.clone().flatten(1)
    swapped[:, [i, j]] = swapped[:, [j, i]]
    a, b = score(inputs), score(swapped.view_as(inputs))
    if not torch.allclose(a, b, rtol=1e-3, atol=1e-5):
        most = float((a - b).abs().max())
        raise ValueError(f"the score is not symmetric in features {i} and {j}: a swap changes it by up to {most:.3g}")
