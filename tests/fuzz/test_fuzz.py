"""What fuzzing found stays mended, and a short search, the same in every run, finds nothing."""

import json
from collections import Counter

import pytest

from fuzz import files
from fuzz.oracle import Outcome, Wrong, judge
from fuzz.search import FOUND, SEARCHES, open_findings, search

KEPT = sorted(FOUND.glob("*.json"))


@pytest.mark.parametrize("file", KEPT, ids=[file.stem for file in KEPT])
def test_what_was_found_is_mended(file):
    kept = json.loads(file.read_text(encoding="utf-8"))
    if kept.get("open"):
        pytest.xfail(kept["open"])
    outcome = SEARCHES[kept["search"]][1](kept["recipe"])
    assert not outcome.is_finding, outcome


@pytest.mark.parametrize(("name", "n"), [("calls", 60), ("files", 40)])
def test_a_short_search_finds_nothing(name, n):
    counts, found = Counter(), {}
    search(name, 20, n, counts, found)
    assert not set(found) - open_findings(), found
    assert counts["right"] and counts["sentence"]


def test_the_oracle_knows_its_four_answers():
    def wrong(_):
        raise Wrong("no")

    assert judge(lambda: 1) == Outcome("right")
    assert judge(lambda: 1, wrong) == Outcome("wrong", "no")
    assert judge(lambda: int("x")).verdict == "raw"
    import leastpath as lp

    assert judge(lambda: lp.Score(3)).verdict == "sentence"


def test_mutations_change_what_they_say():
    content = bytes(range(100))
    assert files.mutate_bytes(content, "cut off", 5_000, 1) == content[:50]
    assert files.mutate_bytes(content, "flip a bit", 0, 8) == b"\x01" + content[1:]
    assert len(files.mutate_bytes(content, "repeat", 0, 10)) == 110
    assert files.mutate_tree({"a": [1, 2]}, 9_999, "gone") == {"a": [1]}
    assert files.mutate_tree({"a": [1, 2]}, 0, "null") == {"a": None}
