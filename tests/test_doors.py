"""Every door asks what it is given: what cannot be is a ValueError of one sentence, and never an error from inside."""

import math
import traceback

import numpy as np
import pytest
import torch

import leastpath as lp
from helpers import flat_points, mlp
from leastpath import evaluation
from leastpath.evaluation import MEASURES

X, NET = flat_points(2, 4), mlp()
SCORE = lp.Score(NET, 1)


def explain(score=SCORE, baselines=None, method="integrated_gradients", **settings):
    return lp.attribute(score, X, baselines, method=method, **{"support": False, **settings})


class Nothing:
    """A solver that returns nothing."""

    def solve(self, score, metric, start, end, run):
        return None


class Wide:
    """A metric of three speeds a row."""

    needs_gradient, bounds_score = True, False

    def speed(self, point, gradient, step):
        return torch.ones(len(point), 3)


class Deaf(Wide):
    """A metric that no gradient flows through."""

    def speed(self, point, gradient, step):
        return torch.ones(len(point))


TARGETS = {
    "words": ["a", "b"], "a dict": {0: 1}, "a set": {1, 2}, "ragged": [[1], [1, 2]], "complex": 1j, "None in a list":
    [None, 1], "an object": object(), "numbers": np.array([0.5, 1.0]), "a float's function": lambda out: 0.5,
    "no answer": lambda out: None, "too much": lambda out: out, "huge": 10**30,
}  # fmt: skip
BASELINES = {
    "beyond float32": 1e39, "infinite": math.inf, "NaN": math.nan, "complex": 1j, "a word": "black", "True": True,
    "a list": [0, 0, 0, 0], "a dict": {}, "beyond in float64": torch.full((1, 4), 1e39, dtype=torch.float64),
}  # fmt: skip
PARTS = {
    "a solver of nothing": {"method": Nothing()},
    "a wide metric": {"metric": Wide()},
    "a wide metric of a solver": {"metric": Wide(), "method": lp.ElasticBand()},
    "a deaf metric": {"metric": Deaf(), "method": lp.ElasticBand()},
    "a deaf decoder": {"method": lp.Manifold(lambda x: x[:, :1], lambda z: torch.cat([z] * 4, 1).detach())},
    "an encoder of integers": {"method": lp.Manifold(lambda x: x[:, :1].long(), lambda z: torch.cat([z] * 4, 1))},
    "a list of rules": {"rule": ["midpoint"]},
    "a list of methods": {"method": ["a"]},
    "a class as support": {"support": complex},
    "a number as support": {"support": 1},
    "a word as progress": {"progress": "yes"},
    "a list of groups": {"groups": [0, 1]},
    "True as time": {"max_seconds": True},
}
SEEDED = {
    "attribute": lambda seed: explain(seed=seed),
    "verdict": lambda seed: lp.verdict(SCORE, X, X, seed=seed),
    "compare": lambda seed: evaluation.compare(["integrated_gradients"], SCORE, X, seed=seed),
    "a measure": lambda seed: evaluation.symmetric_relevance_gain(SCORE, X, X, fill="noise", seed=seed),
    "an interval": lambda seed: evaluation.bootstrap_interval(torch.rand(9), seed=seed),
    "randomize": lambda seed: next(evaluation.randomize(NET, seed=seed)),
    "fine_tune": lambda seed: evaluation.fine_tune(NET, (X, torch.zeros(2).long()), epochs=1, seed=seed),
    "planted data": lambda seed: evaluation.planted_patch(2, seed=seed),
}
CALLS = (
    {f"target: {name}": lambda t=target: explain(lp.Score(NET, t)) for name, target in TARGETS.items()}
    | {f"output: {name}": lambda o=o: explain(lp.Score(NET, 1, o)) for name, o in
       {"nothing": lambda out: None, "a float": lambda out: 1.0, "a list": ["raw"]}.items()}
    | {f"baselines: {name}": lambda b=baseline: explain(baselines=b) for name, baseline in BASELINES.items()}
    | {f"several: {given}": lambda b=given: lp.several(b, 0.0) for given in (True, None, 1j)}
    | {f"part: {name}": lambda s=settings: explain(**s) for name, settings in PARTS.items()}
    | {f"measure {name}: {what}": lambda k=kind, r=result: k()(SCORE, X, None, r)
       for name, kind in MEASURES.items() if name not in ("asymmetry", "fine_tuned_fidelity", "localization",
                                                         "rank_correlation")
       for what, result in {"a tensor": torch.rand(2, 4), "None": None, "a word": "x"}.items()}
    | {f"areas: {areas}": lambda a=areas: evaluation.Masking(areas=a) for areas in (("a", "b"), "ab", 0.5)}
    | {f"shares: {shares}": lambda s=shares: evaluation.symmetric_relevance_gain(SCORE, X, X, shares=s)
       for shares in (["a"], 0.5, "ab")}
    | {f"values: {what}": lambda v=values: lp.verdict(SCORE, X, v) for what, values in
       {"None": None, "a word": "x", "a list": [[1]], "objects": np.array([[None] * 4] * 2)}.items()}
    | {f"seed {seed} of {name}": lambda s=seed, d=door: d(s) for seed in (10**30, -(10**30), True, 0.5)
       for name, door in SEEDED.items()}
    | {"a list of baselines": lambda: lp.baselines.baseline(["black"], X)}
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_cannot_be_is_one_sentence(call):
    with pytest.raises(ValueError) as caught:
        call()
    assert "leastpath" in traceback.extract_tb(caught.value.__traceback__)[-1].filename
    assert len(str(caught.value)) < 500


def test_reports_ask_what_they_are_given():
    report = pytest.importorskip("leastpath.report")
    pytest.importorskip("matplotlib")
    for call in (
        lambda: report.heatmap(torch.rand(4, 4), scale=0),
        lambda: report.heatmap(torch.rand(4, 4), scale="a"),
        lambda: report.heatmap(torch.rand(4, 4), percentile="a"),
        lambda: report.text(["a"], [1.0], scale=0),
        lambda: report.text_html(["a"], [1.0], scale=math.nan),
        lambda: report.text(None, [1.0]),
        lambda: report.path_film(explain(), frames="a"),
        lambda: report.Report("t").table(3),
        lambda: report.Report("t").figure(None),
        lambda: report.Report("t").text(None),
        lambda: report.Report("t").section(None),
    ):
        with pytest.raises(ValueError, match=r"must be|expected|pass"):
            call()
