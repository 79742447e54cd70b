"""A flat region. Oracles: closed forms and planted attributions."""

import pytest
from planted_rows import check_section, planted

from studies.findings.half_moons import task as tasks
from studies.findings.half_moons.flat import FLAT, relative_spread


def test_relative_spread_of_too_little():
    assert relative_spread([1.0], [2.0]) is None and relative_spread([1.0, 2.0], [0.0, 0.0]) is None
    assert relative_spread([0.0, None, 2.0], [None, 1.0, -3.0]) == pytest.approx(2**0.5 / 2)


def test_the_quick_section(setting):
    records = {piece.key: piece.compute() for piece in FLAT.measurements(setting)}
    rows = ["| IG |", "| Geodesic IG (graph) |", "| Geodesic IG (descent) |", "| Geodesic IG (variational) |"]
    check_section(FLAT, records, rows)


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


def test_without_pyro_its_paths_are_left_out(setting, monkeypatch):
    monkeypatch.setattr(tasks, "find_spec", lambda name: None)
    assert len(list(FLAT.measurements(setting))) == 3 * 3
