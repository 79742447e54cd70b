"""The energy. Oracles: the library called directly, and planted records."""

import pytest
import torch
from planted_rows import check_section, energy_record

import leastpath as lp
from studies.findings.half_moons import task as tasks
from studies.findings.half_moons.energy import DEFAULT, ENERGY, SIGN, sign_measurements, sign_table
from studies.findings.half_moons.task import NETS, moons_task


@pytest.fixture(scope="module")
def signs(setting):
    return {piece.key: piece.compute() for piece in SIGN.measurements(setting)}


def test_the_quick_section_of_signs(signs):
    rows = ["| 0.05 | IG |", "| 0.05 | away |", "| 0.05 | toward |", "| 0.05 | as printed |"]
    check_section(SIGN, signs, rows)


def test_the_quick_section_of_settings(setting):
    records = {piece.key: piece.compute() for piece in ENERGY.measurements(setting)}
    rows = ["| IG |", "| default: β × 1, lr 0.01 |", "| β × 0.1 |", "| β × 10 |", "| lr 0.001 |", "| lr 0.1 |"]
    check_section(ENERGY, records, rows)


def test_records_hold_what_the_library_gives(setting, signs):
    record, task = signs[f"{NETS[0].key} IG"], moons_task(setting, NETS[0], 8)
    result = lp.attribute(
        task.score, task.inputs, torch.tensor([[-0.5, -0.5]]).double(), method=lp.StraightLine(), tolerance=1e-3
    )
    assert record["cancellation"] == pytest.approx(result.cancellation.tolist(), rel=1e-3, abs=1e-12)
    assert record["across"] == task.across.tolist()


def test_words_follow_the_numbers():
    gaps = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    found = {"IG": gaps, "away": [x - 1 for x in gaps], "toward": [x + 1 for x in gaps], "as printed": gaps[::-1]}
    section = SIGN.section({row: energy_record(row, numbers) for row, numbers in found.items()})
    assert "cancellation falls: 2.5 on average where IG has 3.5, −1.0 (p 0.03); it grew on 0% of" in section
    assert "cancellation rises: 4.5 on average where IG has 3.5, +1.0 (p 0.03); it grew on 100% of" in section
    assert "cancellation does not clearly change: 3.5 on average" in section and "it grew on 50% of" in section


def test_sign_table_of_the_points_across():
    record = energy_record("IG", [1.0, 3.0, 8.0]) | {"across": [False, True, False]}
    assert sign_table({"a": record}).splitlines()[2] == "| 0.1 | IG | 4.0 | 3.0 | 3.0 | 0% | 1.0 | 64 |"


def test_settings_are_compared_with_the_defaults_after_holm():
    gaps = [1.0 + i / 10 for i in range(12)]
    rows = {
        "IG": [2 * x for x in gaps], DEFAULT: gaps, "β × 3": [x / 2 for x in gaps],
        "lr 0.1": [x * 3 for x in gaps], "lr 0.03": [x + (-1) ** i / 100 for i, x in enumerate(gaps)],
    }  # fmt: skip
    section = ENERGY.section({row: energy_record(row, found, ratio=1.2) for row, found in rows.items()})
    assert "the mean cancellation is 0.25 to 0.50 of IG's" in section and "is 0.50 to 1.5 of IG's" in section
    assert (
        "Of 3 other settings, those that cancel clearly less than the defaults: β × 3; clearly more: lr 0.1" in section
    )
    assert "100% to 100% of the paths are longer" in section


def test_sign_measurements_for_the_benchmark(setting):
    pieces = list(sign_measurements(setting, 3, NETS[2:]))
    assert [piece.key.removeprefix(f"{NETS[2].key} ") for piece in pieces] == ["IG", "away", "toward", "as printed"]
    assert len(pieces[0].compute()["cancellation"]) == 3


def test_without_pyro_there_is_nothing_to_measure(setting, monkeypatch):
    monkeypatch.setattr(tasks, "find_spec", lambda name: None)
    assert not list(SIGN.measurements(setting)) and not list(ENERGY.measurements(setting))
