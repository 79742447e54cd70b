"""The page of explain: what it shows is what was stored."""

import re

import pytest
import torch

import leastpath as lp
from leastpath.commands.answers import EVIDENCE, Answer
from leastpath.commands.case import Case
from leastpath.commands.explain_page import write_report
from leastpath.commands.run_folder import RunFolder

SHARES = torch.linspace(0, 1, 5)


def answer(title, values, support, kind="log_odds"):
    record = {name: 18042.0 for name in EVIDENCE} | {"support": support, "seconds": 1.5, "kind": kind, "status": "ok"}
    record |= {"p_value": 0.002, "p_model": 0.002} if support > 0 else {"p_value": 0.9, "p_model": 0.9}
    units = torch.linspace(-1, 1, 30).double()
    return Answer(title, record, values, SHARES, 1 - SHARES, SHARES, units if support > 0.45 else -units, units)


def picture(n=5):
    torch.manual_seed(0)
    found = [
        answer(f"A method with a long name {i}", torch.randn(1, 3, 16, 16) * 100**i, 0.5 - 0.1 * i) for i in range(n)
    ]
    score = lp.Score(lambda x: x.flatten(1).sum(1))
    starts = torch.zeros(1, 2, 3, 16, 16)
    return Case(score, torch.rand(1, 3, 16, 16), starts, "class 1", [{"class": "1"}]), found


def test_a_page_of_pictures_has_its_verdict_first_and_numbers_for_people(tmp_path):
    run = RunFolder.open(tmp_path / "out", "explain", {})
    case, found = picture()
    said = write_report(run, case, found, "cat.jpg", "black,mean")
    page = (run.path / "report.html").read_text()
    assert "trust A method with a long name 0 here" in said and said.splitlines()[0] in page
    assert page.index("Verdict") < page.index("Attributions") < page.index("Removal") < page.index("Evidence")
    heads = re.findall(r"<th>([a-z ]+)</th>", page)
    assert heads.index("support") < heads.index("completeness gap") < heads.index("certificate")
    assert "18,040" in page and not re.search(r"\de[+-]\d", re.sub(r"base64,[^\"]+", "", page))
    names = {
        "map.png",
        "attributions.png",
        "attributions-2.png",
        "removal.png",
    }  # four methods beside each other, at most
    assert {file.name for file in run.figures.iterdir()} == names


@pytest.mark.parametrize("n", [1, 3])
def test_a_page_of_a_row(tmp_path, n):
    run = RunFolder.open(tmp_path / "out", "explain", {})
    found = [answer(f"method {i}", torch.randn(1, 3), -0.1, "score") for i in range(n)]
    case = Case(lp.Score(lambda x: x.sum(1)), torch.ones(1, 3), torch.zeros(1, 3), "it", [], ["a", "b", "c"])
    said = write_report(run, case, found, "table.csv, row 3", "mean")
    assert "better than chance here" in said
    assert "Baseline: mean." in (run.path / "report.html").read_text()
