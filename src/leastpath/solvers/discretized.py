"""Discretised IG (Sanyal & Ren 2021): a path over real words, bent so that no coordinate turns back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from leastpath._support.checks import Count, Settings, as_points
from leastpath._support.rows import flat_rows
from leastpath.account.run import Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.score.score import BoundScore
from leastpath.solvers.solution import Solution, affordable_knots

Strategy = Literal["greedy", "maxcount"]


@dataclass(frozen=True, eq=False)
class DiscretizedIG(Settings):
    """Discretised IG: each token walks from word to word, so that its path stays near embeddings the model knows.

    From the input's embedding, each step goes to one of the nearest words of the last word, the one that lies best
    between it and the baseline. Coordinates of that word that do not lie between the baseline and the point before are
    pulled there, so that the path is monotone. After `n_words` words the path ends at the baseline.

    Args:
        points: (words, width) the embedding matrix, `model.embedding.weight`; or (n, *features) for other inputs, which
            then are one "word" each.
        n_neighbors: words that are looked at in a step.
        n_words: words of the path.
        strategy: "greedy" takes the word that needs the smallest pull, "maxcount" the one with the most coordinates
            between the two.

    Example:
        >>> import torch, leastpath as lp
        >>> words = torch.tensor([[0.0, 0.0], [0.5, 0.2], [1.0, 1.0]])
        >>> solver = lp.DiscretizedIG(words, n_neighbors=2, n_words=1)
        >>> lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), method=solver).path[0]
        tensor([[0.0000, 0.0000],
                [0.5000, 0.2000],
                [1.0000, 1.0000]])
    """

    points: Tensor
    n_neighbors: Count = 500
    n_words: Count = 30
    strategy: Strategy = "greedy"

    def __post_init__(self) -> None:
        given: object = self.points
        if not isinstance(given, Tensor) or given.ndim < 2:
            raise ValueError("points must be a tensor (words, width): pass points=model.embedding.weight")
        object.__setattr__(self, "points", as_points("points", self.points))
        super().__post_init__()

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> polylines; `metric` only measures the result. Spends no gradients."""
        words = flat_rows(self.points.detach()).to(end.device, score.work_dtype)
        width = words.shape[1]
        if width not in (end.shape[-1], score.n_features):
            raise ValueError(
                f"points have {width} numbers per word, the inputs {end.shape[-1]} per token: pass the embedding "
                "matrix that the explained layer reads from"
            )
        n = affordable_knots(score, run, self.n_words + 2, least=2) - 2
        tokens = zip(*(ends.to(words.dtype).reshape(-1, width) for ends in (end, start)), strict=True)
        inner = torch.stack([self._walk(word, base, words, n) for word, base in tokens], 1)  # (n, tokens, width)
        knots = inner.reshape(n, *end.shape).transpose(0, 1).flip(1).to(end.dtype)  # (batch, n, *features)
        return Solution(Path.polyline(torch.cat([start[:, None], knots, end[:, None]], 1)), stats={"n_words": n})

    def _walk(self, word: Tensor, base: Tensor, words: Tensor, n: int) -> Tensor:
        """The points of one token between its input and its baseline, in that order: (n, width)."""
        itself = (words == word).all(1)  # a word is not one of its own neighbours
        used = itself | (words == base).all(1)
        anchor, point = word, word
        points: list[Tensor] = [word]
        arrived = bool((word == base).all())
        for _ in range(n):
            if not arrived:
                apart = (words - anchor).norm(dim=1).masked_fill(itself, torch.inf)
                nearest = apart.topk(min(self.n_neighbors, len(words)), largest=False).indices
                nearest = nearest[~used[nearest]]
                arrived = not len(nearest)  # no word is left: the rest of the path is at the baseline
            if not arrived:
                best = int(nearest[self._rank(words[nearest], anchor, base).argmin()])
                anchor, used[best] = words[best], True
                itself = torch.arange(len(words), device=words.device) == best
                point = pull_between(anchor, base, point, 1 / self.n_words)
            points.append(base if arrived else point)
        return torch.stack(points)[1:]

    def _rank(self, candidates: Tensor, anchor: Tensor, base: Tensor) -> Tensor:
        """How badly words (k, width) lie between the last word and the baseline: (k,)."""
        if self.strategy == "maxcount":
            return -_between(candidates, base, anchor).sum(1)
        return (candidates - pull_between(candidates, base, anchor, 1 / self.n_words)).norm(dim=1)


def pull_between(words: Tensor, base: Tensor, point: Tensor, share: float) -> Tensor:
    """Words (…, width) with each coordinate that is not between `base` and `point` set near `point`.

    "Near" is `share` of the way from the point to the base.
    """
    return torch.where(_between(words, base, point), words, point - share * (point - base))


def _between(words: Tensor, base: Tensor, point: Tensor) -> Tensor:
    return (words >= torch.minimum(base, point)) & (words <= torch.maximum(base, point))
