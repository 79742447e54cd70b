"""The verdict in words: which explanation stands the test of removal, and which does not."""

from __future__ import annotations

from collections.abc import Mapping

from leastpath._support.checks import write_number
from leastpath.removal.verdict import MARGIN


def verdict(support: Mapping[str, float], *, is_probability: bool = True) -> str:
    """What the removal curves say of each method, in a few sentences.

    Args:
        support: method -> its symmetric relevance gain.
        is_probability: whether it is in probability, not in units of a score.

    Example:
        >>> print(verdict({"Staircases": 0.41, "IG": 0.12, "Noise": -0.02}))
        Removing what Staircases ranks first lowers the probability most: trust Staircases here.
        Support: Staircases 0.41, IG 0.12, Noise −0.02; 0 is a random order. Removal does not confirm Noise.
    """
    best = max(support, key=lambda name: support[name])
    change = "lowers the probability" if is_probability else "changes the score"
    if not support[best] > 0:
        who = "these methods rank" if len(support) > 1 else f"{best} ranks"
        none = "None of these stands the test" if len(support) > 1 else f"{best} does not stand the test"
        return (
            f"{none}: removing what {who} first {change} no more than removing what comes last. Do not read the "
            "pictures as reasons; try another --baseline, --target or --methods."
        )
    equal = [name for name in support if support[name] >= (1 - MARGIN) * support[best]]
    if len(support) == 1:
        first = f"{best} stands the test: removing what it ranks first {change} more than removing what it ranks last."
    elif len(equal) == 1:
        first = f"Removing what {best} ranks first {change} most: trust {best} here."
    else:
        first = f"Removing what {_join_words(equal)} rank first {change} most, about equally: trust them here."
    each = ", ".join(f"{name} {write_number(value, 2)}" for name, value in support.items())
    failed = [name for name, value in support.items() if not value > 0]
    last = f" Removal does not confirm {_join_words(failed, 'or')}." if failed else ""
    return f"{first}\nSupport: {each}; 0 is a random order.{last}"


def _join_words(names: list[str], word: str = "and") -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"
