"""The picture in the report is the file beside it."""

import base64
import re

from leastpath.commands.pictures import show
from leastpath.commands.run_folder import RunFolder
from leastpath.report import Report
from leastpath.report.canvas import new_figure


def test_the_report_holds_the_very_file(tmp_path):
    run = RunFolder.open(tmp_path / "run", "test", {})
    report = Report("Title")
    show(report, run, new_figure(1, 1), "empty", 'a < b, "quoted"', dpi=50)
    page = report.html()
    data = re.search(r"base64,([^\"]+)", page)[1]
    assert base64.b64decode(data) == (run.figures / "empty.png").read_bytes()
    assert "a &lt; b, &quot;quoted&quot;" in page
