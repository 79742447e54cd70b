"""Studies on half-moons. Oracles: closed forms of the measures, planted records, and the library called directly."""

import math

import pytest
import torch

import leastpath as lp
from leastpath._support.store import Store
from studies.findings.config import Setting
from studies.findings.half_moons import task as tasks
from studies.findings.half_moons.energy import DEFAULT, ENERGY, SIGN, sign_measurements, sign_table
from studies.findings.half_moons.flat import FLAT, relative_spread
from studies.findings.half_moons.metric import METRIC, METRICS
from studies.findings.half_moons.task import (
    NETS,
    MoonsTask,
    conformal_ratio,
    departure,
    mean_square_gradient,
    moons_task,
)

STUDIES = {study.name: study for study in (SIGN, ENERGY, METRIC, FLAT)}


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    return Setting(Store(tmp_path_factory.mktemp("findings"), {}), quick=True)


@pytest.fixture(scope="module")
def records(setting):
    return {name: {unit.key: unit.compute() for unit in study.measurements(setting)} for name, study in STUDIES.items()}


def planted(row, net="n", noise=0.1, **lists):
    return {"row": row, "net": net, "noise": noise, **lists}


def energy_record(row, cancellation, ratio=1.0):
    n = len(cancellation)
    more = {"change": [2.0] * n, "across": [True] * n, "length_ratio": [ratio] * n, "gradients": [64.0] * n}
    return planted(row, cancellation=cancellation, **more)


# ---- the measures ------------------------------------------------------------------------------------------------


def test_departure_of_an_overshoot_and_of_a_point():
    beyond = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 0.0]])  # along the line, but past its end
    aside = torch.tensor([[0.0, 0.0], [0.5, -0.25], [1.0, 0.0]])
    nowhere = torch.tensor([[1.0, 0.0], [3.0, 0.0], [1.0, 0.0]])
    found = departure(lp.Path.polyline(torch.stack([beyond, aside, nowhere])))
    assert found[:2].tolist() == [1.0, 0.25] and not math.isfinite(found[2])


def test_mean_square_gradient_of_a_parabola():
    score = lp.Score(lambda x: (x**2).sum(1) / 2)  # ∇f = x, so the mean of ‖x‖² from 0 to x is ‖x‖²/3
    inputs = torch.tensor([[3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)
    found = mean_square_gradient(score, inputs, torch.zeros(1, 2, dtype=torch.float64), n=200)
    assert found == pytest.approx((25 / 3 + 1 / 3) / 2, rel=1e-4)


def test_conformal_ratio_is_what_attribute_measures():
    score, ends = lp.Score(lambda x: torch.sigmoid(3 * x[:, 0] - x[:, 1])), torch.ones(1, 2, dtype=torch.float64)
    result = lp.attribute(score, ends, solver=lp.Descent(), tolerance=1e-3)
    torch.testing.assert_close(conformal_ratio(score, result.path), result.length_ratio, rtol=5e-3, atol=0)


def test_relative_spread_of_too_little():
    assert relative_spread([1.0], [2.0]) is None and relative_spread([1.0, 2.0], [0.0, 0.0]) is None
    assert relative_spread([0.0, None, 2.0], [None, 1.0, -3.0]) == pytest.approx(2**0.5 / 2)


def test_task_explains_from_the_paper_s_baseline():
    score = lp.Score(lambda x: x[:, 0] - 2 * x[:, 1])
    task = MoonsTask(score, torch.tensor([[0.5, 0.5]]).double(), torch.tensor([True]))
    assert task.explained(lp.StraightLine()).values.tolist() == [pytest.approx([1.0, -2.0])]


# ---- the nets ----------------------------------------------------------------------------------------------------


def test_nets_are_trained_once(setting, monkeypatch):
    first = moons_task(setting, NETS[0], 4)
    monkeypatch.setattr(tasks, "train_together", None)
    again = moons_task(Setting(setting.store, quick=True), NETS[0], 4)
    assert torch.equal(first.score(first.inputs), again.score(again.inputs))


def test_points_of_the_flat_region(setting):
    task = moons_task(setting, NETS[1], 50, flat=True)
    score = task.score(task.inputs)
    assert bool(task.across.all()) and float(score.min()) > math.log(0.99)
    start = task.score(task.baseline.expand_as(task.inputs))
    assert len(task.inputs) == 50 and float(start.max()) < math.log(0.5)  # the baseline is on the other side


# ---- the studies -------------------------------------------------------------------------------------------------


def test_records_hold_what_the_library_gives(setting, records):
    record, task = records["sign"][f"{NETS[0].key} IG"], moons_task(setting, NETS[0], 8)
    result = lp.attribute(
        task.score, task.inputs, torch.tensor([[-0.5, -0.5]]).double(), solver=lp.StraightLine(), tolerance=1e-3
    )
    assert record["cancellation"] == pytest.approx(result.cancellation.tolist(), rel=1e-3, abs=1e-12)
    assert record["across"] == task.across.tolist()


def test_damping_is_relative_to_the_gradients_of_the_net(setting, records):
    task = moons_task(setting, NETS[0], 4)
    damping = METRICS["Conformal, ε = 1"] * mean_square_gradient(task.score, task.inputs, task.baseline)
    direct = task.explained(lp.Descent(), lp.Conformal(damping=damping))
    record = records["metric"][f"{NETS[0].key} descent Conformal, ε = 1"]
    assert record["cancellation"] == pytest.approx(direct.cancellation.tolist(), rel=1e-3, abs=1e-12)


@pytest.mark.parametrize(
    "name, rows",
    [
        ("sign", ["| 0.05 | IG |", "| 0.05 | away |", "| 0.05 | toward |", "| 0.05 | as printed |"]),
        (
            "energy",
            ["| IG |", "| default: β × 1, lr 0.01 |", "| β × 0.1 |", "| β × 10 |", "| lr 0.001 |", "| lr 0.1 |"],
        ),
        ("metric", ["| straight line (IG), ε = ∞ |", "| graph, Conformal |", "| descent, Conformal, ε = 1 |"]),
        ("flat", ["| IG |", "| Geodesic IG (graph) |", "| Geodesic IG (descent) |", "| Geodesic IG (variational) |"]),
    ],
)
def test_quick_sections(records, name, rows):
    section = STUDIES[name].section(records[name])
    for row in rows:
        assert section.count(f"\n{row}") == 1
    for key, record in records[name].items():  # an interrupted run
        assert STUDIES[name].section({key: record}).count("\n| ") == 3
        assert STUDIES[name].section({k: r for k, r in records[name].items() if k != key})


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


def test_the_first_damping_that_raises_cancellation():
    gaps = [0.1 * i for i in range(8)]
    rows = {"IG": 3.0, "graph, Conformal": 0.0, "graph, Conformal, ε = 0.1": 0.0, "graph, Conformal, ε = 1": 2.0}
    lists = {"change": gaps, "ratio": gaps, "departure": gaps, "across": [True] * 8, "purity": [1.0]}
    found = {row: planted(row, cancellation=[x + more for x in gaps], **lists) for row, more in rows.items()}
    section = METRIC.section(found)
    assert "0.35 at ε = 0.1, 2.4 at ε = 1: the first that clearly raises it is ε = 1." in section
    assert "By descent" not in section


def test_spreads_of_planted_attributions():
    """A₀ + A₁ = 2 in all points: IG divides it differently from point to point, the others always alike."""
    nets = [f"n{i}" for i in range(6)]
    found = {
        f"{net} {row}": planted(row, net, change=[2.0, 2.0], A0=first, A1=[2 - x for x in first])
        for net in nets
        for row, first in (("IG", [0.0, 4.0]), ("Geodesic IG (descent)", [1.5, 1.5]))
    }
    section = FLAT.section(found)
    spread = f"{8**0.5 / 2:.1f}"  # of 0 and 4, over 2; of Σ|A|, 2 and 6, the same
    assert f"| IG | {spread} | {spread} | {spread} | 0 | – | – |" in section
    assert "| Geodesic IG (descent) | 0 | 0 | 0 | 0 | −1.4 (p 0.03) | −1.4 (p 0.03) |" in section
    assert "Geodesic IG (descent) by 0 and 0, clearly less than IG's." in section


def test_sign_measurements_for_the_benchmark(setting):
    units = list(sign_measurements(setting, 3, NETS[2:]))
    assert [unit.key.removeprefix(f"{NETS[2].key} ") for unit in units] == ["IG", "away", "toward", "as printed"]
    assert len(units[0].compute()["cancellation"]) == 3


def test_without_pyro_its_paths_are_left_out(setting, monkeypatch):
    monkeypatch.setattr(tasks, "find_spec", lambda name: None)
    assert not list(SIGN.measurements(setting)) and not list(ENERGY.measurements(setting))
    assert len(list(METRIC.measurements(setting))) == 7 and len(list(FLAT.measurements(setting))) == 3 * 3
