"""One quick setting for all studies on half-moons: their nets are trained once."""

import pytest

from leastpath._support.store import Store
from studies.findings.config import Setting


@pytest.fixture(scope="session")
def setting(tmp_path_factory):
    return Setting(Store(tmp_path_factory.mktemp("half_moons"), {}), quick=True)
