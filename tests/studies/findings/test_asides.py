"""Tables put aside. Oracle: the csv module reads back what the Markdown table says."""

import csv

from studies.findings.asides import put_aside

TABLE = "| path | \\|A\\| |\n| :--- | ---: |\n| IG, straight | −2.2 |\n| none | – |\n"


def test_tables_become_files_and_links(tmp_path):
    page = f"# Head\n\nWords.\n\n## The sign\n\nOne.\n\n{TABLE}\nTwo.\n\n{TABLE}\n## No table\n\nThree.\n"
    written = put_aside(page, {"The sign": "sign", "No table": "none"}, tmp_path)
    assert written == (
        "# Head\n\nWords.\n\n## The sign\n\nOne.\n\n[sign.csv](sign.csv)\n\nTwo.\n\n[sign-2.csv](sign-2.csv)\n\n"
        "## No table\n\nThree.\n"
    )
    assert sorted(file.name for file in tmp_path.iterdir()) == ["sign-2.csv", "sign.csv"]
    with (tmp_path / "sign.csv").open(encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["path", "|A|"], ["IG, straight", "-2.2"], ["none", "–"]]
