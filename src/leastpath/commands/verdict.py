"""The verdict in words: which of several explanations of one input stands the test of removal, and which does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from leastpath._support.checks import write_number
from leastpath.evaluation.statistics import holm
from leastpath.removal.chance import Probe, p_worse
from leastpath.removal.verdict import ALPHA, LEAST_UNITS


class Trial(NamedTuple):
    """What removal says of one explanation."""

    support: float
    p_value: float
    p_model: float
    strengths: Tensor  # (units,) its values
    weights: Tensor  # (units,) of the removals that all explanations share

    @property
    def p(self) -> float:
        """Of both questions together."""
        return max(self.p_value, self.p_model)


def verdict(tests: Mapping[str, Trial], *, is_probability: bool = True) -> str:
    """What removal says of the methods, in a few sentences. p-values are corrected for how many were tried (Holm).

    Args:
        tests: method -> its test, all by the same removals.
        is_probability: whether support is in probability, not in units of a score.

    Example:
        >>> order = torch.linspace(-1, 1, 30)
        >>> right, wrong = Trial(0.41, 0.002, 0.004, order, order), Trial(-0.02, 0.6, 0.7, -order, order)
        >>> print(verdict({"Staircases": right, "Noise": wrong}))
        Only Staircases stands the test: trust Staircases here.
        Support: Staircases 0.41 (p 0.008), Noise −0.02 (p 0.7); p is corrected for 2 methods tried.
    """
    names = list(tests)
    adjusted = dict(zip(names, holm([tests[name].p for name in names]).tolist(), strict=True))
    by_chance = dict(zip(names, holm([tests[name].p_value for name in names]).tolist(), strict=True))
    passed = [name for name in names if adjusted[name] <= ALPHA]
    above = [name for name in names if by_chance[name] <= ALPHA]
    tried = f"; p is corrected for {len(names)} methods tried" if len(names) > 1 else ""
    each = ", ".join(
        f"{name} {write_number(tests[name].support, 2)} (p {write_number(adjusted[name], 2)})" for name in names
    )
    first = _praise(tests, passed, is_probability) if passed else _doubt(tests, above)
    return f"{first}\nSupport: {each}{tried}."


def _praise(tests: Mapping[str, Trial], passed: list[str], is_probability: bool) -> str:
    """Of methods that passed, the best one; and those that cannot be told apart from it."""
    change = "lowers the probability" if is_probability else "changes the score"
    best = max(passed, key=lambda name: tests[name].support)
    if len(tests) == 1:
        return f"{best} stands the test: removing what it ranks first {change} beyond chance."
    if len(passed) == 1:
        return f"Only {best} stands the test: trust {best} here."
    equal = [name for name in passed if name == best or not _is_worse(tests[name], tests[best])]
    if len(equal) == 1:
        return f"Removing what {best} ranks first {change} most: trust {best} here."
    return f"{_join_words(equal)} stand the test and cannot be told apart here: trust any of them."


def _is_worse(one: Trial, other: Trial) -> bool:
    none = torch.zeros(1)
    return p_worse(Probe(one.weights, one.weights[None], none), one.strengths, other.strengths) <= ALPHA


def _doubt(tests: Mapping[str, Trial], above: list[str]) -> str:
    names, remedy = list(tests), "Do not read the pictures as reasons; try another --baseline, --target or --methods."
    if above:
        more = "is better than chance, but no" if len(above) == 1 else "are better than chance, but no"
        return f"{_join_words(above)} {more} better than what the input shows without the model. {remedy}"
    count = tests[names[0]].strengths.numel()
    if count < LEAST_UNITS:
        return f"{count} features have too few orders to tell from chance: at least {LEAST_UNITS} are needed."
    who = f"None of these {len(names)} methods is" if len(names) > 1 else f"{names[0]} is not"
    alone = [name for name in names if tests[name].p_value <= ALPHA]
    counted = f" once all are counted ({_join_words(alone)} would be alone)" if alone else ""
    return f"{who} better than chance here{counted}. {remedy}"


def _join_words(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
