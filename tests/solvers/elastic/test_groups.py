"""Groups of features: which label each feature gets, and what is refused."""

import pytest
import torch

from leastpath.solvers.elastic.groups import check_groups, group_labels


@pytest.mark.parametrize(
    ("groups", "shape", "expected"),
    [
        (None, (3,), [[0, 1, 2]]),
        ("pixel", (2, 1, 2), [[0, 1, 0, 1]]),
        ("token", (2, 3), [[0, 0, 0, 1, 1, 1]]),
        (2, (1, 2, 3), [[0, 0, 1, 0, 0, 1]]),  # patches at the border are smaller
        (9, (2, 2, 2), [[0] * 8]),
        (torch.tensor([7, -1, 7]), (3,), [[1, 0, 1]]),
        (torch.tensor([[5], [4]]), (3, 2, 1), [[1, 0] * 3]),  # superpixels without channels
        (torch.tensor([[0, 0], [4, 6]]), (2,), [[0, 0], [0, 1]]),  # one for each of two inputs
    ],
)
def test_labels(groups, shape, expected):
    assert group_labels(groups, torch.Size(shape), inputs=2).tolist() == expected


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ("word", "groups='word' is unknown: pass \"pixel\""),
        (0, "groups=0 must be at least 1"),
        (1.5, "groups=1.5 must be a whole number"),
        (True, "groups=True must be a whole number"),
        (torch.ones(3), r"groups has dtype torch.float32.*groups.long\(\)"),
        (torch.ones(3, dtype=torch.bool), "groups has dtype torch.bool"),
    ],
)
def test_what_nothing_could_be_grouped_by_is_refused(groups, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_groups(groups)


@pytest.mark.parametrize(
    ("groups", "shape", "sentence"),
    [
        ("pixel", (6,), r"groups='pixel' needs images .* got features of shape \(6,\)"),
        (4, (6, 6), r"groups=4 needs images .* got features of shape \(6, 6\)"),
        ("token", (3, 6, 6), r'groups="token" needs inputs \(batch, tokens, width\), got features of shape'),
        (torch.zeros(5, dtype=torch.long), (6,), r"groups have shape \(5,\), the inputs \(2, 6\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(groups, shape, sentence):
    with pytest.raises(ValueError, match=sentence):
        group_labels(groups, torch.Size(shape), inputs=2)
