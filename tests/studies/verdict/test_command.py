"""The command, run on little. Oracle: its files, and a second run that only reads."""

import json

from typer.testing import CliRunner

from studies.command_line import application
from studies.verdict.command import command
from studies.verdict.page import BEGIN, END


def test_a_quick_run_writes_its_results_and_the_page(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "verdict.md").write_text(f"# Verdict\n\n{BEGIN}{END}\n", encoding="utf-8")
    words = ["--quick", "--nets", "wine-0", "--inputs", "2", "--out", str(tmp_path / "run"), "--save", str(docs)]
    found = CliRunner().invoke(application(command), words)
    assert found.exit_code == 0, found.output
    told = json.loads((docs / "_generated" / "verdict.json").read_text(encoding="utf-8"))
    assert told["verdicts"]["wine, 13 columns"]["ig"]["n"] == 2
    assert (docs / "_generated" / "verdict_rates.png").stat().st_size > 1000
    assert (
        (docs / "_generated" / "verdict.csv").read_text(encoding="utf-8").startswith("inputs,map,removals,n,supported,")
    )
    assert "| *inputs* | 2 |" in (docs / "verdict.md").read_text(encoding="utf-8")
    again = CliRunner().invoke(application(command), [*words, "--resume"])
    assert again.exit_code == 0 and "| *inputs* | 2 |" in again.output
