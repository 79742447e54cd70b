"""A net's row of the study. Oracle: the rows of both halves, listed."""

import pytest
from tiny_truth import tiny

from studies.truth.nets import NETS


@pytest.mark.parametrize("net", NETS.values(), ids=lambda net: net.name)
def test_halves_are_disjoint_and_of_the_promised_size(net):
    development, reporting = (net.rows(half, 10**6) for half in ("development", "reporting"))
    assert [len(development), len(reporting)] == list(net.examples.values())
    assert [*development, *reporting] == list(range(len(development) + len(reporting)))


def test_fewer_examples_are_the_first_of_the_half():
    net, _ = tiny()
    assert list(net.rows("development", 3)) == [0, 1, 2] and list(net.rows("reporting", 3)) == [12, 13, 14]
