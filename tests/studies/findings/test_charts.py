"""Charts show the numbers of the page's own tables."""

import math

from studies.findings.charts import CHARTS, Chart, bars_of, with_charts

TABLE = "| noise | path | cancellation, mean |\n| :--- | ---: | ---: |\n| 0.1 | IG | 2.2 |\n| 0.1 | as \\|A\\| | – |\n"


def test_bars_are_the_cells_of_the_first_table():
    names, bars = bars_of(f"Words.\n\n{TABLE}\n| other | table |\n", Chart(("cancellation, mean",), labels=2))
    assert names == ["0.1, IG", "0.1, as |A|"]
    assert bars["cancellation, mean"][0] == 2.2
    assert math.isnan(bars["cancellation, mean"][1])


def test_a_picture_follows_the_first_paragraph(tmp_path):
    page = f"# Findings\n\nHead.\n\n## The sign of the energy\n\nWords.\n\nMore.\n\n{TABLE}\n## Unknown\n\nWords.\n"
    drawn = with_charts(page, tmp_path)
    file = "_generated/finding_the_sign_of_the_energy.png"
    assert f"Words.\n\n![The sign of the energy: cancellation, mean]({file})\n\nMore." in drawn
    assert drawn.endswith("## Unknown\n\nWords.\n")
    assert (tmp_path / file).stat().st_size > 1000


def test_every_chart_has_a_section_of_the_page():
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "findings.md").read_text(encoding="utf-8")
    assert all(f"\n## {title}\n" in page for title in CHARTS)
