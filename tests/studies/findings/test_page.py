"""The page: the summary by hand first, then an answer a study; the full page: sections, text wrapped, tables not."""

import tomllib

from studies.findings.catalogue import STUDIES
from studies.findings.page import ANSWERS, SUMMARY, findings_page, full_page
from studies.findings.study import Study


def study(name, text):
    return Study(name, name.title(), lambda setting: [], lambda records: text)


def test_the_summary_comes_first_and_studies_without_results_are_left_out():
    studies = {name: study(name, "Words.") for name in ("one", "two", "three")}
    page = findings_page(studies, {"three": {"a": {}}, "one": {"a": {}}})
    places = [page.index(words) for words in ("# Findings", SUMMARY.read_text(encoding="utf-8"), "[One](", "[Three](")]
    assert places == sorted(places) and "[Two](" not in page


def test_every_study_has_an_answer_and_its_number():
    assert tomllib.loads(ANSWERS.read_text(encoding="utf-8")).keys() == STUDIES.keys()
    purity = {"summary": {"methods": {"geodesic_graph": {"auc_purity": 0.25}}}}
    page = findings_page({"moons": STUDIES["moons"]}, {"moons": purity})
    assert "on the graph: 0.250.*" in " ".join(page.split()) and "](_generated/findings/moons.csv) | The paper" in page


def test_long_paragraphs_are_wrapped_and_tables_are_not():
    words, table = "word " * 60, f"| {'x' * 200} |"
    page = full_page({"one": study("one", f"{words}\n\n{table}")}, {"one": {"a": {}}})
    lines = page.partition("## One")[2].splitlines()
    assert table in lines and all(len(line) <= 118 for line in lines if line != table)
