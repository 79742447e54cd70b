"""Units. Oracles: what each promises to add up to, and the methods that are exact by theory."""

import pytest
import torch

from leastpath.methods import METHODS
from studies.referees.units import UNITS


@pytest.mark.parametrize("name", [name for name in UNITS if name != "uncertain"])
def test_the_truth_adds_up_to_the_change_of_score(name):
    unit = UNITS[name](12, 3)
    change = unit.score(unit.inputs) - unit.score(torch.zeros_like(unit.inputs))
    torch.testing.assert_close(unit.truth.sum(1), change, atol=1e-4, rtol=1e-4)


def test_who_is_exact_where_theory_says_so():
    for name in ("weighted", "shattered", "pertinent negative", "boolean and", "boolean or"):
        unit = UNITS[name](6, 1)
        exact = METHODS["exact_shapley"](unit.score, unit.inputs, support=False).values
        assert unit.error(exact).max() < 1e-8, name
    conflicting = UNITS["conflicting"](20, 1)
    values = METHODS["exact_shapley"](conflicting.score, conflicting.inputs, support=False).values
    x, c = conflicting.truth[:, :3], conflicting.inputs[:, 3:]
    half = torch.cat([x * (1 - c / 2), -x * c / 2], 1)  # both orders: half is given and half is taken
    torch.testing.assert_close(values, half, atol=1e-4, rtol=1e-4)
    uncertain = UNITS["uncertain"](6, 1)
    values = METHODS["integrated_gradients"](uncertain.score, uncertain.inputs, support=False).values
    assert uncertain.error(values).max() < 1e-8
