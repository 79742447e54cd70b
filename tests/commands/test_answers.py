"""Answers: each method as it answers when called by itself, tested by the public measure."""

import pytest
import torch

import leastpath as lp
from helpers import Interrupting
from leastpath.commands.answers import answers, estimate
from leastpath.commands.case import Case
from leastpath.commands.run_folder import RunFolder
from leastpath.evaluation.support import symmetric_relevance_gain
from leastpath.methods import METHODS
from leastpath.removal.curves import SHARES

NET = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 64, 3))
TWO = torch.stack([torch.zeros(1, 3, 8, 8), torch.full((1, 3, 8, 8), 0.5)], 1)


def picture_case(baselines=TWO):
    torch.manual_seed(0)
    return Case(lp.Score(NET.eval(), 1, "log_softmax"), torch.rand(1, 3, 8, 8), baselines, "class 1", [])


def run_of(tmp_path):
    return RunFolder.open(tmp_path / "out", "explain", {})


@pytest.mark.parametrize("name", ["integrated_gradients", "idgi", "staircase", "occlusion", "random"])
def test_values_and_support_against_the_method_and_the_measure(tmp_path, name):
    case = picture_case()
    (found,) = answers(case, run_of(tmp_path), [METHODS[name]], {"max_gradients": None}, 0)
    expected = METHODS[name](case.score, case.inputs, case.baselines)
    # What was seen before is not asked again, so batches have other rows, and sums other roundings.
    torch.testing.assert_close(found.values, expected.values, atol=1e-6, rtol=1e-4)
    gains = [
        symmetric_relevance_gain(case.score, case.inputs, expected.values, start, groups="patches")
        for start in TWO.unbind(1)
    ]
    assert found.support == pytest.approx(float(sum(gains)) / 2, abs=1e-6)


def test_support_can_be_read_from_the_curves(tmp_path):
    """What is ranked first is removed on the left; keeping the others is removing what is ranked last."""
    case = picture_case()
    (found,) = answers(case, run_of(tmp_path), [METHODS["integrated_gradients"]], {}, 0)
    at = [round(20 * share) for share in SHARES]
    gap = torch.stack([found.insertion[20 - k] - found.deletion[k] for k in at])
    assert found.support == pytest.approx(float(gap.mean()), abs=0.02)  # 64 cells: shares are rounded to cells
    torch.testing.assert_close(found.deletion[0], found.insertion[-1])
    torch.testing.assert_close(found.deletion[-1], found.insertion[0])


@pytest.mark.parametrize("kept", [[], ["integrated_gradients"]])
def test_half_a_result_is_not_kept(tmp_path, kept):
    """Ctrl-C in the first method, and in the second."""
    score = lambda x: torch.sigmoid(8 * (x[:, :1] - x[:, 1:2] ** 2))  # noqa: E731
    methods = [METHODS["integrated_gradients"], METHODS["geodesic_descent"]]

    def run_with(model, methods, place):
        names = [str(i) for i in range(30)]
        case = Case(lp.Score(model), torch.ones(1, 30), torch.zeros(1, 30), "a score", [], names)
        run = RunFolder.open(place, "explain", {})
        try:
            answers(case, run, methods, {}, 0)
        except KeyboardInterrupt:  # the solver catches Ctrl-C and returns what it has
            return list(run.store), True
        return list(run.store), False

    counted = Interrupting(score, at=10**9)
    run_with(counted, methods[:1], tmp_path / "whole")
    at = (10**9 - counted.left) + 5 if kept else 5
    assert run_with(Interrupting(score, at), methods, tmp_path / "out") == (kept, True)


def test_the_plan_counts_what_is_known_and_names_what_is_not():
    methods = [METHODS[name] for name in ("staircase", "saliency", "expected_gradients")]
    said = estimate(picture_case(), methods, {})
    assert said.startswith("About ") and "besides Expected Gradients, whose cost is not known" in said
    assert "2 gradients at" in said and f"{1_536 + 2 * (650 + 1 + 3 * 42):,} forward passes" in said


@pytest.mark.parametrize("name", ["integrated_gradients", "elastic_band", "idgi", "geodesic_descent"])
def test_planned_gradients_are_those_of_the_budget_at_most(name):
    assert METHODS[name].cost((3, 8, 8)) > (0, 0)
    assert METHODS[name].cost((3, 8, 8), 40)[0] <= 40
    assert METHODS["geodesic_graph"].cost((3, 8, 8)) is None  # it needs data points


def test_no_masked_picture_is_shown_twice(tmp_path):
    """Oracle: a model that keeps what it was shown without gradient. Only the check that rows are independent repeats
    itself: three rows among copies. Explanations, curves and the test are the same as without the memory."""

    class Watching(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.seen = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32**2, 3)), []

        def forward(self, x):
            self.seen += [] if torch.is_grad_enabled() else [row.numpy().tobytes() for row in x.detach()]
            return self.net(x)

    torch.manual_seed(0)
    net, image = Watching().eval(), torch.rand(1, 3, 32, 32)
    starts = torch.stack([torch.zeros(1, 3, 32, 32), torch.full((1, 3, 32, 32), 0.5)], 1)
    case = Case(lp.Score(net, 1, "log_softmax"), image, starts, "class 1", [])
    methods = [METHODS[name] for name in ("integrated_gradients", "occlusion", "staircase", "idgi")]
    answers(case, run_of(tmp_path), methods, {}, 0)
    assert len(net.seen) - len(set(net.seen)) <= 6
    assert len(net.seen) > 1000
