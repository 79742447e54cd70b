"""Findings: the paper's claims and open questions, each a small experiment. All: `python -m studies.findings`."""

from studies.findings.architectures import ARCHITECTURES, SHORTCUT
from studies.findings.choices import BASELINE, OUTPUT
from studies.findings.command import command, run_findings
from studies.findings.domains import DOMAINS
from studies.findings.half_moons import ENERGY, FLAT, METRIC, SIGN
from studies.findings.study import Setting, Study, Unit
from studies.findings.tables import MOONS, OBJECTS, PATHS, VOC

_ALL = (
    MOONS, VOC, OBJECTS, PATHS, SIGN, ENERGY, METRIC, BASELINE, OUTPUT, FLAT, SHORTCUT, DOMAINS, ARCHITECTURES,
)  # fmt: skip
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}
"""By name, in the order of the page."""

__all__ = ["STUDIES", "Setting", "Study", "Unit", "command", "run_findings"]
