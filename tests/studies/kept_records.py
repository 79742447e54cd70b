"""Records as the command keeps them, and tables as the page shows them."""

from __future__ import annotations

from studies.findings.config import Setting
from studies.findings.study import Record, Study


def kept_records(study: Study, setting: Setting) -> dict[str, Record]:
    """The records of a study, after they were written and read again."""
    keys = []
    for measurement in study.measurements(setting):
        keys.append(measurement.key)
        setting.store.write(f"{study.name}: {measurement.key}", measurement.compute())  # it must be JSON
    return {key: dict(setting.store.read(f"{study.name}: {key}").record) for key in keys}


def table_of(section: str) -> list[list[str]]:
    """The cells of the tables in a section, row by row."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines() if line[:1] == "|"]
