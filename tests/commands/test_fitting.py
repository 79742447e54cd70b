"""What a command gives to methods: the range of pictures, data, and a spread of it."""

import torch

from leastpath.commands.fitting import give_data, spread, stay_in_range
from leastpath.methods import METHODS


def test_only_methods_with_limits_get_the_range_of_pictures():
    with_limits = {name for name in METHODS.built_in if "limits" in METHODS[name].defaults}
    assert with_limits == {"ig2", "agi", "mfaba", "boundary_ig", "fisher_rao"}
    for name in METHODS.built_in:
        assert stay_in_range(METHODS[name], "table") is METHODS[name]
        assert (stay_in_range(METHODS[name], "image") is METHODS[name]) is (name not in with_limits)


def test_data_is_read_only_where_it_is_needed():
    def never():
        raise AssertionError

    assert give_data(METHODS["saliency"], never) is METHODS["saliency"]
    points, net = torch.rand(5, 3), torch.nn.Linear(3, 2)
    local = give_data(METHODS["lpi"], lambda: points, net)
    assert local.defaults["points"] is points and local.defaults["represent"] is net
    assert give_data(METHODS["enhanced_ig"], lambda: points, net).defaults["points"] is points


def test_a_spread_keeps_the_order_and_no_more_than_asked_for():
    assert spread([3, 1, 2], 5) == [3, 1, 2]
    assert spread(list(range(100)), 4) == [0, 25, 50, 75]
