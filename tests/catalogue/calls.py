"""The verbs, and what they return, with wrong arguments."""

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path as File
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch

import leastpath as lp
from catalogue.inputs import NET, SCORE, X, with_default
from catalogue.table import Case, Refused, Right
from leastpath import evaluation, methods as table_of_methods, report
from leastpath.score.baselines import baseline, several

LINE = lp.Path.straight(torch.zeros(3, 2), X)
RESULT = lp.attribute(SCORE, X, method=lp.StraightLine())
IMAGES = torch.linspace(0, 1, 128).reshape(2, 1, 8, 8)


class Backwards:
    """A metric whose speed is negative."""

    needs_gradient, bounds_score = True, True

    def speed(self, point, gradient, step):
        return -(gradient * step).flatten(1).abs().sum(1)


class Undefined(Backwards):
    def speed(self, point, gradient, step):
        return torch.full((len(point),), math.nan)


class Boastful(Backwards):
    """Claims to bound the score, and does not: every path would be certified as the shortest."""

    def speed(self, point, gradient, step):
        return (gradient * step).flatten(1).abs().sum(1) / 10


class Flat(Backwards):
    def speed(self, point, gradient, step):
        return (gradient * step).abs().sum()


class Lost:
    """A solver whose paths end elsewhere."""

    def solve(self, score, metric, start, end, run):
        return lp.Solution(lp.Path.straight(start, end + 1))


def attribute(**settings: Any) -> lp.Attribution:
    return lp.attribute(SCORE, X, **{"method": lp.StraightLine(), **settings})


ATTRIBUTE: dict[str, tuple[dict[str, Any], str]] = {
    "a tensor as tolerance": ({"tolerance": torch.tensor([0.1, 0.2])}, "tolerance=.* must be a number between 0 and 1"),
    "a tensor of one number as tolerance": ({"tolerance": torch.tensor(0.1)}, "tolerance=.* must be a number"),
    "a word as tolerance": ({"tolerance": "small"}, "tolerance='small' must be a number"),
    "a tolerance of NaN": ({"tolerance": math.nan}, "tolerance=nan must lie between 0 and 1"),
    "a tolerance of 0": ({"tolerance": 0.0}, "must lie between 0 and 1"),
    "fractional n_steps": ({"tolerance": None, "n_steps": 2.5}, "n_steps=2.5 must be a whole number"),
    "no n_steps": ({"tolerance": None}, "n_steps is None: pass n_steps=50"),
    "an unknown rule": ({"rule": "simpson"}, "rule='simpson'"),
    "a number as rule": ({"rule": 3}, "rule=3"),
    "no budget": ({"max_gradients": 0}, "max_gradients=0 must be at least 1"),
    "a fractional budget": ({"max_gradients": 1.5}, "max_gradients=1.5 must be a whole number"),
    "a seed of NaN": ({"seed": math.nan}, "seed=nan must be a whole number"),
    "a class as method": ({"method": lp.Descent}, "Descent is a class: pass an instance"),
    "a word as method": ({"method": "descent"}, "no method is called 'descent'"),
    "a class as metric": ({"metric": lp.RankOne}, "metric is the class RankOne"),
    "a word as metric": ({"metric": "conformal"}, "metric='conformal' is not a metric"),
    "a model as geometry": ({"geometry": NET}, "is not a geometry"),
    "an unknown geometry": ({"geometry": "entropy"}, "output='entropy' is unknown"),
    "a class as weighting": ({"weighting": lp.IDGI}, "weighting is the class IDGI"),
    "a word as weighting": ({"weighting": "idgi"}, "weighting='idgi' is not a weighting"),
    "an incomplete weighting with a tolerance": ({"weighting": lp.IDG()}, "IDG is not complete"),
    "a word as support": ({"support": "always"}, "support"),
    "labels of another shape": ({"groups": torch.zeros(1, 7, dtype=torch.long)}, "shape"),
    "labels that are no integers": ({"groups": torch.zeros(1, 2)}, "groups have dtype"),
    "labels in the place of support": ({"support": torch.zeros(1, 2)}, "support"),
    "an unknown answer to Ctrl-C": ({"on_interrupt": "ask"}, "on_interrupt='ask' is unknown"),
    "a metric of negative speed": ({"metric": Backwards()}, "cannot be negative"),
    "a metric of NaN speed": ({"metric": Undefined()}, "returned NaN for a finite point"),
    "a metric that bounds no score": ({"metric": Boastful()}, "bounds_score = True, and its speed .* is below"),
    "a metric of other features": ({"metric": lp.DataDensity(torch.rand(9, 5), 1.0)}, "expected the same features"),
    "a metric of one feature": ({"metric": lp.DataDensity(torch.rand(9, 1), 1.0)}, "expected the same features"),
    "a metric of one speed for all": ({"metric": Flat()}, "expected \\(.*,\\), one speed per row"),
}


def cases() -> Iterator[Case]:
    for name, (settings, words) in ATTRIBUTE.items():
        yield Case("attribute", name, partial(attribute, **settings), Refused(words))
    yield Case("attribute", "a model for a score", partial(lp.attribute, NET, X), Refused("expected a Score"))
    yield Case(
        "attribute", "baselines for a solver with its own start",
        partial(lp.attribute, lp.Score(lambda x: x.sum((1, 2))), torch.ones(1, 4, 4), 0.0, solver=lp.BlurIG()),
        Refused("BlurIG chooses its own start"),
    )  # fmt: skip
    yield Case("Solver", "a path that ends elsewhere", partial(attribute, method=Lost()), Refused("Lost", RuntimeError))
    yield Case("Solution", "a solver's own", lambda: len(lp.Solution(LINE).path), Right(lambda: 3))
    yield Case("Metric", "what has no speed", lambda: isinstance(3, lp.Metric), Right(lambda: False))
    yield from doors()
    yield from points()
    yield from rejected_values()
    yield from paths()
    yield from integrals()
    yield from results()
    yield from baselines()
    yield from evaluations()
    yield from reports()
    yield from tables_of_methods()
    yield from files()


def rejected_values() -> Iterator[Case]:
    yield Case("report.heatmaps", "a tensor for names", lambda: report.heatmaps(IMAGES), Refused("got a Tensor"))
    yield Case("report.heatmaps", "a list for names", lambda: report.heatmaps([IMAGES]), Refused("got a list"))
    for made in (evaluation.planted_patch, evaluation.planted_cancellation, evaluation.planted_piecewise):
        yield Case(f"evaluation.{made.__name__}", "a tensor for a count", partial(made, X), Refused("n=a tensor"))
    yield Case(
        "evaluation.NearOptimalRemoval", "a tensor for a seed",
        lambda: evaluation.NearOptimalRemoval()(SCORE, X, None, X), Refused("seed=a tensor"),
    )  # fmt: skip
    yield Case("load", "a number for a file", lambda: lp.load(3), Refused("path=3 is a int"))


BAD_POINTS = {
    "NaN": (torch.full((9, 2), math.nan), "hold NaN or infinite"),
    "complex": (torch.ones(9, 2, dtype=torch.complex64), "expected real numbers"),
    "sparse": (torch.ones(9, 2).to_sparse(), "sparse tensor"),
    "none": (torch.ones(0, 2), "expected at least"),
    "an array": (np.ones((9, 2)), "tensor"),
}


def points() -> Iterator[Case]:
    for made in (lp.NeighborGraph, lp.EnhancedIG, lp.DiscretizedIG, lp.DataDensity):
        for name, (given, words) in BAD_POINTS.items():
            yield Case(made.__name__, f"points: {name}", partial(made, given), Refused(words))


def hidden_by_zeros() -> torch.Tensor:
    """Shared or not, this argument gives the same for inputs of zeros, and other attributions."""
    score = lp.Score(lambda x, rows: (x * rows.sum(0)).sum(1), additional_forward_args=torch.rand(3, 2))
    return lp.attribute(score, torch.zeros(3, 2), 1.0, method=lp.StraightLine()).values


def mixed_at_their_starts() -> torch.Tensor:
    """Rows that see each other, and whose inputs have a score of 0."""
    score = lp.Score(lambda x: (x * x.mean(0)).sum(1))
    return lp.attribute(score, torch.zeros(3, 2), X + 1, method=lp.StraightLine()).values


def doors() -> Iterator[Case]:
    """Names that a user meets first: extra arguments, models made ready, kept results, the explorer."""
    yield Case("shared", "inputs that hide what it does", hidden_by_zeros, Refused("Mark it: lp.shared"))
    yield Case("Score", "rows that see each other at zero", mixed_at_their_starts, Refused("rows are not independent"))
    table = torch.rand(len(X), X.shape[1], generator=torch.Generator().manual_seed(0))

    def near(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return -torch.cdist(x, rows).amin(1)

    def explained(argument: Any) -> torch.Tensor:
        score = lp.Score(near, additional_forward_args=(argument,))
        return lp.attribute(score, X, method=lp.StraightLine()).values

    def alone() -> torch.Tensor:
        return straight_values(lambda x: near(x, table))

    yield Case("shared", "a table as long as the batch", lambda: explained(lp.shared(table)), Right(alone, 1e-6))
    yield Case("shared", "the same without a mark", lambda: explained(table), Refused("lp.shared"))
    yield Case("per_example", "too few rows", lambda: explained(lp.per_example(table[:1])), Refused("per_example|rows"))
    yield Case("per_example", "a word", lambda: lp.per_example("mask"), Refused("per_example"))
    yield Case("prepare", "a function for a model", lambda: lp.prepare(torch.sin, X), Refused("Module"))
    yield Case(
        "prepare", "meta as the default device",
        partial(with_default, torch.set_default_device, "meta", None, lambda: lp.prepare(NET, X)(X)),
        Right(lambda: NET(X), 1e-6),
    )  # fmt: skip
    yield Case("prepare", "a word for an example", lambda: lp.prepare(NET, "x"), Refused("example"))
    yield Case(
        "load", "no file", lambda: lp.load("nothing.safetensors"), Refused("is not a file: pass what result.save")
    )
    yield Case("explore", "a model for a score", lambda: lp.explore(NET, X, open=False), Refused("Score"))


def straight_values(model: Any) -> torch.Tensor:
    return lp.attribute(lp.Score(model), X, method=lp.StraightLine()).values


def paths() -> Iterator[Case]:
    refused = {
        "fractions above 1": (lambda: LINE.at(torch.tensor([2.0])), "from 0 \\(the start\\) to 1"),
        "fractions below 0": (lambda: LINE.at(torch.tensor([-0.1])), "from 0 \\(the start\\) to 1"),
        "a NaN fraction": (lambda: LINE.at(torch.tensor([math.nan])), "from 0 \\(the start\\) to 1"),
        "a number for a row of fractions": (lambda: LINE.at(2), "must be a row of numbers"),
        "an array as polyline": (lambda: lp.Path.polyline(np.ones((1, 2, 2))), "points is a ndarray"),
        "a polyline of one knot": (lambda: lp.Path.polyline(torch.ones(1, 1, 2)), "knots ≥ 2"),
        "arrays as ends": (lambda: lp.Path.straight(np.ones((1, 2)), np.ones((1, 2))), "start is a ndarray"),
        "ends of other shapes": (lambda: lp.Path.straight(torch.ones(1, 2), torch.ones(1, 3)), "differ in shape"),
        "a fractional route": (
            lambda: lp.Path(torch.ones(2, 2), torch.ones(2), torch.tensor([0, 2])),
            "integer tensors",
        ),
        "a route beyond its points": (
            lambda: lp.Path(torch.ones(2, 2), torch.tensor([0, 9]), torch.tensor([0, 2])),
            "route visits rows 0 to 9",
        ),
        "offsets that do not rise": (
            lambda: lp.Path(torch.ones(2, 2), torch.tensor([0, 1]), torch.tensor([0, 0, 2])),
            "offsets must rise",
        ),
        "sparse points": (lambda: lp.Path.polyline(torch.ones(1, 2, 2).to_sparse()), "points is a sparse tensor"),
        "half a knot": (lambda: LINE.resample(2.5), "knots=2.5 must be a whole number"),
        "no pieces": (lambda: LINE.subdivide(0), "pieces=0 must be at least 1"),
    }
    for name, (call, words) in refused.items():
        yield Case("Path", name, call, Refused(words))
    yield Case("Path", "a list of fractions", lambda: LINE.at([0.0, 1.0])[:, 1], Right(lambda: X))
    yield Case("Path", "an example too many", lambda: LINE[3], Refused("example 3 of a path with 3", IndexError))


def integrals() -> Iterator[Case]:
    refused = {
        "a path of other examples": (lambda: lp.integrate(SCORE.bind(X[:2]), LINE), "a path of 3 examples"),
        "a tensor for a path": (lambda: lp.integrate(SCORE, X), "path=a tensor of shape .* must be a Path"),
        "a model for a score": (lambda: lp.integrate(NET, LINE), "expected a Score"),
        "a class as metric": (lambda: lp.integrate(SCORE, LINE, lp.RankOne), "is not a metric"),
        "an unknown rule": (lambda: lp.integrate(SCORE, LINE, rule="simpson"), "rule='simpson'"),
    }
    for name, (call, words) in refused.items():
        yield Case("integrate", name, call, Refused(words))
    yield Case(
        "Integral", "values against attribute", lambda: lp.integrate(SCORE, LINE).values, Right(lambda: RESULT.values)
    )
    yield Case(
        "Run",
        "the same draw twice",
        lambda: lp.Run(3).noise((2,), X),
        Right(lambda: lp.Run(np.int64(3)).noise((2,), X)),
    )
    yield Case("Weighting", "what is none", lambda: isinstance("idgi", lp.Weighting), Right(lambda: False))
    for weighting in (lp.PathIntegral(), lp.IDGI()):
        yield Case(
            type(weighting).__name__, "adds up to the change of score",
            lambda w=weighting: attribute(weighting=w).values.sum(1), Right(lambda: RESULT.score_change, 2e-2),
        )  # fmt: skip
    yield Case(
        "IDG",
        "fixed steps",
        lambda: attribute(weighting=lp.IDG(), tolerance=None, n_steps=8).values.shape,
        Right(lambda: X.shape),
    )
    yield Case(
        "StraightLine",
        "against w ⊙ (x − x̄)",
        lambda: lp.attribute(lp.Score(lambda x: 2 * x[:, 0] - x[:, 1]), X, method=lp.StraightLine()).values,
        Right(lambda: X * torch.tensor([2.0, -1.0]), 1e-5),
    )
    yield Case(
        "NeighborGraph",
        "integer points against floating ones",
        lambda: on_graph(GRID.long()),
        Right(lambda: on_graph(GRID)),
    )
    yield Case(
        "EnhancedIG",
        "integer points against floating ones",
        lambda: on_graph(GRID.long(), lp.EnhancedIG),
        Right(lambda: on_graph(GRID, lp.EnhancedIG)),
    )
    yield Case(
        "DataDensity",
        "integer points against floating ones",
        lambda: lp.DataDensity(GRID.long(), 1.0).speed(X, X, X),
        Right(lambda: lp.DataDensity(GRID, 1.0).speed(X, X, X)),
    )
    yield Case(
        "NeighborGraph",
        "more neighbours than points",
        lambda: lp.NeighborGraph(GRID, 99),
        Refused("pass fewer neighbours or more points"),
    )
    yield Case(
        "NeighborGraph", "NaN among the points", lambda: lp.NeighborGraph(GRID / GRID, 2), Refused("points hold NaN")
    )
    yield Case("DataDensity", "NaN among the points", lambda: lp.DataDensity(GRID / GRID), Refused("points hold NaN"))


GRID = torch.cartesian_prod(torch.arange(-2.0, 3), torch.arange(-2.0, 3))


def on_graph(points: torch.Tensor, kind: Any = lp.NeighborGraph) -> torch.Tensor:
    return attribute(method=kind(points, 4)).values


def results() -> Iterator[Case]:
    yield Case("Attribution", "says what it is", lambda: repr(RESULT)[:12], Right(lambda: "Attribution("))
    yield Case("Status", "reached", lambda: lp.Outcome.REACHED in RESULT.status[0], Right(lambda: True))
    yield Case(
        "Outcome", "an interruption needs a second look", lambda: lp.Outcome.INTERRUPTED.ok, Right(lambda: False)
    )
    yield Case("Note", "keeps its words", lambda: lp.Note(lp.Outcome.FLAT, "flat").sentence, Right(lambda: "flat"))
    yield Case(
        "Interrupted",
        "is a KeyboardInterrupt",
        lambda: issubclass(lp.Interrupted, KeyboardInterrupt),
        Right(lambda: True),
    )
    yield Case(
        "Amortized", "a tensor for a result", lambda: lp.Amortized.fit(X), Refused("result is a Tensor, expected what")
    )
    yield Case("Amortized", "fractional epochs", lambda: lp.Amortized.fit(RESULT, epochs=2.5), Refused("epochs=2.5"))
    yield Case(
        "Amortized",
        "a learning rate of NaN",
        lambda: lp.Amortized.fit(RESULT, learning_rate=math.nan),
        Refused("learning_rate=nan"),
    )
    yield Case(
        "Amortized",
        "a word for a network",
        lambda: lp.Amortized("net"),
        Refused("predictor='net' must be a PathPredictor"),
    )
    yield Case("Descent", "warm from a tensor", lambda: lp.Descent().warm(X, X), Refused("result is a Tensor"))
    yield Case(
        "Descent", "warm from other inputs", lambda: lp.Descent().warm(RESULT, X[:1]), Refused("3 paths for 1 inputs")
    )
    yield Case(
        "Graph",
        "a word for a solver",
        lambda: lp.Graph("points", None, {}),
        Refused("solver='points' must be a NeighborGraph"),
    )


def baselines() -> Iterator[Case]:
    refused = {
        "an unknown name": (lambda: baseline("grey", IMAGES), "baseline 'grey' is unknown"),
        "a number as name": (lambda: baseline(3, IMAGES), "baseline 3 is unknown"),
        "NaN images": (lambda: baseline("blur", IMAGES * math.nan), "inputs of example 0 holds NaN or infinite"),
        "NaN images in several": (
            lambda: several("black", "mean").of(IMAGES * math.nan),
            "inputs of example 0 holds NaN or infinite",
        ),
        "arrays as points": (lambda: baseline("samples", X, points=np.ones((9, 2))), "points is a ndarray"),
        "NaN points": (lambda: baseline("mean", X, points=torch.full((9, 2), math.nan)), "9 of 9 points hold NaN"),
        "points of other features": (lambda: baseline("samples", X, points=torch.ones(9, 5)), "points have shape"),
        "more samples than points": (lambda: baseline("samples", X, points=X, n=9), "pass more points"),
        "an array as inputs": (lambda: baseline("black", np.ones((1, 2))), "inputs is a ndarray, expected a tensor"),
        "sparse inputs": (lambda: baseline("black", torch.ones(1, 2).to_sparse()), "inputs is a sparse tensor"),
        "an unknown setting": (lambda: baseline("black", IMAGES, sigma=2), "has the settings"),
        "values without a range": (lambda: baseline("black", IMAGES * 9), "black and white are not 0 and 1"),
        "a negative sigma": (lambda: baseline("blur", IMAGES, sigma=-1.0), "sigma"),
        "fractional steps": (lambda: baseline("max_entropy", X, SCORE, n_steps=2.5), "n_steps=2.5"),
        "one of several": (lambda: several("black"), "needs two baselines or more"),
        "a list in several": (lambda: several("black", [0.0]), "a baseline is a name, a number or a tensor"),
    }
    for name, (call, words) in refused.items():
        yield Case("baselines.baseline", name, call, Refused(words))
    drawn = partial(baseline, "samples", X, points=GRID)
    yield Case("baselines.baseline", "a seed of NumPy", lambda: drawn(seed=np.int64(4)), Right(lambda: drawn(seed=4)))


def evaluations() -> Iterator[Case]:
    refused: dict[str, tuple[str, Any, str]] = {
        "purity: floats for classes": (
            "purity",
            lambda: evaluation.purity(X, torch.rand(3), 0),
            "expected classes as integers",
        ),
        "purity: a float baseline": (
            "purity",
            lambda: evaluation.purity(X, torch.tensor([0, 1, 1]), 0.5),
            "expected classes as integers",
        ),
        "purity: arrays": (
            "purity",
            lambda: evaluation.purity(X.numpy(), torch.tensor([0, 1, 1]), 0),
            "values is a ndarray",
        ),
        "purity_of: a tensor for a result": (
            "purity_of",
            lambda: evaluation.purity_of(SCORE, X, None, X),
            "result is a Tensor",
        ),
        "measure_all: a tensor for a result": (
            "measure_all",
            lambda: evaluation.measure_all([evaluation.Deletion()], SCORE, X, None, X),
            "result is a Tensor",
        ),
        "measure_all: a class for a measure": (
            "Deletion",
            lambda: evaluation.measure_all([evaluation.Deletion], SCORE, X, None, RESULT),
            "Deletion",
        ),
        "symmetric_relevance_gain: other values": (
            "symmetric_relevance_gain",
            lambda: evaluation.symmetric_relevance_gain(SCORE, X, torch.ones(3, 5)),
            "shape",
        ),
        "compare: an unknown method": (
            "compare",
            lambda: evaluation.compare(["magic"], SCORE, X),
            "no method is called 'magic'",
        ),
        "compare: no method": ("compare", lambda: evaluation.compare([], SCORE, X), "method"),
        "holm: NaN": ("holm", lambda: evaluation.holm([0.1, math.nan]), "p"),
        "holm: above 1": ("holm", lambda: evaluation.holm([0.1, 3.0]), "p"),
        "bootstrap: an unknown method": (
            "bootstrap_interval",
            lambda: evaluation.bootstrap_interval([1.0, 2.0], method="magic"),
            "method",
        ),
        "bootstrap: level 2": ("bootstrap_interval", lambda: evaluation.bootstrap_interval([1.0, 2.0], 2.0), "level"),
        "bootstrap: NaN": ("bootstrap_interval", lambda: evaluation.bootstrap_interval([1.0, math.nan]), "NaN"),
        "paired_test: unequal": ("paired_test", lambda: evaluation.paired_test([1.0, 2.0], [1.0]), "2|1"),
        "planted_patch: too large": ("planted_patch", lambda: evaluation.planted_patch(patch=99), "patch=99"),
        "planted_patch: a word as seed": (
            "planted_patch",
            lambda: evaluation.planted_patch(seed="today"),
            "seed='today'",
        ),
        "trapezoid: other places": ("trapezoid", lambda: evaluation.trapezoid(torch.ones(3), [0.0, 1.0]), "3|2"),
        "auc_purity: other places": ("auc_purity", lambda: evaluation.auc_purity([0.1, 0.2], [1.0]), "1|2"),
    }
    for name, (group, call, words) in refused.items():
        yield Case(f"evaluation.{group}", name, call, Refused(words))
    other = partial(lp.verdict, SCORE, X, torch.ones(3, 5))
    yield Case("verdict", "other values", other, Refused("values have shape"))
    yield Case("Referee", "no score", partial(lp.Referee, torch.nn.Linear(2, 2), X), Refused("expected a Score"))
    yield Case("Referee", "few draws", partial(lp.Referee, SCORE, X, draws=3), Refused("draws=3 must be at least 19"))
    yield Case(
        "evaluation.planted_piecewise",
        "adds up",
        lambda: complete(evaluation.planted_piecewise(n=2)),
        Right(lambda: True),
    )
    yield Case(
        "evaluation.planted_cancellation",
        "adds up",
        lambda: complete(evaluation.planted_cancellation(n=2)),
        Right(lambda: True),
    )
    yield Case(
        "evaluation.given_attribution", "keeps values", lambda: evaluation.given_attribution(X).values, Right(lambda: X)
    )
    for measure in (
        evaluation.Comprehensiveness(), evaluation.Sufficiency(), evaluation.LogOdds(), evaluation.LogProbRatio(),
        evaluation.Insertion(), evaluation.Deletion(), evaluation.CompletenessGap(), evaluation.Cancellation(),
        evaluation.Certificate(), evaluation.SymmetricRelevanceGain(), evaluation.Infidelity(n_samples=2),
    ):  # fmt: skip
        yield Case(
            f"evaluation.{type(measure).__name__}", "a tensor for a result",
            partial(evaluation.measure_all, [measure], SCORE, X, None, RESULT.values), Refused("result is a Tensor"),
        )  # fmt: skip


def complete(planted: evaluation.Planted) -> bool:
    change = planted.score(planted.inputs) - planted.score(planted.baselines)
    return torch.allclose(planted.attributions.flatten(1).sum(1), change, atol=1e-4)


def words_in(figure: Any) -> set[str]:
    """What a person reads in a picture."""
    from matplotlib.text import Text

    figure.canvas.draw()
    shown = [found for found in figure.findobj(Text) if found.get_text()]
    return {
        text._preprocess_math(text.get_text())[0] for text in shown if not text._preprocess_math(text.get_text())[1]
    }


def reports() -> Iterator[Case]:
    dollars = ["cost in $", "$x$ and $y$"]
    yield Case(
        "report.bars",
        "names with dollars",
        lambda: words_in(report.bars([1.0, 2.0], dollars)) >= set(dollars),
        Right(lambda: True),
    )
    yield Case(
        "report.heatmap",
        "a title with dollars",
        lambda: "$a$" in words_in(report.heatmap(torch.ones(4, 4), title="$a$")),
        Right(lambda: True),
    )
    yield Case(
        "report.heatmaps",
        "names with dollars",
        lambda: "$a$ $b$" in words_in(report.heatmaps({"$a$ $b$": torch.ones(1, 4, 4)})),
        Right(lambda: True),
    )
    yield Case(
        "report.text",
        "tokens with dollars",
        lambda: "$5$" in words_in(report.text(["$5$"], [1.0])),
        Right(lambda: True),
    )
    yield Case(
        "report.text_html", "markup in a token", lambda: "<b>" in report.text_html(["<b>"], [1.0]), Right(lambda: False)
    )
    yield Case(
        "report.Report",
        "a caption with a backslash",
        lambda: r"C:\new\1" in table_with(r"C:\new\1"),
        Right(lambda: True),
    )
    refused: dict[str, tuple[str, Any, str]] = {
        "NaN": ("bars", lambda: report.bars([math.nan]), "NaN"),
        "too few names": ("bars", lambda: report.bars([1.0, 2.0], ["a"]), "1 names for 2 values"),
        "words": ("heatmap", lambda: report.heatmap("words"), "cannot be read as numbers"),
        "a row": ("heatmap", lambda: report.heatmap(torch.ones(3)), "shape"),
        "nothing": ("heatmaps", lambda: report.heatmaps({}), "."),
        "no tokens": ("text", lambda: report.text([], []), "no tokens"),
        "a string of tokens": ("text_html", lambda: report.text_html("abc", [1.0]), "tokens is one string"),
        "a tensor for a path": ("path_film", lambda: report.path_film(X), "Tensor"),
        "a tensor for paths": ("path_profile", lambda: report.path_profile(X), "Tensor"),
        "a tensor for a graph": ("plot_graph", lambda: report.plot_graph(X, RESULT), "Tensor"),
        "rows of a table": ("baselines_figure", lambda: report.baselines_figure(X), "Tensor"),
    }
    for name, (group, call, words) in refused.items():
        yield Case(f"report.{group}", name, call, Refused(words))


def table_with(caption: str) -> str:
    import pandas as pd

    return report.Report("t").table(pd.DataFrame({"a": [1]}), caption).html()


def tables_of_methods() -> Iterator[Case]:
    methods = table_of_methods.METHODS
    yield Case("methods.METHODS", "an unknown name", lambda: methods["magic"], Refused("no method is called 'magic'"))
    yield Case("METHODS", "an unknown name is a KeyError too", lambda: methods.get("magic"), Right(lambda: None))
    yield Case("register", "a number", lambda: lp.register(3), Refused("3 is not a method"))
    yield Case("methods.method_of", "a class", lambda: table_of_methods.method_of(lp.Descent), Refused("is a class"))
    yield Case("Accuracy", "no steps", lambda: lp.Accuracy(tolerance=None), Refused("n_steps is None"))
    yield Case("Accuracy", "a tolerance above 1", lambda: lp.Accuracy(2.0), Refused("between 0 and 1"))
    yield Case("Limits", "no gradients", lambda: lp.Limits(0), Refused("max_gradients=0 must be at least 1"))
    yield Case("Limits", "no seconds", lambda: lp.Limits(max_seconds=0), Refused("positive number of seconds"))
    yield Case("baseline", "an unknown name", lambda: lp.baseline("magic", X, SCORE), Refused("magic"))
    yield Case("several", "an unknown name", lambda: lp.several("black", "magic").of(X, SCORE), Refused("magic"))
    yield Case("as_module", "a number", lambda: lp.as_module(3), Refused("int"))
    yield Case("as_function", "a number", lambda: lp.as_function(3), Refused("int"))
    yield Case(
        "methods.Methods",
        "a name of ours",
        lambda: methods.add("random", methods["random"]),
        Refused("is a method of leastpath itself"),
    )
    yield Case("methods.register", "a class", lambda: table_of_methods.register(lp.Descent), Refused("Descent"))
    yield Case(
        "methods.register",
        "a word",
        lambda: table_of_methods.register("descent"),
        Refused("no method is called 'descent'"),
    )
    yield Case(
        "methods.register",
        "an unknown role",
        lambda: table_of_methods.register(lp.StraightLine(), "line", role="magic"),
        Refused("role='magic'"),
    )
    yield Case(
        "methods.register",
        "a name with spaces",
        lambda: table_of_methods.register(lp.StraightLine(), "my line"),
        Refused("not a method's name"),
    )
    lime, shap = (partial(methods[name], SCORE, X) for name in ("lime", "gradient_shap"))
    occlusion, kernel = (partial(methods[name], SCORE, X) for name in ("occlusion", "kernel_shap"))
    smooth = partial(table_of_methods.smooth(methods["input_x_gradient"]), SCORE, X)
    refused: dict[str, tuple[str, Any, str]] = {
        "LIME: alpha −1": ("Method", partial(lime, alpha=-1), "alpha=-1 must be at least 0"),
        "LIME: alpha NaN": ("Method", partial(lime, alpha=math.nan), "alpha=nan"),
        "LIME: fractional samples": ("Method", partial(lime, n_samples=2.5), "n_samples=2.5"),
        "gradient SHAP: negative noise": ("Method", partial(shap, noise=-1.0), "noise=-1.0"),
        "gradient SHAP: no samples": ("Method", partial(shap, n_samples=0), "n_samples=0"),
        "Kernel SHAP: fractional groups": ("Method", partial(kernel, groups=2.5), "groups=2.5"),
        "Kernel SHAP: floating groups": ("Method", partial(kernel, groups=torch.ones(2)), "groups have dtype"),
        "occlusion: a window too large": ("Method", partial(occlusion, window=9), "window=9"),
        "occlusion: a fractional window": ("Method", partial(occlusion, window=1.5), "window=1.5"),
        "occlusion: no stride": ("Method", partial(occlusion, stride=0), "stride=0"),
        "smooth: no samples": ("smooth", partial(smooth, n_samples=0), "n_samples=0"),
        "smooth: negative noise": ("smooth", partial(smooth, noise=-1.0), "noise=-1.0"),
        "smooth: noise of NaN": ("smooth", partial(smooth, noise=math.nan), "noise=nan"),
    }
    for name, (group, call, words) in refused.items():
        yield Case(f"methods.{group}", name, call, Refused(words))


CONTENTS = {"empty": b"", "words": b"these are words", "half an archive": b"PK\x03\x04 cut off", "zeros": bytes(64)}


def files() -> Iterator[Case]:
    folder = File(mkdtemp())
    for name, content in CONTENTS.items():
        for group, suffix, load in (("Graph", "npz", lp.Graph.load), ("Amortized", "safetensors", lp.Amortized.load)):
            file = folder / f"{name}.{suffix}"
            file.write_bytes(content)
            yield Case(group, f"a file of {name}", partial(load, file), Refused("is not a saved"))
        yield Case(
            "Graph", f"no file of {name}", partial(lp.Graph.load, folder / "none"), Refused("none", FileNotFoundError)
        )
    np.savez(folder / "other.npz", points=np.ones(3))
    yield Case("Graph", "other arrays", partial(lp.Graph.load, folder / "other.npz"), Refused("is not a saved graph"))
