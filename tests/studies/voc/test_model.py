"""The head: learns what can be learnt, the same every time, and average precision is scikit-learn's."""

import pytest
import torch
from sklearn.metrics import average_precision_score

from studies.voc.model import Training, average_precision, train_head

QUICK = Training(lr=0.05, max_epochs=40)


def separable(n=200):
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(n, 6, generator=generator)
    return features, (features[:, :3] > 0.2).float()


def test_learns_separable_labels_and_stops_by_itself():
    features, labels = separable()
    found = train_head(features, labels, Training(lr=0.05, max_epochs=1000))
    assert ((found.head(features) > 0).float() == labels).float().mean() > 0.95
    assert 0 < found.epochs < 1000
    assert not any(p.requires_grad for p in found.head.parameters())


def test_same_seed_same_head_and_the_global_generator_is_left_alone():
    features, labels = separable(40)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, second = (train_head(features, labels, QUICK, seed=5).head.weight for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(first, train_head(features, labels, QUICK, seed=6).head.weight)


def test_average_precision_against_scikit_learn():
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(50, 4, generator=generator)
    labels = (torch.rand(50, 4, generator=generator) > 0.7).float()
    expected = [average_precision_score(labels[:, c].numpy(), logits[:, c].numpy()) for c in range(4)]
    torch.testing.assert_close(average_precision(logits, labels), torch.tensor(expected, dtype=torch.float32))


def test_too_few_images_are_refused():
    with pytest.raises(ValueError, match="1 training images are too few"):
        train_head(torch.ones(1, 2), torch.ones(1, 1))
