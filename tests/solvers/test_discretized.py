"""Discretised IG. Oracles: a transcription of the published walk, monotone paths, one step where no word is left."""

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import TextNet, flat_points, seeded

WORDS = flat_points(30, 3, 5, torch.float64)


def published_walk(word, base, words, neighbours, steps, strategy):
    """The authors' code, for one token: anchors first, then the monotone path over them, from word to baseline."""

    def valid(low, high, middle):
        return ((low > high) & (middle <= low) & (middle >= high)) | (
            (low < high) & (middle >= low) & (middle <= high)
        ) | ((low == high) & (middle == low))  # fmt: skip

    def monotone(low, high, middle):
        return np.where(valid(low, high, middle), middle, high - (high - low) / steps)

    current, taken, anchors, itself = word, set(), [], (words == word).all(1)
    for _ in range(steps):
        apart = np.where(itself, np.inf, np.linalg.norm(words - current, axis=1))  # kneighbors_graph leaves itself out
        order = np.argsort(apart)[:neighbours]
        rank = {}
        for j in order:
            if j in taken or (words[j] == base).all() or (words[j] == word).all():
                continue
            if strategy == "greedy":
                rank[j] = np.linalg.norm(words[j] - monotone(base, current, words[j]))
            else:
                rank[j] = -valid(base, current, words[j]).sum()
        if not rank:
            anchors += [base] * (steps - len(anchors))
            break
        best = min(rank, key=rank.get)
        taken.add(best)
        current, itself = words[best], np.arange(len(words)) == best
        anchors.append(current)
    points = [word]
    for anchor in anchors:
        points.append(monotone(base, points[-1], anchor))
    return np.stack([*points, base])[::-1]


@pytest.mark.parametrize("strategy", ["greedy", "maxcount"])
def test_path_against_a_transcription(strategy):
    x, base = flat_points(4, 3, 1, torch.float64), flat_points(4, 3, 2, torch.float64)
    x[2:] = WORDS[:2]  # words of the vocabulary, as tokens are
    solver = lp.DiscretizedIG(WORDS, 8, 6, strategy)
    path = lp.attribute(lp.Score(lambda x: x.prod(1)), x, base, method=solver).path
    for b in range(4):
        expected = published_walk(x[b].numpy(), base[b].numpy(), WORDS.numpy(), 8, 6, strategy)
        torch.testing.assert_close(path[b], torch.from_numpy(expected.copy()))


def test_tokens_walk_over_the_words_of_the_model_and_never_turn_back():
    net = seeded(TextNet).eval()
    score, ids = lp.Score(net, 1, layer=net.embedding), torch.tensor([[1, 2, 3], [4, 5, 6]])
    solver = lp.DiscretizedIG(net.embedding.weight, 5, 4)
    result = lp.attribute(score, ids, torch.zeros_like(ids), method=solver)
    for b in range(2):
        steps, whole = result.path[b].diff(dim=0), result.path[b][-1] - result.path[b][0]
        assert (steps * whole.sign() >= -1e-6).all()
    assert result.completeness_gap.abs().max() <= 0.011 * result.score_change.abs().max()


def test_without_words_to_go_to_the_path_is_one_step():
    x = flat_points(2, 3, 1)
    path = lp.attribute(lp.Score(lambda x: x.sum(1)), x, method=lp.DiscretizedIG(torch.zeros(1, 3), 3, 4)).path
    assert (path[0][:-1] == 0).all() and torch.equal(path[0][-1], x[0])


def test_wrong_words_are_refused():
    with pytest.raises(ValueError, match="points have 5 numbers per word, the inputs 3 per token"):
        lp.attribute(lp.Score(lambda x: x.sum(1)), torch.ones(1, 3), method=lp.DiscretizedIG(torch.ones(2, 5)))
    with pytest.raises(ValueError, match="strategy='best' is unknown"):
        lp.DiscretizedIG(WORDS, strategy="best")
    with pytest.raises(ValueError, match="points must be a tensor"):
        lp.DiscretizedIG(None)
