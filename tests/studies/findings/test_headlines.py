"""One number of each study. Oracle: the kept results of the documentation."""

import json
from pathlib import Path

import pytest

from studies.expected import expected_numbers
from studies.findings.catalogue import STUDIES
from studies.findings.headlines import HEADLINES, against_expected, found_headlines

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def kept():
    return json.loads((DOCS / "_generated" / "findings.json").read_text(encoding="utf-8"))


def test_expected_numbers_are_those_of_the_documentation(kept):
    found = found_headlines(kept)
    assert found == pytest.approx(expected_numbers("findings")["measured"], rel=5e-3)
    assert list(HEADLINES) and HEADLINES.keys() == STUDIES.keys()


def test_what_is_not_finished_is_left_out_and_what_differs_is_said(kept):
    assert found_headlines({"sign": {}, "voc": {}}) == {}
    lines = against_expected(kept).splitlines()
    assert len(lines) == len(HEADLINES) and all(line.startswith("as expected") for line in lines)
    other = {"domains": {"breast cancer, geodesic_descent": {"length_ratio": [0.9]}}}
    assert against_expected(other).startswith("DIFFERS  domains: median length ratio")
