"""The explained output. Oracles: closed forms of a linear net, masking by hand, and planted records."""

import pytest
import torch
from kept_records import kept_records
from linear_task import linear_task

from studies.findings.choices.output import FILLS, OUTPUT, OUTPUTS, of_outputs
from studies.findings.choices.records import pairs_of
from studies.findings.choices.task import GEODESIC, IG


def test_on_a_linear_net_all_outputs_but_the_logit_have_one_ranking():
    task, _ = linear_task()
    found = of_outputs(task, [IG, GEODESIC])["methods"]
    for pair in pairs_of(["logit margin", "log-softmax", "softmax"]):
        assert found[IG]["ranks"][pair] == pytest.approx([1.0] * 3, abs=1e-3)
    for output in ("logit", "logit margin"):  # a constant gradient is a flat space, where the line is shortest
        assert found[GEODESIC]["outputs"][output]["length_ratio"] == pytest.approx([1.0] * 3, abs=1e-3)
    assert found[IG]["outputs"]["softmax"]["length_ratio"] == [1.0] * 3


def test_the_drop_is_that_of_masking_by_hand():
    task, _ = linear_task(n=1)
    result = task.explained(IG, "raw", torch.zeros(1, 1, 4, 4))
    order = result.values.flatten().abs().argsort(descending=True, stable=True)
    label = int(task.model(task.inputs).argmax())
    clean = task.model(task.inputs).softmax(1)[0, label]
    areas = torch.tensor([0.01, 0.02, *(k / 100 for k in range(5, 66, 5))])
    drops = []
    for area in areas:
        masked = task.inputs.flatten().clone()
        masked[order[: max(1, int(area * 16 + 0.5))]] = 0
        drops.append(clean - task.model(masked.view(1, 1, 4, 4)).softmax(1)[0, label])
    expected = torch.trapezoid(torch.stack(drops), areas) / (areas[-1] - areas[0])
    found = of_outputs(task, [IG])["methods"][IG]["outputs"]["logit"]["masked"]["black"]
    assert found == pytest.approx([float(expected)], abs=1e-4)


def planted_outputs(method: str, drop: dict[str, float], rank: float, n: int = 12) -> dict:
    few = [k / 1e4 for k in range(n)]
    outputs = {
        name: {
            "change": [2.0] * n, "cancellation": [4.0 if method == IG else 1.0] * n, "gap": [0.0] * n,
            "length_ratio": [1.0 if method == IG else 0.5] * n,
            "masked": {fill: [drop.get(name, 0.4) + x for x in few] for fill in FILLS},
        }
        for name in OUTPUTS
    }  # fmt: skip
    ranks = {pair: [rank + x for x in few] for pair in pairs_of(OUTPUTS)}
    return {"data": "digits", "side": 8, "methods": {method: {"outputs": outputs, "ranks": ranks}}}


def test_outputs_are_told_apart_by_their_numbers():
    line = planted_outputs(IG, {}, 0.9)
    ours = planted_outputs(GEODESIC, {"logit": 0.5, "softmax": 0.1}, 0.2)
    section = OUTPUT.section({f"digits {IG}": line, f"digits {GEODESIC}": ours})
    told = "better for logit, not clearly better or worse for logit margin and log-softmax, worse for softmax"
    assert f"filled with black, {told}; filled with the mean, {told}." in section
    assert "rank correlation of 0.20, below IG's 0.90" in section
    # length ratio, IG's cancellation over |Δf|, the geodesic's over IG's, then the drops
    assert "| digits, logit | 0.50 | 2.0 | 0.25 | 0.40 | +0.10 (p 0.0005) | 0.40 | +0.10 (p 0.0005) |" in section
    assert OUTPUT.section({f"digits {IG}": line}) == "Nothing can be compared yet."


def test_a_quick_study_of_digits(setting):
    section = OUTPUT.section(kept_records(OUTPUT, setting))
    for name in ("logit", "logit margin", "log-softmax", "softmax", "logit – softmax"):
        assert section.count(f"\n| digits, {name} | ") == 1
