"""Half-moons: the sign and the settings of the paper's energy, the metric, and what becomes of a flat region."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from statistics import stdev
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.interruption import finished
from leastpath.attribution import LENGTH_MARGIN, Attribution, attribute
from leastpath.evaluation.purity import purity_of
from leastpath.evaluation.statistics import holm
from leastpath.integral.integrator import integrate
from leastpath.methods import METHODS
from leastpath.metric import Conformal, Metric, NoCancellation, RankOne
from leastpath.path import Path
from leastpath.score import Score
from leastpath.solution import Solver
from leastpath.solvers import Descent, NeighborGraph, StraightLine, Variational
from studies.findings.measuring import (
    CLEAR,
    difference,
    direction,
    enumerated,
    evidence,
    known,
    listed,
    mean,
    middle,
    paired,
    written,
)
from studies.findings.study import Record, Setting, Study, Unit
from studies.markdown import markdown_table
from studies.moons.config import BASELINE, N_NEIGHBORS
from studies.moons.training import EPOCHS, Moons, loaded_net, train_together

Numbers = list[float | None]
"""One an example, or one a net."""

NETS = (Moons(0.05, 12), Moons(0.15, 24), Moons(0.30, 36))
FLAT_NETS = tuple(Moons(noise, seed) for noise in (0.05, 0.10, 0.15, 0.20, 0.25) for seed in (12, 24, 36))
ALL_NETS = tuple(dict.fromkeys([*NETS, *FLAT_NETS]))
TOLERANCE = 1e-3  # at the usual 1 % the integral errs by more than the growth of cancellation that is counted
GREW = 0.01
CONFIDENT = 0.99  # predicted probability above which the net counts as flat
IG = "IG"
SIZES = ("cancellation, mean", "median", "median across")
ACROSS = "*Across* are the points on the other side of the border from the baseline"


# ---- what is explained -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Points whose predicted classes are explained, from the paper's baseline.

    Args:
        score: the log-softmax of the predicted class.
        inputs: (n, 2), float64.
        across: (n,) whether the net puts the point on another side of its border than the baseline.
        seed: of solvers.

    Example:
        >>> task = Task(Score(lambda x: x.prod(1)), torch.ones(1, 2).double(), torch.tensor([True]))
        >>> task.explained(StraightLine()).score_change
        tensor([0.7500], dtype=torch.float64)
    """

    score: Score
    inputs: Tensor
    across: Tensor
    seed: int = 0

    @property
    def baseline(self) -> Tensor:
        """(1, 2)."""
        return torch.tensor([BASELINE], dtype=self.inputs.dtype)

    def explained(self, solver: Solver, metric: Metric | None = None) -> Attribution:
        """Attributions (n, 2) with their evidence."""
        found = attribute(
            self.score, self.inputs, self.baseline, solver=solver, metric=metric, tolerance=TOLERANCE, seed=self.seed
        )
        return finished(found)


def moons_task(setting: Setting, net: Moons, n: int, *, flat: bool = False) -> Task:
    """The first n test points of a net; with `flat`, of those across its border that it is sure of.

    Example:
        >>> import tempfile
        >>> from leastpath._support.store import Store
        >>> setting = Setting(Store(tempfile.mkdtemp(), {}), quick=True)
        >>> moons_task(setting, NETS[0], 5).inputs.shape
        torch.Size([5, 2])
    """
    model, inputs = _trained(setting, net), net.test[0].double()
    probability, predicted = model(inputs).softmax(1).max(1)
    across = predicted != model(torch.tensor([BASELINE], dtype=inputs.dtype)).argmax(1)
    wanted = across & (probability > CONFIDENT) if flat else torch.ones_like(across)
    rows = wanted.nonzero()[:n, 0]
    return Task(Score(model, predicted[rows], "log_softmax"), inputs[rows], across[rows], net.seed)


def _trained(setting: Setting, net: Moons) -> nn.Sequential:
    """A net of `ALL_NETS` out of the store. They are trained in one stack: none depends on which study comes first."""
    epochs = setting.of(EPOCHS, quick=3)
    key = "net half-moons {} epochs={}"
    if key.format(net.key, epochs) not in setting.store:
        for task, weights in zip(ALL_NETS, train_together(ALL_NETS, epochs), strict=True):
            setting.store.write(key.format(task.key, epochs), {"noise": task.noise, "seed": task.seed}, weights)
    return loaded_net(setting.store.read(key.format(net.key, epochs)).arrays).double()


def _has_pyro() -> bool:
    """Without it there is no `Variational`."""
    return find_spec("pyro") is not None


def _variational(setting: Setting, **changed: Any) -> Variational:
    if setting.quick:
        changed = {"n_iterations": 10, "n_points": 5, **changed}
    return Variational(n_samples=0, **changed)


def _graph(setting: Setting, net: Moons, *, refine: bool) -> NeighborGraph:
    """Over the data, as the paper has it: training points, so that routes do not depend on what else is explained."""
    points = net.train[0][: setting.of(2000, quick=80)].double()
    return NeighborGraph(points, N_NEIGHBORS, refine=refine)


def _named(row: str, net: Moons, digits: int = 4, **found: Any) -> Record:
    """A record of one row of a table on one net; lists of numbers are kept to so many significant digits."""
    short = {
        name: [float(f"{x:.{digits}g}") if isinstance(x, float) else x for x in value]
        if isinstance(value, list)
        else value
        for name, value in found.items()
    }
    return {"row": row, "net": net.key, "noise": net.noise, **short}


# ---- measures ----------------------------------------------------------------------------------------------------


def departure(path: Path) -> Tensor:
    """The largest distance of a path from its straight line, as a share of the line's length: (batch,).

    The distance from a line is convex, so that on a polyline it is largest at a knot. NaN where both ends are one.

    Example:
        >>> departure(Path.polyline(torch.tensor([[[0.0, 0.0], [1.0, 3.0], [2.0, 0.0]]])))
        tensor([1.5000])
    """
    found = []
    for b in range(len(path)):
        knots = path[b].flatten(1)
        way = knots[-1] - knots[0]
        t = ((knots - knots[0]) @ way / (way @ way)).clamp(0, 1)
        found.append((knots - knots[0] - t[:, None] * way).norm(dim=1).max() / way.norm())
    return torch.stack(found)


def mean_square_gradient(score: Score, inputs: Tensor, baseline: Tensor, n: int = 32) -> float:
    """The mean of ‖∇f‖² along the straight lines from baseline (1, features) to inputs (batch, features).

    Example:
        >>> mean_square_gradient(Score(lambda x: 3 * x[:, 0] - 4 * x[:, 1]), torch.ones(5, 2), torch.zeros(1, 2))
        25.0
    """
    t = (torch.arange(n, dtype=inputs.dtype) + 0.5).div(n).view(-1, 1, 1)
    points = torch.lerp(baseline.expand_as(inputs), inputs, t)  # (n, batch, features)
    gradient = score.bind(inputs).gradients(points.flatten(0, 1), torch.arange(len(inputs)).repeat(n))[1]
    return float((gradient**2).sum(1).mean())


def conformal_ratio(score: Score, path: Path) -> Tensor:
    """A path's length over its straight line's, both under `Conformal`, whatever it was made short in: (batch,).

    Example:
        >>> bent = Path.polyline(torch.tensor([[[0.0, 0.0], [0.0, 4.0], [3.0, 4.0]]]))
        >>> round(float(conformal_ratio(Score(lambda x: x.sum(1)), bent)), 3)  # 7 over 5
        1.4
    """
    lines = Path.straight(path.start, path.end)
    found, line = (
        integrate(score, p, Conformal(), tolerance=TOLERANCE, only_length=True).length for p in (path, lines)
    )
    return found / line


def relative_spread(numbers: Sequence[float | None], changes: Sequence[float | None]) -> float | None:
    """The standard deviation of some numbers, in units of the mean |f(x) − f(x̄)|; None for fewer than two.

    Example:
        >>> relative_spread([1.0, 2.0, 3.0], [4.0, -4.0, 4.0])
        0.25
    """
    some, scale = known(numbers), mean([abs(x) for x in known(changes)])
    return stdev(some) / scale if len(some) > 1 and scale > 0 else None


def _grew(a: Sequence[float | None], b: Sequence[float | None]) -> float:
    """The share of examples whose number in `a` is more than `GREW` above that in `b`; NaN of no examples."""
    return mean([float(x > y + GREW) for x, y in zip(a, b, strict=True) if x is not None and y is not None])


# ---- records side by side ----------------------------------------------------------------------------------------


class _Table:
    """Records by row and net."""

    def __init__(self, records: Mapping[str, Record]) -> None:
        self.found: dict[str, dict[str, Record]] = {}
        for key in sorted(records):
            self.found.setdefault(records[key]["row"], {})[records[key]["net"]] = records[key]
        self.nets = sorted({net for rows in self.found.values() for net in rows})

    def __contains__(self, row: str) -> bool:
        return row in self.found

    def pooled(self, row: str, name: str, beside: str | None = None) -> Numbers:
        """All examples of a row; with `beside`, of the nets that another row has too."""
        also = self.found.get(row if beside is None else beside, {})
        return [x for net, record in self.found.get(row, {}).items() if net in also for x in record[name]]

    def pair(self, row: str, other: str, name: str) -> tuple[Numbers, Numbers]:
        """The examples that two rows have in common."""
        return self.pooled(row, name, other), self.pooled(other, name, row)

    def described(self) -> str:
        """Nets and points in words."""
        records = {net: next(rows[net] for rows in self.found.values() if net in rows) for net in self.nets}
        noises = sorted({record["noise"] for record in records.values()})
        points = [len(record["change"]) for record in records.values()]
        some = str(min(points)) if min(points) == max(points) else f"{min(points)} to {max(points)}"
        span = enumerated([f"{noise:g}" for noise in noises]) if len(noises) < 4 else f"{noises[0]:g} to {noises[-1]:g}"
        nets, each = (f"{len(records)} half-moons nets", " each") if len(records) > 1 else ("one half-moons net", "")
        baseline = ", ".join(f"{x:g}" for x in BASELINE).replace("-", "−")
        return (
            f"{nets} (2-10-10-2, ReLU; noise {span}), {some} test points{each}, baseline ({baseline}), log-softmax of "
            f"the predicted class, integrals to a tolerance of {TOLERANCE:g}"
        )


def _gap(number: float) -> str:
    """A cancellation; what is below a thousandth is the integral's error."""
    return written(round(number, 3))


def _sizes(gaps: Sequence[float | None], across: Sequence[bool]) -> list[str]:
    """Cancellations of all points, their mean and median, and the median of those across the border."""
    beyond = [gap for gap, is_across in zip(gaps, across, strict=True) if is_across]
    return [_gap(x) for x in (mean(gaps), middle(gaps), middle(beyond))]


def _ratio(a: float, b: float) -> float:
    return a / b if b else math.nan


def _share(part: float) -> str:
    return f"{part:.0%}" if math.isfinite(part) else "–"


# ---- the sign ----------------------------------------------------------------------------------------------------

AWAY, TOWARD, PRINTED = "away", "toward", "as printed"
ENERGIES: dict[str, dict[str, Any] | None] = {
    IG: None, AWAY: {}, TOWARD: {"sign": "toward"}, PRINTED: {"as_printed": True},
}  # fmt: skip


def sign_units(setting: Setting, points: int | None = None, nets: Sequence[Moons] | None = None) -> Iterator[Unit]:
    """Straight lines, and paths of the paper's energy with either sign and as printed.

    Args:
        setting: its store and size.
        points: test points of each net; None: as many as the page shows.
        nets: some of `NETS`; None: those that the page shows.

    Example:
        >>> from leastpath._support.store import Store
        >>> [unit.key for unit in sign_units(Setting(Store("results", {})), nets=NETS[:1])][:2]  # doctest: +SKIP
        ['noise=0.05 seed=12 IG', 'noise=0.05 seed=12 away']
    """
    if not _has_pyro():
        return
    n = setting.of(100, quick=8) if points is None else points
    for net in NETS[: setting.of(3, quick=1)] if nets is None else nets:
        for row, changed in ENERGIES.items():
            yield Unit(f"{net.key} {row}", partial(_by_energy, setting, net, n, row, changed))


def _by_energy(setting: Setting, net: Moons, n: int, row: str, changed: Mapping[str, Any] | None) -> Record:
    """A row on one net: `Variational` with some settings changed, or, for None, the straight line."""
    task = moons_task(setting, net, n)
    told = evidence(task.explained(StraightLine() if changed is None else _variational(setting, **changed)))
    return _named(
        row, net, across=task.across.tolist(),
        **{name: told[name] for name in ("change", "cancellation", "length_ratio", "gradients")},
    )  # fmt: skip


def sign_table(records: Mapping[str, Record]) -> str:
    """What `sign_units` found, a row for each net and energy, in Markdown.

    Example:
        >>> record = {"row": "IG", "net": "n", "noise": 0.1, "change": [2.0], "cancellation": [0.5], "across": [True]}
        >>> print(sign_table({"n IG": record | {"length_ratio": [1.0], "gradients": [64.0]}}).splitlines()[2])
        | 0.1 | IG | 0.50 | 0.50 | 0.50 | 0% | 1.0 | 64 |
    """
    table, rows = _Table(records), []
    for net in table.nets:
        for row in ENERGIES:
            record, line = (table.found.get(name, {}).get(net) for name in (row, IG))
            if record is None:
                continue
            gaps = record["cancellation"]
            sizes = _sizes(gaps, record["across"])
            grew = math.nan if line is None else _grew(gaps, line["cancellation"])
            spent = written(middle(record["length_ratio"])), written(mean(record["gradients"]))
            rows.append([f"{record['noise']:g}", row, *sizes, _share(grew), *spent])
    heads = ["noise", "path", *SIZES, "grew", "length ratio", "gradients"]
    return markdown_table(heads, rows)


def _sign_section(records: Mapping[str, Record]) -> str:
    table = _Table(records)
    readings = {
        AWAY: "Pushed away from steep ground, as the paper's prose has it",
        TOWARD: "Pulled toward it, as its equation has it",
        PRINTED: "With its equations to the letter",
    }
    words = []
    for row, reading in readings.items():
        ours, line = table.pair(row, IG, "cancellation")
        if ours:
            verdict = ("does not clearly change", "rises", "falls")[direction(ours, line)]
            words.append(
                f"{reading}, the path's cancellation {verdict}: {_gap(mean(ours))} on average where IG has "
                f"{_gap(mean(line))}, {difference(ours, line)}; it grew on {_share(_grew(ours, line))} of the points."
            )
    return (
        f"{' '.join(words)}\n\n`Variational` on {table.described()}. *As printed* has the minus sign and a temperature "
        f"of one in the units of the inputs. {ACROSS}; *grew* is the share of points whose cancellation is more than "
        f"{GREW:g} above IG's; differences are paired over points.\n\n{sign_table(records)}"
    )


# ---- β and the learning rate -------------------------------------------------------------------------------------

ENERGY_NETS = NETS[1:]  # on the first, more than half of IG's attributions do not cancel: no median to compare with
DEFAULT = f"default: β × {Variational.beta_scale:g}, lr {Variational.lr:g}"
BETAS = {f"β × {x:g}": x for x in (0.1, 0.3, 3.0, 10.0)}
RATES = {f"lr {x:g}": x for x in (1e-3, 3e-3, 3e-2, 1e-1)}
TRIED: dict[str, dict[str, Any] | None] = {
    IG: None,
    DEFAULT: {},
    **{row: {"beta_scale": x} for row, x in BETAS.items()},
    **{row: {"lr": x} for row, x in RATES.items()},
}


def _energy_units(setting: Setting) -> Iterator[Unit]:
    if not _has_pyro():
        return
    for net in ENERGY_NETS[: setting.of(2, quick=1)]:
        for row, changed in TRIED.items():
            work = partial(_by_energy, setting, net, setting.of(60, quick=5), row, changed)
            yield Unit(f"{net.key} {row}", work)


def _energy_section(records: Mapping[str, Record]) -> str:
    table = _Table(records)
    rows = []
    for row in TRIED:
        if row not in table:
            continue
        ours, line = table.pair(row, IG, "cancellation")
        ratios = table.pooled(row, "length_ratio")
        relative = _ratio(mean(ours), mean(line)), _ratio(middle(ours), middle(line))
        sizes = [_gap(mean(table.pooled(row, "cancellation"))), *(written(round(x, 3)) for x in relative)]
        spent = written(mean(table.pooled(row, "gradients")))
        rows.append([row, *sizes, written(middle(ratios)), _share(_longer(ratios)), spent])
    heads = ["", "cancellation, mean", "mean / IG's", "median / IG's", "length ratio", "longer", "gradients"]
    return (
        f"{_energy_words(table)}\n\n`Variational`, one setting changed at a time, on {table.described()}. β is in "
        "units of the paper's rule, the mean ‖∇f‖ along the straight line; the learning rate is Adam's, in units of "
        "the root-mean-square difference between the two ends. *Longer* is the share of paths longer than the "
        f"straight line by more than {LENGTH_MARGIN:.0%}.\n\n{markdown_table(heads, rows)}"
    )


def _longer(ratios: Sequence[float | None]) -> float:
    return mean([float(x > 1 + LENGTH_MARGIN) for x in known(ratios)])


def _energy_words(table: _Table) -> str:
    told = []
    families = (("β from {:g} to {:g} times the paper's rule", BETAS), ("a learning rate from {:g} to {:g}", RATES))
    for what, others in families:
        pairs = [table.pair(row, IG, "cancellation") for row in (DEFAULT, *others) if row in table]
        shares = [_ratio(mean(ours), mean(line)) for ours, line in pairs if ours]
        if shares:
            span = what.format(min(others.values()), max(others.values()))
            told.append(f"{span} the mean cancellation is {written(min(shares))} to {written(max(shares))} of IG's")
    words = [f"For {'; for '.join(told)}."] if told else []
    tests = {row: paired(*table.pair(row, DEFAULT, "cancellation")) for row in (*BETAS, *RATES)}
    judged = {row: test for row, test in tests.items() if test is not None}
    if judged:
        p = dict(zip(judged, holm([test.p_value for test in judged.values()]), strict=True))
        less, more = (
            [row for row, test in judged.items() if p[row] <= CLEAR and test.difference * side > 0] for side in (-1, 1)
        )
        words.append(
            f"Of {len(judged)} other settings, those that cancel clearly less than the defaults: {_which(less)}; "
            f"clearly more: {_which(more)} (paired over points, after Holm's correction)."
        )
    longer = [_longer(table.pooled(row, "length_ratio")) for row in TRIED if row in table and row != IG]
    if longer:
        words.append(
            f"By setting, {_share(min(longer))} to {_share(max(longer))} of the paths are longer than the line."
        )
    return " ".join(words)


def _which(rows: Sequence[str]) -> str:
    return enumerated(rows) if rows else "none"


# ---- the metric --------------------------------------------------------------------------------------------------

DAMPINGS = (0.01, 0.1, 1.0, 10.0, 100.0)  # in units of the mean squared gradient along the straight lines
METRICS: dict[str, Metric | float] = {
    "Conformal": Conformal(),
    **{f"Conformal, ε = {x:g}": x for x in DAMPINGS},
    "RankOne": RankOne(),
    "NoCancellation": NoCancellation(),
}
SOLVERS = {"graph": "On the graph", "descent": "By descent"}


def _metric_units(setting: Setting) -> Iterator[Unit]:
    nets, n = NETS[: setting.of(3, quick=1)], setting.of(100, quick=4)
    for net in nets:
        yield Unit(f"{net.key} {IG}", partial(_under_metric, setting, net, n))
        for solver in SOLVERS:
            for name in list(METRICS)[:: setting.of(1, quick=3)]:
                work = partial(_under_metric, setting, net, n, solver, name)
                yield Unit(f"{net.key} {solver} {name}", work)


def _under_metric(setting: Setting, net: Moons, n: int, solver: str | None = None, name: str = "Conformal") -> Record:
    """A row on one net: paths that a solver made short under a metric, or the straight lines."""
    task, metric = moons_task(setting, net, n), METRICS[name]
    if isinstance(metric, float):
        metric = Conformal(damping=metric * mean_square_gradient(task.score, task.inputs, task.baseline))
    if solver is None:
        result = task.explained(StraightLine())
    else:
        result = task.explained(_graph(setting, net, refine=True) if solver == "graph" else Descent(), metric)
    assert result.path is not None
    told = evidence(result)
    return _named(
        IG if solver is None else f"{solver}, {name}", net, change=told["change"], cancellation=told["cancellation"],
        across=task.across.tolist(), ratio=listed(conformal_ratio(task.score, result.path)),
        departure=listed(departure(result.path)),
        purity=[purity_of(task.score, task.inputs, task.baseline, result)],
    )  # fmt: skip


def _metric_section(records: Mapping[str, Record]) -> str:
    table = _Table(records)
    rows = []
    for row in (IG, *(f"{solver}, {name}" for solver in SOLVERS for name in METRICS)):
        if row in table:
            across = [bool(is_across) for is_across in table.pooled(row, "across")]
            sizes = _sizes(table.pooled(row, "cancellation"), across)
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


def _metric_words(table: _Table, solver: str) -> str:
    """The metrics of one solver against its `Conformal`."""
    first = f"{solver}, Conformal"
    ours, line = table.pair(first, IG, "cancellation")
    if not ours:
        return ""
    told = [f"{SOLVERS[solver]} the mean cancellation is {_gap(mean(ours))} under `Conformal` (IG {_gap(mean(line))})"]
    for name in ("RankOne", "NoCancellation"):
        a, b = table.pair(f"{solver}, {name}", first, "cancellation")
        if a:
            verdict = ("not clearly more or less", "clearly more", "clearly less")[direction(a, b)]
            told.append(f"{_gap(mean(a))} under `{name}`, {verdict} ({difference(a, b)})")
    return "; ".join(told) + "."


def _damping_words(table: _Table, solver: str) -> str:
    """From which damping on paths cancel clearly more than without."""
    pairs = {
        damping: table.pair(f"{solver}, Conformal, ε = {damping:g}", f"{solver}, Conformal", "cancellation")
        for damping in DAMPINGS
    }
    done = {damping: pair for damping, pair in pairs.items() if pair[0]}
    if not done:
        return ""
    more = [damping for damping, (a, b) in done.items() if direction(a, b) > 0]
    means = ", ".join(f"{_gap(mean(a))} at ε = {damping:g}" for damping, (a, _) in done.items())
    since = f"the first that clearly raises it is ε = {more[0]:g}" if more else "none of them clearly raises it"
    return f"Damped, it is {means}: {since}."


# ---- a flat region -----------------------------------------------------------------------------------------------

FLAT_METHODS = {  # rows, by name of the method
    "integrated_gradients": IG,
    **{name: METHODS[name].title for name in ("geodesic_graph", "geodesic_descent", "geodesic_variational")},
}


def _flat_units(setting: Setting) -> Iterator[Unit]:
    for net in FLAT_NETS[:: setting.of(1, quick=7)]:
        for name in FLAT_METHODS:
            if name == "geodesic_variational" and not _has_pyro():
                continue
            yield Unit(f"{net.key} {name}", partial(_over_region, setting, net, setting.of(30, quick=6), name))


def _over_region(setting: Setting, net: Moons, n: int, name: str) -> Record:
    """A method on points of one net's flat region."""
    solvers: dict[str, Solver] = {
        "integrated_gradients": StraightLine(),
        "geodesic_graph": _graph(setting, net, refine=False),
        "geodesic_descent": Descent(),
        "geodesic_variational": _variational(setting),
    }
    task = moons_task(setting, net, n, flat=True)
    if not len(task.inputs):
        return _named(FLAT_METHODS[name], net, change=[], A0=[], A1=[])
    result = task.explained(solvers[name])
    assert isinstance(result.values, Tensor)
    first, second = (listed(column) for column in result.values.unbind(1))
    # Changes of score differ in their fifth digit, and that is what is looked at.
    return _named(FLAT_METHODS[name], net, 8, change=listed(result.score_change), A0=first, A1=second)


def _flat_section(records: Mapping[str, Record]) -> str:
    table = _Table(records)
    spreads = {row: _spreads(table, row) for row in FLAT_METHODS.values() if row in table}
    rows = [
        [row, *(written(mean(list(of[name].values()))) for name in SPREADS), *_apart(spreads, row, ("A₀", "Σ|A|"))]
        for row, of in spreads.items()
    ]
    floor = mean(list(max((of["Δf"] for of in spreads.values()), key=len).values()))
    heads = ["", *(f"spread of {name}" for name in SPREADS), "A₀: − IG's (p)", "Σ|A|: − IG's (p)"]
    return (
        f"{_flat_words(spreads, floor)}\n\nOn {table.described()}: points across the border from the baseline whose "
        f"predicted probability exceeds {CONFIDENT:g}. The graph is the paper's: {N_NEIGHBORS} neighbours among "
        "training points, routes not refined. A spread is a standard deviation over the points of a net, in units of "
        "their mean |f(x) − f(x̄)|; means over nets, and differences paired over nets. Δf is f(x) − f(x̄) itself: no "
        "complete explanation has a steadier sum, and Σ|A| varies more only where signs cancel. How the sum is divided "
        "between A₀ and A₁ is not fixed by completeness. Halving it would have the least spread of all: a small spread "
        f"shows that an explanation is stable, not that it is right.\n\n{markdown_table(heads, rows)}"
    )


SPREADS = ("A₀", "A₁", "Σ|A|", "Δf")


def _spreads(table: _Table, row: str) -> dict[str, dict[str, float | None]]:
    """A row's spreads: what -> net -> spread."""
    found: dict[str, dict[str, float | None]] = {name: {} for name in SPREADS}
    for net, record in table.found[row].items():
        both = list(zip(record["A0"], record["A1"], strict=True))
        size = [None if None in pair else abs(pair[0]) + abs(pair[1]) for pair in both]
        for name, numbers in zip(SPREADS, (record["A0"], record["A1"], size, record["change"]), strict=True):
            found[name][net] = relative_spread(numbers, record["change"])
    return found


Spreads = Mapping[str, Mapping[str, Mapping[str, float | None]]]


def _of_same_nets(spreads: Spreads, row: str, name: str) -> tuple[Numbers, Numbers]:
    """A row's spreads and IG's, on the nets that have both."""
    ours, line = spreads[row][name], spreads.get(IG, {}).get(name, {})
    nets = [net for net in ours if net in line]
    return [ours[net] for net in nets], [line[net] for net in nets]


def _apart(spreads: Spreads, row: str, names: Sequence[str]) -> list[str]:
    return ["–" if row == IG else difference(*_of_same_nets(spreads, row, name)) for name in names]


def _flat_words(spreads: Spreads, floor: float) -> str:
    told = []
    for row in spreads:
        size, first = (written(mean(list(spreads[row][name].values()))) for name in ("Σ|A|", "A₀"))
        verdict = ""
        if row != IG and IG in spreads:
            judged = [direction(*_of_same_nets(spreads, row, name)) for name in ("Σ|A|", "A₀")]
            words = [("not clearly less or more", "clearly more", "clearly less")[side] for side in judged]
            verdict = f", {words[0]} than IG's" if words[0] == words[1] else f", {words[0]} and {words[1]} than IG's"
        told.append(f"{row} by {size} and {first}{verdict}")
    return (
        "Where a net is flat, the paper expects attributions to be alike. Over points whose f(x) − f(x̄) varies by "
        f"{written(floor)} of its size, Σ|A| and A₀ vary: {'; '.join(told)}."
    )


SIGN = Study("sign", "The sign of the energy", sign_units, _sign_section)
ENERGY = Study("energy", "β and the learning rate", _energy_units, _energy_section)
METRIC = Study("metric", "The metric", _metric_units, _metric_section)
FLAT = Study("flat", "A flat region", _flat_units, _flat_section)
