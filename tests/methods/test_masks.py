"""Partly hidden inputs. Oracle: a loop over copies."""

import torch

import leastpath as lp
from helpers import flat_points, mlp
from leastpath.account.run import Run
from leastpath.methods import Problem
from leastpath.methods.masks import score_masks, score_own_masks


def test_full_batches_equal_a_loop():
    x, base = flat_points(3, 4, 1), flat_points(3, 4, 2)
    score = lp.Score(mlp(), torch.tensor([0, 2, 1]), batch_size=5)
    problem = Problem.bind(score, x, base, Run())
    masks = torch.rand(7, 4, generator=torch.Generator().manual_seed(0))
    together = score_masks(problem, torch.arange(3), 7, lambda i: masks[i])
    own = score_own_masks(problem, torch.tensor([2, 0]), lambda i: masks[i] > 0.5)
    for b, target in enumerate([0, 2, 1]):
        alone = lp.Score(mlp(), target)(base[b] + masks * (x[b] - base[b]))
        torch.testing.assert_close(together[b], alone)
    torch.testing.assert_close(own[0], lp.Score(mlp(), 1)(torch.where(masks[0] > 0.5, x[2], base[2])[None])[0])
    torch.testing.assert_close(own[1], lp.Score(mlp(), 0)(torch.where(masks[1] > 0.5, x[0], base[0])[None])[0])
