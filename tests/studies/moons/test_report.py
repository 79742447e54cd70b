"""The folder of a run holds everything to be read."""

import json

from tiny_moons import TINY


def test_folder_holds_report_table_and_figures(run):
    names = {p.stem for p in run.figures.glob("*.png")}
    assert names == {"maps", "output_difference", "purity", "variational_paths", "enhanced_ig", "graph"}
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert page.count("<img") == 6 and "http" not in page.split("</style>")[1]
    assert (run.path / "table.md").read_text(encoding="utf-8").count("\n") == 2 + len(TINY.methods) + 1
    assert set(json.loads((run.path / "summary.json").read_text())["methods"]) == {*TINY.methods, "ideal"}
