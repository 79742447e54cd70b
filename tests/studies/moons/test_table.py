"""Table 1. Oracles: purity computed from the model itself, and planted numbers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_moons import TINY

import leastpath as lp
from leastpath.evaluation.purity import purity_of
from leastpath.methods import METHODS
from studies.expected import expected_numbers
from studies.moons.config import BASELINE, MoonsConfig
from studies.moons.results import net_of
from studies.moons.table import MethodResult, against_expected, conclusion, method_results, table_1, winner
from studies.moons.training import Moons


def test_table_equals_purity_computed_from_the_model(run):
    results = {result.method: result for result in method_results(run.store, TINY)}
    for j, noise in enumerate(TINY.noises):
        net = Moons(noise, 24)
        model, inputs, baseline = net_of(run.store, net), net.test[0][:60], torch.tensor([BASELINE])
        score = lp.Score(model, model(inputs).argmax(1), "log_softmax")
        result = lp.attribute(score, inputs, baseline, method=lp.StraightLine(), seed=24)
        expected = purity_of(score, inputs, baseline, result)
        assert float(results["integrated_gradients"].purity[1, j]) == expected
        rows = TINY.rows_of("geodesic_variational", run.store.read(f"net {net.key}").arrays["other_class"])
        fewer = lp.Score(model, model(inputs[rows]).argmax(1), "log_softmax")
        line = lp.attribute(fewer, inputs[rows], baseline, method=lp.StraightLine(), seed=24)
        expected = purity_of(fewer, inputs[rows], baseline, line)
        assert float(results["geodesic_variational"].reference[1, j]) == expected  # the same points
    areas = results["random"].purity.mean(1) * (TINY.noises[1] - TINY.noises[0])  # a trapezoid of two points
    area, error = results["random"].area(TINY.noises)
    assert area == pytest.approx(float(areas.mean())) and error == pytest.approx(float(areas.std() / 2**0.5))


def test_table_says_on_how_many_points(run):
    table = table_1(run.store, TINY).set_index("method")
    assert table.loc[METHODS["geodesic_variational"].title, "points"] == "20"
    assert table.loc[METHODS["integrated_gradients"].title, "paper"] == "0.487"


def test_expected_numbers_are_those_of_the_documentation():
    """The kept summary of the complete run, rounded. A new run that differs is a reason to look before they change."""
    summary = json.loads((Path(__file__).parents[3] / "docs" / "_generated" / "moons_summary.json").read_text())
    found = {
        name: [round(method["auc_purity"], 3), round(method["standard_error"], 3)]
        for name, method in summary["methods"].items()
    }
    assert found == expected_numbers("moons")["measured"]["auc_purity"]


def planted(method: str, area: float, config: MoonsConfig) -> MethodResult:
    """A result with this AUC-purity: the same purity for every net."""
    flat = torch.full((len(config.seeds), len(config.noises)), area / (config.noises[-1] - config.noises[0]))
    return MethodResult(method, flat, flat, flat, 0.0, 0.0, 1)


@pytest.mark.parametrize(("which", "config"), [("measured", MoonsConfig()), ("quick", MoonsConfig.quick())])
def test_a_run_is_held_against_what_is_expected(which, config):
    mean, error = expected_numbers("moons")[which]["auc_purity"]["geodesic_graph"]
    near, far = (planted("geodesic_graph", mean + times * error, config) for times in (2, -4))
    assert against_expected([near], config) == "All methods agree with expected.toml."
    words = against_expected([far], config)
    assert "Geodesic IG (graph)" in words and f"expected {mean:.3f}" in words
    assert "no numbers of a run with these settings" in against_expected([near], replace(config, points=7))


def test_the_conclusion_names_the_winner_and_what_an_ideal_reaches():
    config = MoonsConfig.quick()
    results = [
        planted(m, a, config) for m, a in (("integrated_gradients", 0.4), ("geodesic_graph", 0.5), ("ideal", 0.45))
    ]
    words = conclusion(results, config)
    assert winner(results, config).method == "geodesic_graph"
    assert words.startswith("Geodesic IG (graph) ranks the test points purest: AUC-purity 0.500, where chance is 0.30")
    assert "Integrated Gradients has 0.400" in words and "so what is above that is owed to something else" in words
    assert words.endswith("3 nets are few: they show the direction, not how sure it is; the complete run has 65.")


def test_few_nets_have_differences_without_p_values():
    few, many = MoonsConfig.quick(), MoonsConfig()
    for config in (few, many):
        shape = (len(config.seeds), len(config.noises))
        result = MethodResult("random", torch.full(shape, 0.7), torch.ones(shape), torch.full(shape, 0.5), 0.0, 0.0, 1)
        assert result.minus_reference() == pytest.approx(0.2)
        assert (result.against_reference() is None) == (config is few)
