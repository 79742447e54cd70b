"""Random attributions: what every method must beat."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from leastpath.methods.method import Explained, Problem, method


@method("Random", "Normal numbers that know nothing of the model.", role="floor", cost=(0, 0))
def random(problem: Problem) -> Explained:
    """Standard normal numbers, drawn for each example from the seed and the example's own values.

    So different inputs get different numbers, and an input gets the same ones alone and in a batch.
    """
    rows = [_noise(x, problem.seed) for x in problem.end[:: problem.m].detach().cpu()]
    return Explained(torch.stack(rows).to(problem.end.device).repeat_interleave(problem.m, 0))


def _noise(x: Tensor, seed: int) -> Tensor:
    # Bytes, not hash(), which differs from process to process.
    content = x.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    digest = hashlib.sha256(content + str(seed).encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))
    return torch.randn(x.shape, generator=generator)
