"""The axioms as oracles: numbers per example that are zero where an axiom holds, and the inequalities of lengths.

`explain` is any function (score, inputs, baselines) -> Attribution, e.g. `functools.partial(lp.attribute, method=…)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath import Conformal, NoCancellation, Path, RankOne, Score, integrate
from leastpath._support.rows import flat_rows
from leastpath.evaluation.axioms import ExplainFunction, _rows
from leastpath.score.score import flat_baseline


def completeness_gap(values: Tensor, score_change: Tensor) -> Tensor:
    """Σ values − Δf: values (batch, *features), score_change (batch,) -> (batch,)."""
    return _rows(values, score_change).sum(1) - score_change


def cancellation(values: Tensor, score_change: Tensor) -> Tensor:
    """Σ|values| − |Δf|, the gap to No-Cancellation Completeness: (batch,).

    Zero exactly when no two features pull in opposite directions. It is not always attainable: for an additive score
    every path gives the same attributions.
    """
    return _rows(values, score_change).abs().sum(1) - score_change.abs()


def dummy(values: Tensor, ignored: Tensor) -> Tensor:
    """Largest |value| on features that the score ignores: (batch,), zero if the axiom holds.

    Args:
        values: (batch, *features).
        ignored: bool (*features), true where the score does not depend on the feature.
    """
    shape = tuple(values.shape[1:])
    if ignored.shape != shape or ignored.dtype != torch.bool:
        raise ValueError(f"ignored is {ignored.dtype} {tuple(ignored.shape)}, expected a bool mask of shape {shape}")
    if not ignored.any():
        raise ValueError("ignored marks no feature: mark those that the score does not depend on")
    return values[:, ignored].abs().amax(1)


def sensitivity(
    explain: ExplainFunction,
    score: Score,
    inputs: Tensor,
    baselines: float | Tensor | None = None,
    features: Iterable[int] | None = None,
) -> Tensor:
    """Change one feature only: its attribution must be the whole change of score.

    For each chosen feature (all by default; flat index) the input is the baseline with that feature alone replaced.
    Returns |attribution − change of score| + Σ|attributions of the unchanged features|: (features, batch), zero if the
    axiom holds.
    """
    start = flat_baseline(baselines, inputs, 1)
    gaps = []
    for i in range(inputs[0].numel()) if features is None else features:
        probe = start.clone().flatten(1)
        probe[:, i] = inputs.flatten(1)[:, i]
        result = explain(score, probe.view_as(inputs), start)
        values = _rows(result.values, result.score_change)
        others = values.abs().sum(1) - values[:, i].abs()
        gaps.append((values[:, i] - result.score_change).abs() + others)
    return torch.stack(gaps)


def implementation_invariance(
    explain: ExplainFunction, score: Score, same_score: Score, inputs: Tensor, baselines: float | Tensor | None = None
) -> Tensor:
    """Σ|difference| of attributions between two implementations of one function, over Σ|values|: (batch,)."""
    start = flat_baseline(baselines, inputs, 1)
    results = [explain(s, inputs, start) for s in (score, same_score)]
    a, b = (_rows(result.values, result.score_change) for result in results)
    scale, difference = a.abs().sum(1), (a - b).abs().sum(1)
    return torch.where(scale > 0, difference / scale, difference)


@dataclass(frozen=True)
class Lengths:
    """The lengths of a path and what they bound; all (batch,).

    For every path: no_cancellation ≥ magnitude ≥ |change|, no_cancellation ≥ rank_one ≥ |change|, conformal ≥ rank_one.
    """

    no_cancellation: Tensor  #: ∫ Σ|∂ᵢf γ̇ᵢ| dt
    rank_one: Tensor  #: ∫ |∇f·γ̇| dt
    conformal: Tensor  #: ∫ ‖∇f‖‖γ̇‖ dt
    magnitude: Tensor  #: Σ|attributions|
    change: Tensor  #: Δf

    def violations(self) -> dict[str, Tensor]:
        """By how much each inequality fails, relative to the larger side: (batch,) each, ≤ 0 where it holds."""
        change = self.change.abs()
        pairs = {
            "no_cancellation ≥ magnitude": (self.no_cancellation, self.magnitude),
            "magnitude ≥ |change|": (self.magnitude, change),
            "no_cancellation ≥ rank_one": (self.no_cancellation, self.rank_one),
            "rank_one ≥ |change|": (self.rank_one, change),
            "conformal ≥ rank_one": (self.conformal, self.rank_one),
        }
        tiny = torch.finfo(change.dtype).tiny  # 0/0 where both are zero
        return {name: (low - high) / torch.maximum(high, low).clamp_min(tiny) for name, (high, low) in pairs.items()}

    def certificates(self) -> dict[str, Tensor]:
        """Each length over |Δf|: ≥ 1, and 1 only on a provably shortest path."""
        return {name: getattr(self, name) / self.change.abs() for name in ("no_cancellation", "rank_one", "conformal")}


def lengths(score: Score, path: Path, tolerance: float = 1e-3, max_gradients: int | None = None) -> Lengths:
    """Measure a path under every model metric."""
    metrics = (NoCancellation(), RankOne(), Conformal())
    measured = [integrate(score, path, m, tolerance=tolerance, max_gradients=max_gradients) for m in metrics]
    magnitude = flat_rows(measured[0].values).abs().sum(1)
    no_cancellation, rank_one, conformal = (m.length for m in measured)
    return Lengths(no_cancellation, rank_one, conformal, magnitude, measured[0].change)
