"""The chart shows the numbers of the page's own table."""

import math
from pathlib import Path

from studies.findings.charts import bars_of, draw_first_table

TABLE = "| net | best | gain | IDGI | IG |\n| :--- | ---: | ---: | ---: | ---: |\n| VOC | AGI | 0.4 | – | −0.1 |\n"


def test_bars_are_the_cells_of_the_table():
    names, bars = bars_of(TABLE)
    assert names == ["VOC: AGI"]
    assert (bars["gain"], bars["IG"]) == ([0.4], [-0.1]) and math.isnan(bars["IDGI"][0])


def test_the_picture_is_drawn_and_without_a_table_there_is_none(tmp_path):
    draw_first_table(f"# Findings\n\n{TABLE}\nWords.\n", tmp_path / "drawn.png")
    draw_first_table("# Findings\n\nWords.\n", tmp_path / "none.png")
    assert (tmp_path / "drawn.png").stat().st_size > 1000 and not (tmp_path / "none.png").exists()


def test_the_page_has_the_table_that_is_drawn():
    docs = Path(__file__).parents[3] / "docs"
    page = (docs / "findings.md").read_text(encoding="utf-8")
    assert "](_generated/finding_who_wins_where.png)" in page and "| gain | IDGI | IG |" in page
    assert (docs / "_generated" / "finding_who_wins_where.png").exists()
