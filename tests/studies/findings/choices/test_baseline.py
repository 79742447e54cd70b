"""The baseline. Oracles: closed forms of a linear net, a loop, and planted records."""

import pytest
from kept_records import kept_records
from linear_task import images, linear_task

from helpers import cnn
from studies.findings.choices.baseline import BASELINE, STARTS, from_baselines
from studies.findings.choices.records import by_data, pairs_of
from studies.findings.choices.task import GEODESIC, IG, ImageTask, likeness

METHODS = ["integrated_gradients", "idgi", "guided_ig", "geodesic_descent"]


def test_on_a_linear_net_baselines_change_ig_as_the_formula_says_and_idgi_not_at_all():
    task, w = linear_task()
    found = from_baselines(task, [IG, "idgi"])["methods"]
    starts = {name: make(task.inputs) for name, make in STARTS.items()}
    for pair, (a, b) in pairs_of(starts).items():
        lines = [(task.inputs - starts[name]).flatten(1) * w for name in (a, b)]  # up to a factor an example
        assert found[IG]["pairs"][pair]["rank"] == pytest.approx(likeness(*lines)["rank"], abs=1e-3)
        assert [abs(x) for x in found[IG]["pairs"][pair]["cosine"]] == pytest.approx(
            [abs(x) for x in likeness(*lines)["cosine"]], abs=1e-3
        )
        assert found["idgi"]["pairs"][pair]["rank"] == pytest.approx([1.0] * 3, abs=1e-3)
    assert all(error < 0.02 for error in found[IG]["error"])


def test_a_batch_is_a_loop():
    task = ImageTask("digits", cnn().requires_grad_(False), images(2, channels=2, side=6))
    alone = [ImageTask("digits", task.model, image[None]) for image in task.inputs]
    one_by_one = [from_baselines(one, [IG])["methods"][IG]["pairs"] for one in alone]
    for pair, found in from_baselines(task, [IG])["methods"][IG]["pairs"].items():
        for name, numbers in found.items():
            looped = [alone[pair][name][0] for alone in one_by_one]
            assert numbers == pytest.approx(looped, abs=1e-3)


def planted_baseline(method: str, level: float, n: int = 12) -> dict:
    """Every measure of pair i is level + i / 100 for all examples, but for a little that differs between examples."""
    pairs = {
        pair: {name: [level + i / 100 + k / 1e4 for k in range(n)] for name in ("rank", "cosine", "top", "shuffled")}
        for i, pair in enumerate(pairs_of(STARTS))
    }
    found = {"pairs": pairs, "change": {}, "error": [0.01] * n}
    if method == GEODESIC:
        found["again"] = {"rank": [0.9] * n}
    return {"data": "digits", "side": 8, "methods": {method: found}}


@pytest.mark.parametrize(("level", "verdict"), [(0.7, "less"), (0.1, "more"), (0.3, "not clearly less or more")])
def test_the_words_follow_the_numbers(level, verdict):
    levels = {IG: 0.3, "idgi": 0.5, "guided_ig": 0.2, GEODESIC: level}
    section = BASELINE.section({f"digits {method}": planted_baseline(method, at) for method, at in levels.items()})
    assert f"On digits Geodesic IG depends on the baseline {verdict} than IG" in section
    assert f"{'Geodesic IG (descent)' if level == 0.7 else 'IDGI'} depends on the baseline least" in section
    assert "| digits, IG | 0.30 | 0.31 | 0.32 | 0.33 | 0.34 | 0.35 | – |" in section  # in the order of the head
    assert "12 unseen" in section and "Photographs" not in section


def test_a_quick_study_of_digits(setting):
    records = kept_records(BASELINE, setting)
    section = BASELINE.section(records)
    assert list(records) == [f"digits {method}" for method in METHODS]
    for title in ("IG", "IDGI", "Guided IG", "Geodesic IG (descent)"):
        assert section.count(f"\n| digits, {title} | ") == 2  # both tables
    for key in records:  # any part of the records will do
        assert "| digits, " in BASELINE.section({key: records[key]})


def test_photographs_are_put_together_in_the_order_of_their_names():
    parts = {f"photographs {k}": planted_baseline(IG, k / 10, n=1) | {"data": "photographs"} for k in (3, 1, 2)}
    assert by_data(parts)["photographs"][IG]["pairs"]["black – white"]["rank"] == [0.1, 0.2, 0.3]
