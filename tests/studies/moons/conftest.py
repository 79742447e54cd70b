"""One small run that several files look at."""

import pytest
from tiny_moons import TINY

from studies.moons.experiment import run_moons


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    return run_moons(tmp_path_factory.mktemp("moons") / "run", TINY, jobs=1)
