"""Leads. Oracle: gains made up here, whose differences are known."""

import pytest
from tiny_truth import tiny_results

from studies.truth.leads import best_of, lead_over_controls


def told(**nets):
    made = tiny_results()
    made["nets"] = {name: made["nets"]["tiny"] for name in nets}
    return made | {"examples": nets}


def rows(gain, n=8):
    return {str(i): gain + i / 100 for i in range(n)}


def test_the_best_is_of_methods_that_all_nets_have_and_of_examples_that_all_share():
    found = best_of(
        told(
            voc={"ig": rows(0.1), "idgi": rows(0.3, 4), "band": rows(0.9), "edges": rows(2.0)},
            cifar={"ig": rows(0.2), "idgi": rows(0.3)},
        ),
        "photographs",
    )
    assert found.name == "idgi" and found.gain == pytest.approx(0.3 + (0.015 + 0.035) / 2)
    (lead,) = found.leads
    assert lead.over == "ig" and lead.n == 12 and lead.difference == pytest.approx((4 * 0.2 + 8 * 0.1) / 12)
    assert best_of(told(voc={"ig": rows(0.1)}), "photographs") is None and best_of(told(), "text") is None


def test_controls_are_beaten_by_the_difference_to_the_best_of_them():
    leads = lead_over_controls({"ig": rows(0.5), "random": rows(0.0), "edges": rows(0.25)})
    assert set(leads) == {"ig"} and leads["ig"].over == "edges" and leads["ig"].difference == pytest.approx(0.25)
    assert lead_over_controls({"ig": rows(0.5)}) == {}
