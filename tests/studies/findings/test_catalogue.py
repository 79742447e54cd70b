"""All studies, once each."""

from studies.findings.catalogue import STUDIES


def test_names_and_titles_are_distinct():
    assert all(study.name == name for name, study in STUDIES.items())
    assert len({study.title for study in STUDIES.values()}) == len(STUDIES)
