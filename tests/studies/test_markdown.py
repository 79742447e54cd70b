"""Tables in Markdown."""

from studies.markdown import markdown_table


def test_bars_in_cells_are_escaped_and_numbers_written():
    lines = markdown_table(["|A|", "n"], [["a|b", 3]]).splitlines()
    assert lines == [r"| \|A\| | n |", "| :--- | ---: |", r"| a\|b | 3 |"]
