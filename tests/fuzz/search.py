"""Searching: hypothesis draws recipes, the oracle judges them, findings are made small and kept as files."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed as seeded, settings
from hypothesis.strategies import SearchStrategy

from fuzz import calls, files
from fuzz.oracle import Outcome

FOUND = Path(__file__).parent / "found"
Recipe = dict[str, Any]
SEARCHES: dict[str, tuple[Callable[[], SearchStrategy[Recipe]], Callable[[Recipe], Outcome]]] = {
    "calls": (calls.recipes, calls.judge_recipe),
    "files": (files.recipes, files.judge_recipe),
}
Found = dict[tuple[str, str], Recipe]


def search(
    name: str, seed: int, n: int, counts: Counter[str], found: Found, until: float = float("inf"),
    last: Path | None = None,
) -> None:  # fmt: skip
    """Judge up to n recipes; a finding is put in `found` by its signature, as small as it goes.

    The file `last` has the recipe that is being judged, for whoever finds that the process did not survive it.
    """
    recipes, judge = SEARCHES[name]

    @seeded(seed)
    @settings(
        max_examples=n, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(recipes())
    def look(recipe: Recipe) -> None:
        if time.monotonic() > until:
            return
        if last is not None:
            last.write_text(json.dumps(recipe), encoding="utf-8")
        outcome = judge(recipe)
        counts[outcome.verdict] += 1
        if outcome.is_finding and (name, signature_of(outcome)) not in found:
            found[name, signature_of(outcome)] = smallest(recipe, outcome, judge)

    look()


def signature_of(outcome: Outcome) -> str:
    """What tells findings apart: the verdict and its words, without numbers."""
    return f"{outcome.verdict}: {re.sub(r'[0-9.]+', '#', outcome.words)[:160]}"


def smallest(recipe: Recipe, outcome: Outcome, judge: Callable[[Recipe], Outcome]) -> Recipe:
    """Without the changes that the finding does not need."""
    if outcome.verdict == "hang":
        return recipe
    for what in list(recipe.get("changes", ())):
        less = {**recipe, "changes": {k: v for k, v in recipe["changes"].items() if k != what}}
        if less["changes"] and signature_of(judge(less)) == signature_of(outcome):
            recipe = less
    return recipe


def open_findings() -> set[tuple[str, str]]:
    """What is known and not mended yet, by search and signature: files in `found` that say "open"."""
    kept = [json.loads(file.read_text(encoding="utf-8")) for file in FOUND.glob("*.json")]
    return {(one["search"], one["found"]) for one in kept if one.get("open")}


def keep(name: str, recipe: Recipe, signature: str) -> Path:
    """Write a finding as a case of the suite."""
    text = json.dumps({"search": name, "recipe": recipe, "found": signature}, indent=1) + "\n"
    file = FOUND / f"{name}-{hashlib.sha256(signature.encode()).hexdigest()[:10]}.json"
    FOUND.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file
