"""From studies to the page. Oracle: a study that counts how often it is asked."""

import json
from pathlib import Path

import pytest

from leastpath.commands.run_folder import RunFolder
from studies.findings import command
from studies.findings.catalogue import STUDIES
from studies.findings.command import chosen_studies, rewrite_page, run_findings
from studies.findings.config import Setting
from studies.findings.page import DATA
from studies.findings.study import Measurement, Study

DOCS = Path(__file__).parents[3] / "docs"


class Counting:
    """Two measurements, one of which reads a file; the second may be interrupted."""

    def __init__(self, interrupted=False):
        self.asked, self.interrupted = [], interrupted

    def study(self):
        kept = Measurement("kept", lambda: self.answer("kept"))
        read = Measurement("read", lambda: self.answer("read"), reads=True)
        return Study(
            "counting", "Counting", lambda setting: [kept, read], lambda records: f"{sorted(records)} **are** there."
        )

    def answer(self, key):
        if self.interrupted and key == "read":
            raise KeyboardInterrupt
        self.asked.append(key)
        return {"n": len(self.asked)}


def explained(counting, folder, monkeypatch):
    monkeypatch.setattr(command, "STUDIES", {"counting": counting.study()})
    run = RunFolder.open(folder, "findings", {"quick": True}, resume=True)
    return run, run_findings(run, Setting(run.store, quick=True))


def test_what_is_finished_is_not_done_again_but_files_are_read_again(tmp_path, monkeypatch):
    first, again = Counting(), Counting()
    explained(first, tmp_path / "run", monkeypatch)
    run, page = explained(again, tmp_path / "run", monkeypatch)
    assert first.asked == ["kept", "read"] and again.asked == ["read"]
    assert "## Counting\n\n['kept', 'read'] **are** there.\n" in page
    assert json.loads((run.path / "findings.json").read_text()) == {"counting": {"kept": {"n": 1}, "read": {"n": 1}}}
    assert (run.path / "findings.md").read_text() == page
    assert "<strong>are</strong> there" in (run.path / "report.html").read_text()


def test_an_interruption_keeps_what_is_finished(tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        explained(Counting(interrupted=True), tmp_path / "run", monkeypatch)
    again = Counting()
    explained(again, tmp_path / "run", monkeypatch)
    assert again.asked == ["read"]


def test_an_unknown_study_is_refused_with_those_that_exist():
    with pytest.raises(ValueError, match="no study is called 'magic': use some of winners, moons, voc"):
        chosen_studies(["magic"])


def test_the_page_in_the_documentation_comes_from_the_kept_results(tmp_path):
    """`python -m studies.findings --rewrite docs` mends it."""
    (tmp_path / "_generated").mkdir()
    kept = (DOCS / "_generated" / "findings.json").read_text(encoding="utf-8")
    (tmp_path / "_generated" / "findings.json").write_text(kept, encoding="utf-8")
    rewrite_page(tmp_path)
    data = sorted(file.name for file in (DOCS / DATA).iterdir())
    assert sorted(file.name for file in (tmp_path / DATA).iterdir()) == data
    for file in ("findings.md", *(f"{DATA}/{name}" for name in data)):
        assert (DOCS / file).read_text(encoding="utf-8") == (tmp_path / file).read_text(encoding="utf-8")
    found = json.loads(kept)
    assert list(found) == [name for name in STUDIES if name in found]


def test_who_wins_is_read_anew_from_the_study_of_truth(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "STUDIES", {"winners": STUDIES["winners"]})  # the others are written by the test above
    (tmp_path / "_generated").mkdir()
    kept = json.loads((DOCS / "_generated" / "findings.json").read_text(encoding="utf-8"))
    del kept["winners"]
    (tmp_path / "_generated" / "findings.json").write_text(json.dumps(kept), encoding="utf-8")
    rewrite_page(tmp_path, DOCS / "_generated")
    for file in ("winners.csv", "winners-2.csv"):
        assert (tmp_path / DATA / file).read_text(encoding="utf-8") == (DOCS / DATA / file).read_text(encoding="utf-8")
    assert next(iter(json.loads((tmp_path / "_generated" / "findings.json").read_text(encoding="utf-8")))) == "winners"
