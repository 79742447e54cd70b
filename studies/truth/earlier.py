"""What earlier runs measured stays on the page: a run of hours need not be repeated to add a method or a net."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from studies.truth.problem import HALVES
from studies.truth.results import corrected

Told = Mapping[str, Any]
"""All that the page needs, as `command.told_by` makes it."""


def with_earlier(told: Told, earlier: Told) -> dict[str, Any]:
    """The results of a run, and those of an earlier one that it did not measure again.

    Each pair of a net and a method is taken whole from the one that has more examples, the later one if both have as
    many. Holm's correction is made anew, over the cells of both. What the rule chose for a kind of input is taken from
    the later run only if it has all nets of that kind that the earlier one had: the rule looks at single examples.

    Args:
        told: what this run found.
        earlier: what is on the page.
    """
    nets = {**earlier["nets"], **told["nets"]}
    return {
        "nets": nets,
        "candidates": earlier["candidates"] | told["candidates"],
        "summaries": {half: _summaries(told, earlier, half, list(nets)) for half in HALVES},
        "gates": {half: _gates(told, earlier, half) for half in HALVES},
        "tests": corrected(_tests(told, earlier)),
        "choices": earlier["choices"] | {k: v for k, v in told["choices"].items() if _covers(told, earlier, k)},
        "examples": {
            net: _longer(earlier.get("examples", {}).get(net, {}), told.get("examples", {}).get(net, {}))
            for net in nets
            if net in earlier.get("examples", {}) or net in told.get("examples", {})
        },
    }


def _summaries(told: Told, earlier: Told, half: str, nets: Sequence[str]) -> dict[str, Any]:
    old, new = earlier["summaries"][half], told["summaries"][half]
    return {
        net: _in_order(_larger(old.get(net, {}), new.get(net, {})), told["candidates"])
        for net in nets
        if net in old or net in new
    }


def _larger(old: Mapping[Any, Told], new: Mapping[Any, Told]) -> dict[Any, Told]:
    """Of both, what has more examples; the new where they are as many."""
    return {**old, **{key: one for key, one in new.items() if key not in old or one["n"] >= old[key]["n"]}}


def _longer(old: Mapping[str, Told], new: Mapping[str, Told]) -> dict[str, Told]:
    """By method, the examples of the run that has more of them; the new one's where they are as many."""
    return {**old, **{name: rows for name, rows in new.items() if len(rows) >= len(old.get(name, ()))}}


def _gates(told: Told, earlier: Told, half: str) -> dict[str, Any]:
    """Each gate by itself: a run without the control net says nothing about being told from it."""
    old, new = earlier["gates"][half], told["gates"][half]
    both = {name: {**old.get(name, {}), **new.get(name, {})} for name in {**old, **new}}
    return _in_order(both, told["candidates"])


def _in_order(methods: Told, order: Mapping[str, str]) -> dict[str, Any]:
    return {name: methods[name] for name in order if name in methods}


def _tests(told: Told, earlier: Told) -> list[dict[str, Any]]:
    def key(test: Told) -> tuple[str, ...]:
        return tuple(test[name] for name in ("half", "method", "rival", "net", "measure"))

    old, new = ({key(test): test for test in of["tests"]} for of in (earlier, told))
    return [dict(test) for test in _larger(old, new).values()]


def _covers(told: Told, earlier: Told, kind: str) -> bool:
    def nets(of: Told) -> set[tuple[str, str]]:
        return {(half, net) for half in HALVES for net in of["summaries"][half] if of["nets"][net]["kind"] == kind}

    return nets(told) >= nets(earlier)
