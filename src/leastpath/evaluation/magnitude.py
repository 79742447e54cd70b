"""Magnitude aligned scoring: insertion and deletion that also ask whether values are as large as their effect."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath.evaluation.masking import FULL_MASKING, MaskedScores, Masking, MaskingMeasure
from leastpath.evaluation.measure import Measured


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

    def read(self, staged: MaskedScores) -> Measured:
        """Values (batch,), and curves (batch, areas) of each fill, after the penalty."""
        response, mass = self._response(staged.probability()[1]), self._mass_in_input(staged)[:, None]
        distance = (response - mass).abs()
        aligned = response - distance if self.keep else response + distance
        return staged.summary(aligned.clamp(0, 1))

    def _response(self, masked: Tensor) -> Tensor:
        """Curves (batch, fills, areas) from 0 to 1, or back, that never turn."""
        first, last = masked[..., :1], masked[..., -1:]
        span = torch.where(first == last, torch.nan, last - first)
        risen = ((masked - first) / span).clamp(0, 1).cummax(2).values
        return risen if self.keep else 1 - risen

    def _mass_in_input(self, staged: MaskedScores) -> Tensor:
        """(batch, areas) the share of Σ|A| that is in the input at each area."""
        assert staged.mass is not None
        return staged.mass if self.keep else 1 - staged.mass


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
