"""Who wins where. Oracle: planted gains and tests."""

import json

import pytest

from leastpath._support.store import Store
from studies.findings.config import Setting
from studies.findings.winners import WINNERS, brief, short_section, verdict


def summary(gain, n=20, gradients=50.0):
    return {"n": n, "gain": gain, "gradients": gradients}


def test_of(net, method, rival, difference, p, half="reporting", measure="gain"):
    told = {"half": half, "net": net, "method": method, "rival": rival, "measure": measure}
    return told | {"difference": difference, "p": p}


test_of.__test__ = False


@pytest.fixture
def told():
    net = "imagenet-efficientnet"
    found = {
        "random": summary(0.9), "ig": summary(0.1), "idgi": summary(0.2), "agi": summary(0.3, gradients=281.0),
        "shapley": summary(0.8, n=4), "mfaba": summary(-0.2),
    }  # fmt: skip
    return {
        "nets": {net: {"title": "ImageNet", "gate": ""}, "control": {"title": "C", "gate": "control"}},
        "candidates": {name: name.upper() for name in found},
        "summaries": {"reporting": {net: found, "control": {"ig": summary(0.5)}}},
        "gates": {"reporting": {"ig": {"mark among the first": 0.58}}},
        "tests": [
            test_of(net, "agi", "ig", 0.2, 0.01),
            test_of(net, "agi", "idgi", 0.1, 0.3),
            test_of(net, "mfaba", "ig", -0.3, 0.02),
            test_of(net, "idgi", "ig", 0.1, 0.9),
            test_of(net, "idgi", "ig", 0.1, 0.001, half="development"),
            test_of(net, "idgi", "ig", 0.1, 0.001, measure="gain black"),
        ],
    }


def test_the_section_says_who_is_clear(told, tmp_path):
    (tmp_path / "truth.json").write_text(json.dumps(told))
    setting = Setting(Store(tmp_path / "s", {}), truth=tmp_path)
    section = WINNERS.section({unit.key: unit.compute() for unit in WINNERS.measurements(setting)})
    assert section.startswith("Of 1 nets, most is gained by: AGI on 1.")  # neither chance nor what few examples had
    assert "| ImageNet | 20 | AGI | 0.30 | 0.10 | 0.20 | +0.20 (0.01) | +0.10 (0.3) |" in section
    assert "- **ImageNet** (20 examples). Clearly ahead of IG: AGI. Clearly behind IG: MFABA." in section
    assert "Clearly ahead of IDGI: none. Clearly behind IDGI: none." in section
    assert "| AGI | 281 | 0.30 | – | – | +1 −0 of 1 | +0 −0 of 1 |" in section.replace("\u00a0", " ")
    assert "| IG | 50.0 | 0.10 | – | 58% | – |" in section
    short = short_section({unit.key: unit.compute() for unit in WINNERS.measurements(setting)})
    assert "| ImageNet | AGI | 0.30 | 0.20 | 0.10 | IG | 20 |" in short
    assert "| SHAPLEY | 50.0 | 0.80 (4) |" in section.replace("\u00a0", " ")  # said to be of fewer examples


@pytest.mark.parametrize(
    ("left_out", "said"), [(("idgi",), "IG; IDGI not tested"), (("ig",), "none; IG not tested"), ((), "IG")]
)
def test_what_the_best_was_not_tested_against_is_said(told, left_out, said):
    told["tests"] = [of for of in told["tests"] if (of["method"], of["rival"]) not in {("agi", n) for n in left_out}]
    assert f"| ImageNet | AGI | 0.30 | 0.20 | 0.10 | {said} | 20 |" in short_section({"truth": brief(told)})


def test_what_is_kept_is_brief_and_without_a_run_there_is_no_work(told, tmp_path):
    assert list(brief(told)["nets"]) == ["imagenet-efficientnet"]
    assert not list(WINNERS.measurements(Setting(Store(tmp_path / "s", {}))))
    with pytest.raises(ValueError, match=r"studies\.truth"):
        list(WINNERS.measurements(Setting(Store(tmp_path / "s", {}), truth=tmp_path)))


@pytest.mark.parametrize(("difference", "p", "side"), [(0.1, 0.01, 1), (-0.1, 0.01, -1), (0.1, 0.05, 0)])
def test_verdicts(difference, p, side):
    assert verdict({"ig": {"difference": difference, "p": p}}, "ig") == side
    assert verdict({}, "ig") == 0
