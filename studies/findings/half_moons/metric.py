"""The metric that paths are short in, and its damping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from leastpath.evaluation.purity import purity_of
from leastpath.geometry.metric import Conformal, Metric, NoCancellation, RankOne
from leastpath.solvers import Descent, StraightLine
from studies.findings.config import Setting
from studies.findings.half_moons.rows import ACROSS, IG, SIZES, Rows, gap_sizes, row_record, written_gap
from studies.findings.half_moons.task import (
    NETS,
    conformal_ratio,
    data_graph,
    departure,
    mean_square_gradient,
    moons_task,
)
from studies.findings.measuring import difference, direction, evidence, listed, mean, middle, written
from studies.findings.study import Measurement, Record, Study
from studies.markdown import markdown_table
from studies.moons.config import N_NEIGHBORS
from studies.moons.training import Moons

DAMPINGS = (0.01, 0.1, 1.0, 10.0, 100.0)  # in units of the mean squared gradient along the straight lines
METRICS: dict[str, Metric | float] = {
    "Conformal": Conformal(),
    **{f"Conformal, ε = {x:g}": x for x in DAMPINGS},
    "RankOne": RankOne(),
    "NoCancellation": NoCancellation(),
}
SOLVERS = {"graph": "On the graph", "descent": "By descent"}


def _metric_measurements(setting: Setting) -> Iterator[Measurement]:
    nets, n = NETS[: setting.of("metric.nets")], setting.of("metric.points")
    for net in nets:
        yield Measurement(f"{net.key} {IG}", partial(_under_metric, setting, net, n))
        for solver in SOLVERS:
            for name in list(METRICS)[:: setting.of("metric.every")]:
                work = partial(_under_metric, setting, net, n, solver, name)
                yield Measurement(f"{net.key} {solver} {name}", work)


def _under_metric(setting: Setting, net: Moons, n: int, solver: str | None = None, name: str = "Conformal") -> Record:
    """A row on one net: paths that a solver made short under a metric, or the straight lines."""
    task, metric = moons_task(setting, net, n), METRICS[name]
    if isinstance(metric, float):
        metric = Conformal(damping=metric * mean_square_gradient(task.score, task.inputs, task.baseline))
    if solver is None:
        result = task.explained(StraightLine())
    else:
        result = task.explained(data_graph(setting, net, refine=True) if solver == "graph" else Descent(), metric)
    assert result.path is not None
    told = evidence(result)
    return row_record(
        IG if solver is None else f"{solver}, {name}", net, change=told["change"], cancellation=told["cancellation"],
        across=task.across.tolist(), ratio=listed(conformal_ratio(task.score, result.path)),
        departure=listed(departure(result.path)),
        purity=[purity_of(task.score, task.inputs, task.baseline, result)],
    )  # fmt: skip


def _metric_section(records: Mapping[str, Record]) -> str:
    table = Rows(records)
    rows = []
    for row in (IG, *(f"{solver}, {name}" for solver in SOLVERS for name in METRICS)):
        if row in table:
            across = [bool(is_across) for is_across in table.pooled(row, "across")]
            sizes = gap_sizes(table.pooled(row, "cancellation"), across)
            medians = [written(round(middle(table.pooled(row, name)), 3)) for name in ("ratio", "departure")]
            name = row if row != IG else "straight line (IG), ε = ∞"
            rows.append([name, *sizes, *medians, written(mean(table.pooled(row, "purity")))])
    heads = ["path", *SIZES, "Conformal length ratio", "farthest from the line", "purity"]
    words = [text for solver in SOLVERS for text in (_metric_words(table, solver), _damping_words(table, solver))]
    return (
        f"{' '.join(text for text in words if text)}\n\nOn {table.described()}. The graph joins {N_NEIGHBORS} "
        "neighbours among training points, and its routes are refined under the same metric; descent has its default "
        "settings. ε is in units of the mean squared gradient along the straight lines. All lengths are measured again "
        "under `Conformal` and are relative to the straight line; *farthest from the line* is relative to ‖x − x̄‖. "
        f"Both are medians over all points, purity is the mean over nets, differences are paired over points. {ACROSS}."
        f"\n\n{markdown_table(heads, rows)}"
    )


def _metric_words(table: Rows, solver: str) -> str:
    """The metrics of one solver against its `Conformal`."""
    first = f"{solver}, Conformal"
    ours, line = table.pair(first, IG, "cancellation")
    if not ours:
        return ""
    means = f"{written_gap(mean(ours))} under `Conformal` (IG {written_gap(mean(line))})"
    told = [f"{SOLVERS[solver]} the mean cancellation is {means}"]
    for name in ("RankOne", "NoCancellation"):
        a, b = table.pair(f"{solver}, {name}", first, "cancellation")
        if a:
            verdict = ("not clearly more or less", "clearly more", "clearly less")[direction(a, b)]
            told.append(f"{written_gap(mean(a))} under `{name}`, {verdict} ({difference(a, b)})")
    return "; ".join(told) + "."


def _damping_words(table: Rows, solver: str) -> str:
    """From which damping on paths cancel clearly more than without."""
    pairs = {
        damping: table.pair(f"{solver}, Conformal, ε = {damping:g}", f"{solver}, Conformal", "cancellation")
        for damping in DAMPINGS
    }
    done = {damping: pair for damping, pair in pairs.items() if pair[0]}
    if not done:
        return ""
    more = [damping for damping, (a, b) in done.items() if direction(a, b) > 0]
    means = ", ".join(f"{written_gap(mean(a))} at ε = {damping:g}" for damping, (a, _) in done.items())
    since = f"the first that clearly raises it is ε = {more[0]:g}" if more else "none of them clearly raises it"
    return f"Damped, it is {means}: {since}."


METRIC = Study("metric", "The metric", _metric_measurements, _metric_section)
