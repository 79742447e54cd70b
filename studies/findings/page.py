"""The findings page, with a summary and answers by hand, one table and one number a study; and the page of the rest."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path

from studies.findings.headlines import HEADLINES, found_headlines
from studies.findings.measuring import written
from studies.findings.study import Record, Study
from studies.findings.winners import WINNERS, short_section

SUMMARY = Path(__file__).parent / "summary.md"
ANSWERS = Path(__file__).parent / "answers.toml"
DATA = "_generated/findings"  # tables as CSV, and how they were measured, beside the page

HEAD = f"""# Findings

<!-- Written by `python -m studies.findings`: change studies/findings (summary.md, answers.toml), not this page. -->

{{summary}}
Each question below links to its tables; [one page]({DATA}/README.md) says how they were measured, and
[findings.json](_generated/findings.json) has every record. `python -m studies.findings` measures all of it again.
"""
FULL_HEAD = """# Findings, in full

Written by `python -m studies.findings`. *Cancellation* is Σ|A| − |f(x) − f(x̄)|, what opposite signs hide; *length
ratio* is the path's length over the straight line's, in the metric of the solver unless said otherwise. IG is
Integrated Gradients.
"""
WIDTH = 118

Found = Mapping[str, Mapping[str, Record]]


def findings_page(studies: Mapping[str, Study], found: Found) -> str:
    """The page to read: the summary, who wins where, and a table of each study's answer with its number.

    Args:
        studies: by name.
        found: name of a study -> key of a measurement -> its record.

    Example:
        >>> study = Study("size", "Size", lambda setting: [], lambda records: "It is 3.")
        >>> findings_page({"size": study}, {"size": {"all": {"n": 3}}}).splitlines()[-1]
        '| [Size](_generated/findings/size.csv) |  |'
    """
    answers = tomllib.loads(ANSWERS.read_text(encoding="utf-8"))
    numbers = found_headlines(found)
    sections, rows = [], []
    for name, study in studies.items():
        if not found.get(name):
            continue
        if name == WINNERS.name:
            told = f"{short_section(found[name])}\n\n{answers[name]}"
            sections.append(f"## {study.title}\n\n{_wrapped(told)}\n")
        else:
            number = f"*{_first_upper(HEADLINES[name][0])}: {written(numbers[name], 3)}.*" if name in numbers else ""
            told = " ".join(f"{answers.get(name, '')} {number}".split())
            rows.append(f"| [{study.title}]({DATA}/{name}.csv) | {told} |\n")
    table = "".join(["## The paper's claims and questions\n\n| question | what was found |\n|---|---|\n", *rows])
    return "\n".join([HEAD.format(summary=SUMMARY.read_text(encoding="utf-8")), *sections, table])


def full_page(studies: Mapping[str, Study], found: Found) -> str:
    """Every study with results: what was found, how it was measured, and all tables.

    Example:
        >>> study = Study("size", "Size", lambda setting: [], lambda records: f"It is {records['all']['n']}.")
        >>> "## Size\\n\\nIt is 3.\\n" in full_page({"size": study}, {"size": {"all": {"n": 3}}})
        True
    """
    told = [(study.title, study.section(found[name])) for name, study in studies.items() if found.get(name)]
    return "\n".join([FULL_HEAD, *(f"## {title}\n\n{_wrapped(section)}\n" for title, section in told)])


def _first_upper(words: str) -> str:
    return words[0].upper() + words[1:]


def _wrapped(section: str) -> str:
    """Paragraphs in lines of a readable width; tables, lists and code as they are."""
    blocks = [block.strip("\n") for block in section.strip().split("\n\n")]
    return "\n\n".join(
        block
        if block.lstrip().startswith(("|", "-", "`" * 3, "!", "#"))
        else textwrap.fill(" ".join(block.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
        for block in blocks
    )
