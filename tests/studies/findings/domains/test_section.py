"""The study on quick settings, and its words on planted records."""

import json

import pytest

from leastpath._support.store import Store
from studies.findings.config import Setting
from studies.findings.domains import numbers
from studies.findings.domains.case import DOMAIN
from studies.findings.domains.section import DOMAINS


def computed(setting, *names):
    """Records of the some domains, as JSON gives them back."""
    pieces = [piece for piece in DOMAINS.measurements(setting) if piece.key.split(",")[0] in names]
    return json.loads(json.dumps({piece.key: piece.compute() for piece in pieces}))


def test_a_quick_study(tmp_path, monkeypatch):
    setting = Setting(Store(tmp_path / "store", {}), quick=True)
    records = computed(setting, *DOMAIN)
    assert len(records) == 3 + 4 + 3  # no text without sentences
    section = DOMAINS.section(records)
    assert "diabetes, Geodesic IG (graph) |" in section and "| breast cancer, another row |" in section
    assert section.count("\n| digits, ") == 3 + 3  # methods, then fills
    assert "IDGI, on the straight line, is" in section and "text" not in section
    monkeypatch.setattr(numbers, "_train", None)  # nets are kept: the same again, without training
    assert computed(setting, "diabetes") == {key: r for key, r in records.items() if r["domain"] == "diabetes"}


def planted(method, removals, cancellation=1.0, domain="digits"):
    n = len(next(iter(removals.values())))
    return {
        "domain": domain, "method": method, "quality": [0.9], "removal": removals, "agreement": [0.5, None],
        "length_ratio": [0.25] * n, "cancellation": [cancellation] * n, "gradients": [100.0] * n, "ok": [True] * n,
        "at_rest": [0.0] * n,
    }  # fmt: skip


def test_words_follow_the_numbers():
    """Oracle: planted differences, up with one fill, down with another, both ways with the third."""
    line = [0.5] * 8
    bent = {"black (baseline)": [0.6] * 8, "mean grey": [0.4] * 8, "neighbours": [0.6, 0.4] * 4}
    records = {
        "digits, integrated_gradients": planted("integrated_gradients", dict.fromkeys(bent, line), 2.0),
        "digits, geodesic_descent": planted("geodesic_descent", bent, 0.5) | {"at_rest": [0.4] * 8},
    }
    section = DOMAINS.section(records)
    assert "0.25 of the straight line's length (medians) and leave 0.25 of IG's cancellation" in section
    assert "clearly better than IG in 1 and clearly worse in 1 of 3 comparisons" in section
    assert "clearly better (filled with black), clearly worse (filled with mean grey)" in section
    assert "not clearly different (filled with neighbours) on digits." in section
    assert "Integrated Gradients 0%, Geodesic IG (descent) 40%" in section
    assert "IDGI" not in section and "| digits, mean grey | 0.50 | 0.40: −0.10 (p 0.008) |" in section


@pytest.mark.parametrize("method", ["integrated_gradients", "geodesic_descent"])
def test_a_method_alone(method):
    section = DOMAINS.section({f"digits, {method}": planted(method, {"mean grey": [0.5, None]})})
    assert "clearly" not in section and section.count("| digits, ") == 2
