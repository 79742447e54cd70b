"""What adversarial walks share: limits and classes, each error by its sentence."""

import pytest
import torch

from leastpath.methods.attack import check_limits, check_logits, clip_to


def test_points_are_clipped_to_their_limits_only():
    x = torch.tensor([[-1.0, 0.5], [2.0, 1.0]])
    assert clip_to(x, None) is x and clip_to(x, (0, 1)).tolist() == [[0, 0.5], [1, 1]]


def test_what_is_no_range_or_no_classifier_is_refused():
    check_limits(None)
    check_limits((0, 1))
    with pytest.raises(ValueError, match=r"limits=\(1, 0\) must be the lower and the upper end"):
        check_limits((1, 0))
    with pytest.raises(ValueError, match=r"agi needs a classifier with outputs \(batch, classes ≥ 2\)"):
        check_logits(torch.zeros(3, 1), "agi")
