"""The findings page: summary.md, which is written by hand, and then what the records of all studies say."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from studies.findings.study import Record, Study

SUMMARY = Path(__file__).parent / "summary.md"

HEAD = """# Findings

<!-- Written by `python -m studies.findings`: change studies/findings (summary.md is its first part), not this page. -->

{summary}
What the library finds where the paper makes a claim or leaves a question open. Every number below was measured by
`python -m studies.findings` and written here by it. Results against the method are reported like all others. The raw
results are in `findings.json`.

*Cancellation* is Σ|A| − |f(x) − f(x̄)|, what opposite signs hide; *length ratio* is the path's length over the straight
line's, in the metric of the solver unless said otherwise. IG is Integrated Gradients.
"""


TAIL = """## Elsewhere in these pages

- How far to trust an integral, and why a residual of zero proves little: [Theory](theory.md).
- Graphs: how close refined and unrefined routes come to the optimum, and why A* was left out: [Graphs](graph.md).
- Geometry of the data, and what a metric of model and data trades: [Geometry of the data](manifold.md).
- Wide tables of one-hot columns, where both the graph and descent have their troubles: [Tables](tabular.md).
- Warm starts and learnt starts, and what a short path is worth: [Choosing](choosing.md#what-a-short-path-is-worth).
- Where the paper's theorem fails as printed, in two lines of code: [Theory](theory.md#what-the-theorem-does-not-give).
"""
WIDTH = 118


def findings_page(studies: Mapping[str, Study], found: Mapping[str, Mapping[str, Record]]) -> str:
    """The summary that somebody wrote, and one section for each study with results, in the order of `studies`.

    Args:
        studies: by name.
        found: name of a study -> key of a measurement -> its record.

    Example:
        >>> study = Study("size", "Size", lambda setting: [], lambda records: f"It is {records['all']['n']}.")
        >>> "## Size\\n\\nIt is 3.\\n" in findings_page({"size": study}, {"size": {"all": {"n": 3}}})
        True
    """
    told = [(study.title, study.section(found[name])) for name, study in studies.items() if found.get(name)]
    sections = [f"## {title}\n\n{_wrapped(section)}\n" for title, section in told]
    head = HEAD.format(summary=SUMMARY.read_text(encoding="utf-8"))
    return "\n".join([head, *sections, TAIL])


def _wrapped(section: str) -> str:
    """Paragraphs in lines of a readable width; tables, lists and code as they are."""
    blocks = [block.strip("\n") for block in section.strip().split("\n\n")]
    return "\n\n".join(
        block
        if block.lstrip().startswith(("|", "-", "`" * 3, "!", "#"))
        else textwrap.fill(" ".join(block.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
        for block in blocks
    )
