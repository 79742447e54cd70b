"""The head: learns what can be learnt, the same every time, and average precision is what its definition says."""

import pytest
import torch

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


def test_average_precision_against_its_definition():
    """The mean, over the positives, of the precision among those ranked as high."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(50, 4, generator=generator)
    labels = (torch.rand(50, 4, generator=generator) > 0.7).float()
    labels[:, 3] = 0
    expected = []
    for guess, truth in zip(logits.T, labels.T, strict=True):
        precisions = [truth[guess >= level].mean() for level in guess[truth == 1]]
        expected.append(torch.stack(precisions).mean() if precisions else torch.tensor(torch.nan))
    torch.testing.assert_close(average_precision(logits, labels), torch.stack(expected), equal_nan=True)


def test_too_few_images_are_refused():
    with pytest.raises(ValueError, match="1 training images are too few"):
        train_head(torch.ones(1, 2), torch.ones(1, 1))
