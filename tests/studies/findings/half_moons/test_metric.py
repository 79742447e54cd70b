"""The metric. Oracles: the library called directly, and planted records."""

import pytest
from planted_rows import check_section, planted

import leastpath as lp
from studies.findings.half_moons import task as tasks
from studies.findings.half_moons.metric import METRIC, METRICS
from studies.findings.half_moons.task import NETS, mean_square_gradient, moons_task


@pytest.fixture(scope="module")
def records(setting):
    return {piece.key: piece.compute() for piece in METRIC.measurements(setting)}


def test_the_quick_section(records):
    rows = ["| straight line (IG), ε = ∞ |", "| graph, Conformal |", "| descent, Conformal, ε = 1 |"]
    check_section(METRIC, records, rows)


def test_damping_is_relative_to_the_gradients_of_the_net(setting, records):
    task = moons_task(setting, NETS[0], 4)
    damping = METRICS["Conformal, ε = 1"] * mean_square_gradient(task.score, task.inputs, task.baseline)
    direct = task.explained(lp.Descent(), lp.Conformal(damping=damping))
    record = records[f"{NETS[0].key} descent Conformal, ε = 1"]
    assert record["cancellation"] == pytest.approx(direct.cancellation.tolist(), rel=1e-3, abs=1e-12)


def test_the_first_damping_that_raises_cancellation():
    gaps = [0.1 * i for i in range(8)]
    rows = {"IG": 3.0, "graph, Conformal": 0.0, "graph, Conformal, ε = 0.1": 0.0, "graph, Conformal, ε = 1": 2.0}
    lists = {"change": gaps, "ratio": gaps, "departure": gaps, "across": [True] * 8, "purity": [1.0]}
    found = {row: planted(row, cancellation=[x + more for x in gaps], **lists) for row, more in rows.items()}
    section = METRIC.section(found)
    assert "0.35 at ε = 0.1, 2.4 at ε = 1: the first that clearly raises it is ε = 1." in section
    assert "By descent" not in section


def test_pyro_is_not_needed(setting, monkeypatch):
    monkeypatch.setattr(tasks, "find_spec", lambda name: None)
    assert len(list(METRIC.measurements(setting))) == 7
