"""Magnitude aligned scoring: insertion and deletion that also ask whether values are as large as their effect."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath.evaluation.masking import FULL_MASKING, MaskedScores, Masking, MaskingMeasure


@dataclass(frozen=True)
class MagnitudeAlignedInsertion(MaskingMeasure):
    """Insertion, and whether values are as large as their effect. Higher is better, at most 1.

    This is magnitude aligned scoring (MAS, Walker et al. 2024). Insertion and deletion see the order of the features
    only. Here the curve of the probability, from 0 with nothing of the input to 1 with all of it, made monotone, is
    compared with the share of Σ|A| of what was inserted so far. The value is the area under (curve − distance of the
    two), cut off at 0 and 1.

    NaN where the probability is the same at both ends, or the attributions are zero everywhere.

    Args:
        masking: its areas must go from 0 to 1.

    Example:
        >>> import leastpath as lp
        >>> score, inputs = lp.Score(lambda x: x @ torch.tensor([3.0, 1.0])), torch.ones(1, 2)
        >>> result = lp.attribute(score, inputs, method=lp.StraightLine())
        >>> MagnitudeAlignedInsertion(Masking((0.0, 0.5, 1.0)))(score, inputs, None, result).values.round(decimals=4)
        tensor([0.6250], dtype=torch.float64)
    """

    masking: Masking = FULL_MASKING
    higher_is_better: bool = True
    keep = True

    def __post_init__(self) -> None:
        super().__post_init__()
        ends = self.masking.areas[0], self.masking.areas[-1]
        if ends != (0.0, 1.0):
            raise ValueError(
                f"{self.name} needs areas from 0 to 1, got {ends[0]:g} to {ends[1]:g}: pass Masking(FULL_AREAS)"
            )

    def _curves(self, found: MaskedScores) -> Tensor:
        """After the penalty. Deletion's curve goes from 1 to 0: its distance is the same, and is added."""
        masked = found.probability()[1]
        first, last = masked[..., :1], masked[..., -1:]
        span = torch.where(first == last, torch.nan, last - first)
        response = ((masked - first) / span).clamp(0, 1).cummax(2).values  # from 0 to 1, without turning
        assert found.mass is not None
        aligned = (response - (response - found.mass[:, None]).abs()).clamp(0, 1)
        return aligned if self.keep else 1 - aligned


@dataclass(frozen=True)
class MagnitudeAlignedDeletion(MagnitudeAlignedInsertion):
    """Deletion, and whether values are as large as their effect. Lower is better, at least 0.

    The value is the area under (curve + distance). The curve goes from 1 with all of the input to 0 with nothing of it.
    See `MagnitudeAlignedInsertion`.

    Example:
        >>> MagnitudeAlignedDeletion().higher_is_better
        False
    """

    higher_is_better: bool = False
    keep = False
