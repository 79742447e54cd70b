"""A study is a question, its work and its section."""

from leastpath._support.store import Store
from studies.findings.catalogue import STUDIES
from studies.findings.config import Setting
from studies.findings.study import Measurement, Study


def test_measurements_of_all_studies_have_names_of_their_own(tmp_path):
    setting = Setting(Store(tmp_path, {}), quick=True)
    for study in STUDIES.values():
        keys = [piece.key for piece in study.measurements(setting)]
        assert len(set(keys)) == len(keys) and ": " not in study.name  # which the store joins them by


def test_from_measurements_to_the_section():
    study = Study("size", "Size", lambda setting: [Measurement("n", lambda: {"n": 3})], lambda found: f"{found['n']}")
    assert study.section({piece.key: piece.compute() for piece in study.measurements(None)}) == "{'n': 3}"
