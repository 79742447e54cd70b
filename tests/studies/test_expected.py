"""Expected numbers: every study has some, with their source."""

import pytest

from studies.expected import expected_numbers


@pytest.mark.parametrize("study", ["moons", "voc"])
def test_the_papers_numbers_name_their_table(study):
    found = expected_numbers(study)
    assert "arXiv 2502.12108, Table" in found["paper"]["source"] and "python -m studies" in found["measured"]["source"]


def test_findings_have_measured_numbers_only():
    assert list(expected_numbers("findings")) == ["measured"]
