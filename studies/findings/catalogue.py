"""All studies, in the order of the page."""

from __future__ import annotations

from collections.abc import Mapping

from studies.findings.architectures import ARCHITECTURES
from studies.findings.choices.baseline import BASELINE
from studies.findings.choices.output import OUTPUT
from studies.findings.domains.section import DOMAINS
from studies.findings.half_moons.energy import ENERGY, SIGN
from studies.findings.half_moons.flat import FLAT
from studies.findings.half_moons.metric import METRIC
from studies.findings.shortcut import SHORTCUT
from studies.findings.study import Study
from studies.findings.tables import MOONS, OBJECTS, PATHS, VOC
from studies.findings.winners import WINNERS

_ALL = (
    WINNERS, MOONS, VOC, OBJECTS, PATHS, SIGN, ENERGY, METRIC, BASELINE, OUTPUT, FLAT, SHORTCUT, DOMAINS, ARCHITECTURES,
)  # fmt: skip
STUDIES: Mapping[str, Study] = {study.name: study for study in _ALL}
"""By name."""
