"""The verdict: what it says follows from the numbers alone."""

from leastpath.commands.verdict import verdict


def test_the_best_supported_is_trusted():
    said = verdict({"A": 0.4, "B": 0.1, "C": -0.1})
    assert said.startswith("Removing what A ranks first lowers the probability most: trust A here.")
    assert "A 0.4, B 0.1, C −0.1" in said and said.endswith("Removal does not confirm C.")


def test_those_that_nine_shares_cannot_tell_apart_are_trusted_together():
    said = verdict({"A": 0.400, "B": 0.395, "C": 0.2})
    assert "what A and B rank first" in said and "trust them here" in said and "not confirm" not in said


def test_none_stands_the_test():
    assert verdict({"A": -0.1, "B": 0.0}).startswith("None of these stands the test")
    assert verdict({"A": -0.1}).startswith("A does not stand the test")
    assert verdict({"A": float("nan")}).startswith("A does not stand the test")


def test_one_method_and_scores_that_are_no_probability():
    assert verdict({"A": 0.1}).startswith("A stands the test")
    assert "changes the score most" in verdict({"A": 2.0, "B": 1.0}, is_probability=False)
