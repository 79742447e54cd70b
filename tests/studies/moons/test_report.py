"""The folder of a run holds everything to be read."""

import json
from dataclasses import replace

from tiny_moons import TINY

from studies.moons.report import _errors


def test_folder_holds_report_table_and_figures(run):
    names = {p.stem for p in run.figures.glob("*.png")}
    assert names == {"maps", "output_difference", "purity", "variational_paths", "enhanced_ig", "graph"}
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert page.count("<img") == 6 and "http" not in page.split("</style>")[1]
    assert (run.path / "table.md").read_text(encoding="utf-8").count("\n") == 2 + len(TINY.methods) + 1
    assert set(json.loads((run.path / "summary.json").read_text())["methods"]) == {*TINY.methods, "ideal"}


def test_the_page_begins_with_a_conclusion_and_says_nothing_of_what_is_not_there(run):
    page = (run.path / "report.html").read_text(encoding="utf-8").split("</style>")[1]
    assert page.index("ranks the test points purest") < page.index("Table 1</h2>") < page.index("<table")
    assert "*" not in page.split("Settings</h2>")[0].split("<img")[0] and "<strong>minus IG</strong>" in page
    assert "(p = " not in page and "4 nets are too few for a test" in page  # two noises, two seeds
    winner = (run.path / "table.md").read_text(encoding="utf-8")
    assert winner.count("| **") == len(winner.splitlines()[0].split("|")) - 2


def test_errors_are_named_where_there_are_any():
    assert _errors(replace(TINY, seeds=(12,))).startswith("One seed, so numbers have no errors.")
    many = replace(TINY, noises=tuple(k / 20 for k in range(1, 7)))
    assert _errors(many) == (
        "± is one standard error over the 2 seeds. p is that of a sign-flip test, paired over the 12 nets, on the same "
        "points."
    )
