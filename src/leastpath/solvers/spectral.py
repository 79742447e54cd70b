"""Spectral IG (Kim et al. 2026): the difference enters by singular components, the largest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from leastpath._support.checks import Range, Settings
from leastpath._support.rows import precise
from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.score.score import BoundScore
from leastpath.solvers.solution import Solution, affordable_knots


@dataclass(frozen=True)
class SpectralIG(Settings):
    """Spectral IG: from coarse to fine, by the singular values of input − baseline.

    Each channel (height, width) of the difference is a sum of singular components. At time α, component k has entered
    to the share (α − αₖ) / overlap, cut to [0, 1], with αₖ = (1 − overlap)(1 − σₖ / σ₁). So global structure comes
    before detail. A vector of features has one component, and its path is the straight line.

    Args:
        overlap: how long a component takes to enter, as a share of the whole way. 1: the straight line.
        n_knots: of the path, its ends included.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: x.flatten(1).prod(1))
        >>> solver = lp.SpectralIG(overlap=0.5, n_knots=3)
        >>> lp.attribute(score, torch.diag(torch.tensor([3.0, 1.0]))[None], method=solver).path[0][1]
        tensor([[3.0000, 0.0000],
                [0.0000, 0.3333]])
    """

    overlap: Annotated[float, Range(above=0, most=1, hint="a share of the way, as in 0.4")] = 0.4
    n_knots: Annotated[int, Range(least=2, hint="both ends")] = 33

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> polylines; `metric` only measures the result. Spends no gradients."""
        if end.ndim < 3:  # (batch, features): one singular component
            return Solution(Path.straight(start, end), stats={"n_knots": 2})
        n = affordable_knots(score, run, self.n_knots, least=2)
        left, sizes, right = torch.linalg.svd(precise(end - start), full_matrices=False)
        dtype = sizes.dtype
        largest = sizes[..., :1].clamp_min(torch.finfo(dtype).tiny)
        begin = (1 - self.overlap) * (1 - sizes / largest)  # (batch, …, components)
        inner = []
        for alpha in torch.linspace(0, 1, n, dtype=dtype)[1:-1].tolist():
            share = ((alpha - begin) / self.overlap).clamp(0, 1)
            inner.append((start.to(dtype) + (left * (sizes * share).unsqueeze(-2)) @ right).to(end.dtype))
        return Solution(Path.polyline(torch.stack([start, *inner, end], 1)), stats={"n_knots": n})
