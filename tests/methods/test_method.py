"""A method, and the table that methods stand in."""

import math

import pytest
import torch

import leastpath as lp
from helpers import flat_points, mlp
from leastpath._support.registry import UnknownName
from leastpath.methods import METHODS, Explained, Method, Methods
from leastpath.methods.method import settings_of


def test_unknown_names_and_settings_are_refused_with_the_known_ones():
    with pytest.raises(UnknownName, match=r"no method is called 'ig': use one of ig2, .*idgi.* in all"):
        METHODS["ig"]
    assert METHODS.get("ig") is None and "ig" not in METHODS
    with pytest.raises(ValueError, match=r"lime has no setting 'n_sample': it has .*n_samples"):
        METHODS["lime"].with_settings(n_sample=3)
    with pytest.raises(ValueError, match="expected a Score"):
        METHODS["lime"](mlp(), flat_points(1, 4))


def test_an_unknown_name_says_how_to_add_one():
    with pytest.raises(UnknownName, match=r"or add yours, in every process that asks for it, by .*register"):
        METHODS["nobodys_method"]


def nothing(score, inputs, baselines=None, *, width=3, seed=0, progress=False):
    raise NotImplementedError


def test_settings_are_the_keyword_only_parameters():
    assert settings_of(nothing) == {"width": 3}


def test_a_table_keeps_its_order_and_what_it_was_made_with():
    first = Method("first", "First", "peer", "One.", False, nothing, {"width": 3})
    table = Methods("method", {"first": first}, group="nobodys.methods", adder="register")
    table.add("second", Method("second", "Second", "peer", "Two.", False, nothing))
    assert list(table) == ["first", "second"] and table.built_in == {"first"} and len(table) == 2
    with pytest.raises(ValueError, match="'first' is a method of leastpath itself"):
        table.add("first", first.with_settings(width=4))
    assert table["first"].defaults["width"] == 3


@pytest.mark.parametrize("name", ["integrated_gradients", "staircase", "input_x_gradient"])
def test_several_baselines_may_be_named(name):
    """As tensors they mean the same."""
    score, x = lp.Score(lambda x: (x.flatten(1) ** 3).sum(1)), torch.rand(2, 3, 8, 8)
    named = lp.baselines.several("black", "mean")
    given, told = (METHODS[name](score, x, baselines) for baselines in (named.of(x), named))
    torch.testing.assert_close(told.values, given.values)


# ---- attributions without a path: the evidence that is left --------------------


WEIGHTS = torch.tensor([2.0, -1.0, 0.5])
SCORE = lp.Score(lambda x: x @ WEIGHTS)


def explained(values_of, inputs, baselines=None):
    def mine(problem):
        return values_of(problem)

    return lp.attribute(SCORE, inputs, baselines, method=mine)


def test_gap_and_cancellation_are_those_of_the_values():
    result = explained(lambda problem: Explained((problem.end - problem.start) * WEIGHTS), torch.ones(2, 3))
    assert result.completeness_gap.tolist() == [0.0, 0.0] and result.cancellation.tolist() == [2.0, 2.0]
    assert result.path is None and result.certificate.isnan().all()
    assert "has no path" in result.status[0].value


def test_several_baselines_are_rows_that_are_averaged():
    baselines = torch.stack([torch.zeros(1, 3), torch.ones(1, 3)], 1)  # (1, 2, 3)
    seen = []

    def values_of(problem):
        seen.append((len(problem), problem.m))
        return Explained((problem.end - problem.start) * WEIGHTS)

    result = explained(values_of, 2 * torch.ones(1, 3), baselines)
    assert seen == [(2, 2)] and torch.equal(result.values, 1.5 * WEIGHTS[None])
    assert result.baseline_spread is not None


def test_zeros_and_remarks_are_told():
    result = explained(lambda problem: Explained(torch.zeros(1, 3), remarks=["Half of it."]), torch.ones(1, 3))
    assert "gives zero everywhere" in result.status[0].value and "Half of it" in result.status[0].value


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="NaN or infinite attributions for example 1"):
        explained(lambda problem: Explained(torch.tensor([[1.0] * 3, [torch.nan] * 3])), torch.ones(2, 3))


# ---- settings are what they are called ------------------------------------------------------------------------------

ABSURD = {
    "True": True,
    "nan": math.nan,
    "inf": math.inf,
    "-1": -1,
    "0": 0,
    "a text": "1",
    "two": torch.ones(2),
    "complex": 1j,
    "huge": 10**30,
}
NUMBERS = [
    (name, setting, default)
    for name, chosen in lp.METHODS.items()
    for setting, default in chosen.defaults.items()
    if isinstance(default, (int, float)) and not isinstance(default, bool)
] + [("integrated_gradients", setting, None) for setting in ("n_steps", "max_gradients", "max_seconds")]


@pytest.mark.parametrize(("name", "setting", "default"), NUMBERS)
def test_a_number_that_is_none_is_refused_at_the_door(name, setting, default):
    """Before the model runs: True, NaN, words, tensors and complex numbers are no numbers; a count has an end."""
    score, needed = lp.Score(mlp(), 1), {"points": flat_points(30, 4), "decoder": lambda z: z, "encoder": lambda x: x}
    given = {key: value for key, value in needed.items() if key in lp.METHODS[name].defaults}
    is_count = isinstance(default, int) or setting.startswith(("n_", "max_gradients"))
    wrong = ["True", "nan", "a text", "two", "complex"] + ["inf", "huge", "-1"] * is_count
    wrong += ["-1"] * (setting.startswith(("step", "max_", "noise", "tolerance")))
    for word in wrong:
        with pytest.raises(ValueError, match=setting):
            lp.METHODS[name].check(score, None, given | {setting: ABSURD[word]})


@pytest.mark.parametrize("word", ABSURD)
@pytest.mark.parametrize("setting", ["solver", "metric", "geometry", "weighting", "rule", "measure"])
def test_a_part_that_is_none_is_refused_at_the_door(setting, word):
    with pytest.raises(ValueError, match="output=" if (setting, word) == ("geometry", "a text") else setting):
        lp.METHODS["integrated_gradients"].check(lp.Score(mlp(), 1), None, {setting: ABSURD[word]})


@pytest.mark.parametrize("name", ["agi", "mfaba", "ig2", "fisher_rao", "boundary_ig"])
@pytest.mark.parametrize("limits", [3, "01", (0,), (1, 0), (0, 1, 2), ("0", "1"), torch.ones(2), (0, math.nan)])
def test_limits_are_a_lower_and_an_upper_end(name, limits):
    with pytest.raises(ValueError, match="limits"):
        lp.attribute(lp.Score(mlp(), 1), torch.ones(1, 4), method=name, limits=limits)


@pytest.mark.parametrize("radii", [0.3, (), (0.1, -1), ("a",), (True,)])
def test_radii_are_positive_numbers(radii):
    with pytest.raises(ValueError, match="radii"):
        lp.attribute(lp.Score(mlp(), 1), torch.ones(1, 4), method="boundary_ig", radii=radii)
