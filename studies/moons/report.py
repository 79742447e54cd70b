"""Table, figures and report of a half-moons run, all from its store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

import leastpath as lp
from leastpath.commands.run_folder import RunFolder
from leastpath.evaluation.profiles import score_plane
from leastpath.methods import METHODS
from leastpath.report import Report, plot_graph
from studies.markdown import markdown_table
from studies.moons import figures
from studies.moons.config import BASELINE, MAPPED, MoonsConfig
from studies.moons.results import MethodOnNet, explained, net_of
from studies.moons.table import (
    COLUMNS,
    NETS_FOR_A_TEST,
    against_expected,
    conclusion,
    method_results,
    summary,
    table_1,
    winner,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEAD = (
    "Two half-moons, small nets, and one question for each test point: why this class? Which method ranks points by "
    "how much there is to explain?"
)
PAIRS = 4  # of points, that the variational figure joins: more would hide each other
MEASURE = """
Purity takes the half of the test points with the largest Σ|A|, and asks how many of them the net puts in the class
other than the baseline's: there is much to explain for these, and little for the others. AUC-purity is its area over
the noise of the data. Explained is the log-probability of the predicted class, and the baseline is (−.5, −.5).
"""
READING = """
An attribution without cancellation has Σ|A| = |f(x) − f(x̄)| exactly, so the last row is what every perfect NCC method
scores. A method above that row owes the difference to something else than fewer cancellations: the NCC gap, Σ|A| −
|Δf|, stands beside for that reason.
"""


def write_report(run: RunFolder, config: MoonsConfig) -> None:
    """Write table.md, summary.json, the figures and report.html.

    Example:
        >>> write_report(run, MoonsConfig())  # doctest: +SKIP
    """
    table = table_1(run.store, config)
    results = method_results(run.store, config)
    best = table.index[table["method"] == winner(results, config).title].tolist()
    words = table.astype(str).to_numpy().tolist()
    rows = [[f"**{cell}**" if i in best else cell for cell in row] for i, row in enumerate(words)]
    run.write("table.md", markdown_table(list(table.columns), rows))
    run.write("summary.json", json.dumps(summary(run.store, config), indent=2))
    report = Report("Half-moons", LEAD).section("In short").text(conclusion(results, config))
    report.text(against_expected(results, config)).section("Table 1").text(MEASURE)
    report.table(table, "The best method is in bold.", index=False, bold=best)
    report.terms({name: COLUMNS[name] for name in table.columns if name in COLUMNS}).text(_errors(config)).text(READING)
    report.section("Figures")
    for name, figure, caption in _drawn(run, config):
        run.save_figure(figure, name, dpi=110)
        report.figure(figure, caption, dpi=110)
    report.section("Settings").code((run.path / "config.json").read_text(encoding="utf-8"))
    report.section("Environment").code((run.path / "environment.json").read_text(encoding="utf-8"))
    report.write(run.path / "report.html")


def _errors(config: MoonsConfig) -> str:
    """What is said of errors and tests, where there are any."""
    seeds, nets = len(config.seeds), len(config.nets)
    said = f"± is one standard error over the {seeds} seeds. " if seeds > 1 else "One seed, so numbers have no errors. "
    if nets >= NETS_FOR_A_TEST:
        return f"{said}p is that of a sign-flip test, paired over the {nets} nets, on the same points."
    return f"{said}{nets} nets are too few for a test, so differences have no p-values."


def _drawn(run: RunFolder, config: MoonsConfig) -> Iterator[tuple[str, Figure, str]]:
    """Name, figure and caption of each."""
    net = config.figure_net
    model = net_of(run.store, net)
    inputs = config.mapped_inputs
    baseline = torch.tensor([BASELINE])
    other = 1 - int(model(baseline).argmax())
    score = lp.Score(model, other, "log_softmax")  # the class that paths cross the border to
    maps = {method: explained(run.store, MethodOnNet(method, net, mapped=True)) for method in MAPPED}
    named = {method: METHODS[method].title for method in MAPPED}
    values = {named[method]: arrays["values"] for method, arrays in maps.items()}
    data = f"{len(inputs):,} points, noise {net.noise}, seed {net.seed}"
    pair = {named[m]: values[named[m]] for m in ("integrated_gradients", "geodesic_graph")}
    yield (
        "maps", figures.attribution_maps(inputs, pair, score, BASELINE),
        f"Integrated Gradients and Geodesic IG on {data}. Completeness holds for both: the last column is the output "
        "difference below. Only without cancellation does the third column equal its absolute value.",
    )  # fmt: skip
    yield (
        "output_difference",
        figures.output_difference(inputs, maps["integrated_gradients"]["change"], score, BASELINE),
        "The change of the explained output between baseline and input.",
    )
    results = method_results(run.store, config)
    titles = {r.method: r.title for r in results}
    yield (
        "purity", figures.purity_over_noise(config.noises, {r.method: r.purity for r in results}, titles),
        "Purity over the noise of the data"
        + ("; bands are one standard error over seeds." if len(config.seeds) > 1 else ", of one seed."),
    )  # fmt: skip
    yield (
        "variational_paths", _variational_paths(inputs[:1000], lp.Score(model, other, "softmax"), config),
        "Four pairs of points, each in its colour, and the paths that `Variational` finds between them for the class's "
        "probability: the mean, thick, and samples, thin; dotted, the straight line. Dark ground is steep. Paths are "
        "straight on flat ground and cross steep ground square to the border, with knots on both sides of it. The "
        "lengths in results are measured between the knots too.",
    )  # fmt: skip
    yield (
        "enhanced_ig", figures.attribution_maps(
            inputs, {named["enhanced_ig"]: values[named["enhanced_ig"]]}, score, BASELINE
        ),
        f"Enhanced IG on {data}: its routes are short in the data's space but do not avoid steep ground.",
    )  # fmt: skip
    yield (
        "graph", _graph(inputs[:300], score, baseline, model(inputs[:300]).argmax(1) == other),
        "A graph of 300 points with 3 neighbours each falls apart; bridges join its parts between their closest "
        "points. The experiment's graphs have 2,000 points and 15 neighbours each.",
    )  # fmt: skip


def _variational_paths(points: Tensor, score: lp.Score, config: MoonsConfig) -> Figure:
    chosen = torch.randperm(len(points), generator=torch.Generator().manual_seed(3))[: 2 * PAIRS]
    start, end = points[chosen[:PAIRS]], points[chosen[PAIRS:]]
    solver = lp.Variational(n_iterations=config.variational_iterations, spread=0.02, beta_scale=2, n_samples=6)
    solution = solver.solve(score.bind(end), lp.Conformal(), start, end, lp.Run(seed=0))
    means = [solution.path[b] for b in range(PAIRS)]
    samples = [[path[b] for path in solution.samples] for b in range(PAIRS)]
    return figures.sampled_paths(points, means, samples, score)


def _graph(points: Tensor, score: lp.Score, baseline: Tensor, across: Tensor) -> Figure:
    """Few points and neighbours, so that the graph has parts; routes to some points across the border."""
    inputs = points[across]
    graph = lp.NeighborGraph(points, n_neighbors=3).build(score, lp.Conformal(), baseline)
    result = lp.attribute(score, inputs, baseline, method=graph)
    far = inputs[:, 0].argsort()[[0, len(inputs) // 2, -1]]
    return plot_graph(graph, result, far.tolist(), background=score_plane(score, points, inputs, baseline))
