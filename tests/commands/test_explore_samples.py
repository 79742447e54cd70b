"""The built-in samples: models that know their data, without a network."""

import pytest

from leastpath.commands.explore_samples import sample_source


@pytest.mark.parametrize(("name", "kind", "n"), [("digits", "image", 20), ("table", "table", 50)])
def test_the_small_nets_are_right_most_of_the_time(name, kind, n):
    source, sentence = sample_source(name)
    assert (source.kind, len(source.samples)) == (kind, n)
    assert "scikit-learn" in sentence
    subject = source.subject(0)
    assert subject.score.model(subject.inputs).softmax(1).max() > 0.7


def test_photographs_come_with_their_classifier():
    pytest.importorskip("efficientnet_lite_pytorch")
    source, sentence = sample_source("photos")
    assert source.subject(1).shape == (3, 224, 224)
    assert "EfficientNet" in sentence
