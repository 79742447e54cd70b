"""Architectures on quick settings. Oracle: planted records."""

from __future__ import annotations

import pytest
from kept_records import kept_records, table_of

from leastpath._support.store import Store
from studies.findings.architectures import ARCHITECTURES, COMPARED
from studies.findings.config import Setting
from studies.findings.predicted import GEODESIC, IG, RANDOM
from studies.findings.study import Record


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """Quick, with one store for all tests: each net is trained once."""
    return Setting(Store(tmp_path_factory.mktemp("architectures"), {}), quick=True)


@pytest.fixture(scope="module")
def architectures(setting: Setting) -> dict[str, Record]:
    """The records of the quick study."""
    return kept_records(ARCHITECTURES, setting)


def test_every_architecture_has_its_rows(architectures: dict[str, Record]) -> None:
    section = ARCHITECTURES.section(architectures)
    table = table_of(section)
    assert len(table) == 2 + 4 * 2 * len(COMPARED)
    assert {len(row) for row in table} == {9}
    for title in ("MLP", "ReLU CNN", "GELU CNN", "vision transformer"):
        assert sum(row[0].startswith(title) for row in table) == 2 * len(COMPARED)
    assert "of 8 cases" in section and "nan" not in section


def test_straight_lines_have_their_own_length_and_geodesics_are_not_longer(architectures: dict[str, Record]) -> None:
    for record in architectures.values():
        assert record["methods"][IG]["length_ratio"] == [1.0, 1.0]
        assert all(ratio <= 1 for ratio in record["methods"][GEODESIC]["length_ratio"])


def test_words_of_architectures_follow_planted_numbers() -> None:
    def method(drop: float) -> Record:
        numbers = [drop + 0.01 * i for i in range(8)]
        spent: list[float] = [10.0] * 8
        return {
            "length_ratio": [0.5] * 8, "cancellation": [2 * drop] * 8, "gradients": spent, "ok": [True] * 8,
            "black": numbers, "mean": numbers[::-1],
        }  # fmt: skip

    methods = {IG: method(0.4), "idgi": method(0.4), GEODESIC: method(0.2), RANDOM: method(0.1)}
    section = ARCHITECTURES.section({"vit, softmax": {"accuracy": 0.9, "methods": methods}})
    assert section.startswith("On 1 architecture Geodesic IG's paths have a median length of 0.50 of the straight")
    assert "0.50 of IG's cancellation is left" in section
    ours, idgi, floor = (
        f"Masked with black, {who}" for who in ("Geodesic IG (descent)", "IDGI", "Geodesic IG (descent)")
    )
    assert f"{ours} is clearly better than IG in 0 of 1 cases and clearly worse in 1" in section
    assert f"{idgi} is clearly better than IG in 0 of 1 cases and clearly worse in 0" in section
    assert f"{floor} is clearly better than random attributions in 1 of 1 cases and clearly worse in 0" in section
    assert "(random attributions: 0.14 and 0.14)" in section  # 0.1 + 0.01 · mean(0, …, 7) = 0.135


def test_the_section_copes_with_missing_records(architectures: dict[str, Record]) -> None:
    for key, record in architectures.items():
        assert ARCHITECTURES.section({key: record})
