"""Every Python block of README.md and docs/ runs, page by page, in order, in one namespace."""

import re
from pathlib import Path

import pytest
import torch

import leastpath as lp
from leastpath.score.baselines import BASELINES

ROOT = Path(__file__).parent.parent
PAGES = [
    page
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
    if page.exists()
]
BLOCK = re.compile(
    r"(?P<skip><!-- no-run: [^>]+-->\s*)?^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```$", re.M | re.S
)


def blocks(text: str) -> list[tuple[int, str]]:
    """Line number and code of each block that is to run."""
    found = []
    for match in BLOCK.finditer(text):
        if match["skip"] is None:
            line = text.count("\n", 0, match.start("code"))
            found.append((line, re.sub(rf"^{match['indent']}", "", match["code"], flags=re.M)))
    return found


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # SHAP under matplotlib 3.11
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what a page writes does not stay
    monkeypatch.setenv("MPLBACKEND", "agg")
    for table in (lp.METHODS, lp.MEASURES, BASELINES):  # what a page registers does not stay either
        monkeypatch.setattr(table, "_things", dict(table._things))
    namespace = {"__name__": "__main__"}
    for line, code in blocks(page.read_text(encoding="utf-8")):
        padded = "\n" * line + code  # so that a traceback shows the page's own line numbers
        try:
            exec(compile(padded, str(page), "exec"), namespace)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] == "leastpath":
                raise
            pytest.skip(f"needs {error.name}")
    torch.set_num_threads(1)


def test_blocks_are_found_and_marked_ones_left_out():
    skipped = "<!-- no-run: downloads -->\n```python\nx = 2\n```\n"
    text = f"a\n```python\nx = 1\n```\n{skipped}- b\n  ```python\n  x = 3\n  ```\n"
    assert blocks(text) == [(2, "x = 1\n"), (10, "x = 3\n")]


def test_each_thing_that_can_be_added_takes_at_most_forty_lines():
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for thing in ("solver", "method", "metric", "measure", "baseline"):
        assert f"\n## A {thing}\n" in text and f"| a {thing} |" in contributing
    assert max(len(code.splitlines()) for _, code in blocks(text)) <= 40


def test_the_readme_prints_what_it_shows(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"^```text\n(.*?)^```$", text, re.M | re.S)[1].split()
    exec(compile(blocks(text)[0][1], "README.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.split()
    torch.set_num_threads(1)
    assert len(printed) == len(shown)
    for ours, theirs in zip(printed, shown, strict=True):
        numbers = [re.fullmatch(r"\D*?([+-]?\d+(?:\.\d+)?)\D*", word) for word in (ours, theirs)]
        if all(numbers):  # another machine rounds differently, and training carries it on
            assert float(numbers[0][1]) == pytest.approx(float(numbers[1][1]), rel=0.1, abs=0.02), (ours, theirs)
        else:
            assert ours == theirs
