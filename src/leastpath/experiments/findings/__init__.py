"""Findings: the paper's claims and open questions, each a small experiment; `leastpath findings` runs them all."""

from leastpath.experiments.findings.architectures import ARCHITECTURES, SHORTCUT
from leastpath.experiments.findings.choices import BASELINE, OUTPUT
from leastpath.experiments.findings.command import command, run_findings
from leastpath.experiments.findings.domains import DOMAINS
from leastpath.experiments.findings.half_moons import ENERGY, FLAT, METRIC, SIGN
from leastpath.experiments.findings.study import Setting, Study, Unit
from leastpath.experiments.findings.tables import MOONS, OBJECTS, PATHS, VOC

_ALL = (
    MOONS, VOC, OBJECTS, PATHS, SIGN, ENERGY, METRIC, BASELINE, OUTPUT, FLAT, SHORTCUT, DOMAINS, ARCHITECTURES,
)  # fmt: skip
STUDIES: dict[str, Study] = {study.name: study for study in _ALL}
"""By name, in the order of the page."""

__all__ = ["STUDIES", "Setting", "Study", "Unit", "command", "run_findings"]
