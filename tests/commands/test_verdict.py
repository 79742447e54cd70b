"""The verdict on several methods: what it says follows from the numbers alone, corrected for how many were tried."""

import torch

from leastpath.commands.verdict import Trial, verdict

TRUTH = torch.linspace(-1, 1, 40).double()
NOISE = torch.randn(40, generator=torch.Generator().manual_seed(0)).double()


def trial(support, p_value, p_model, values=TRUTH):
    return Trial(support, p_value, p_model, values, TRUTH)


def test_the_best_supported_is_trusted():
    found = {"A": trial(0.4, 0.002, 0.004), "B": trial(0.1, 0.01, 0.01, NOISE), "C": trial(-0.1, 0.9, 0.9, -TRUTH)}
    said = verdict(found)
    assert verdict({name: found[name] for name in "AC"}).startswith("Only A stands the test: trust A here.")
    assert said.startswith("Removing what A ranks first lowers the probability most: trust A here.")
    assert "A 0.4 (p 0.012), B 0.1 (p 0.02), C −0.1 (p 0.9)" in said and "corrected for 3 methods tried" in said


def test_those_that_removal_cannot_tell_apart_are_trusted_together():
    close = TRUTH + 0.01 * NOISE
    said = verdict({"A": trial(0.4, 0.002, 0.002), "B": trial(0.39, 0.002, 0.002, close), "C": trial(0.1, 0.5, 0.5)})
    assert said.startswith("A and B stand the test and cannot be told apart here: trust any of them.")


def test_none_is_trusted_after_correction():
    """A p-value of .02 among four methods is .08."""
    said = verdict({name: trial(0.1, p, p) for name, p in {"A": 0.02, "B": 0.5, "C": 0.6, "D": 0.9}.items()})
    assert said.startswith(
        "None of these 4 methods is better than chance here once all are counted (A would be alone)."
    )
    few = Trial(0.1, 1.0, 1.0, TRUTH[:3], TRUTH[:3])
    assert verdict({"A": few, "B": few}).startswith("3 features have too few orders to tell from chance: at least 4")
    assert verdict({"A": trial(-0.1, 0.9, 0.9)}).startswith("A is not better than chance here")


def test_four_random_methods_are_trusted_in_at_most_5_percent():
    """p-values of ignorance are uniform: Holm keeps the chance of any "trust" at 5 %."""
    uniform = torch.rand(400, 4, 2, generator=torch.Generator().manual_seed(1))
    said = [verdict({n: trial(0.1, *p) for n, p in zip("ABCD", row.tolist(), strict=True)}) for row in uniform]
    assert sum("trust" in one for one in said) <= 0.05 * 400


def test_what_the_input_shows_as_well_is_not_trusted():
    said = verdict({"A": trial(0.3, 0.002, 0.4)})
    assert said.startswith("A is better than chance, but no better than what the input shows without the model.")


def test_one_method_and_scores_that_are_no_probability():
    assert verdict({"A": trial(0.1, 0.01, 0.01)}).startswith("A stands the test")
    both = {"A": trial(2.0, 0.002, 0.002), "B": trial(1.0, 0.01, 0.01, NOISE)}
    assert "changes the score most" in verdict(both, is_probability=False)
