"""A flat region, where the paper expects attributions to be alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import stdev

from torch import Tensor

from leastpath.methods import METHODS
from leastpath.solvers import Descent, StraightLine
from leastpath.solvers.solution import Solver
from studies.findings.config import Setting
from studies.findings.half_moons.rows import IG, Numbers, Rows, row_record
from studies.findings.half_moons.task import CONFIDENT, FLAT_NETS, data_graph, has_pyro, moons_task, variational_solver
from studies.findings.measuring import difference, direction, known, listed, mean, written
from studies.findings.study import Measurement, Record, Study
from studies.markdown import markdown_table
from studies.moons.config import N_NEIGHBORS
from studies.moons.training import Moons


def relative_spread(numbers: Sequence[float | None], changes: Sequence[float | None]) -> float | None:
    """The standard deviation of some numbers, in units of the mean |f(x) − f(x̄)|; None for fewer than two.

    Example:
        >>> relative_spread([1.0, 2.0, 3.0], [4.0, -4.0, 4.0])
        0.25
    """
    some, scale = known(numbers), mean([abs(x) for x in known(changes)])
    return stdev(some) / scale if len(some) > 1 and scale > 0 else None


FLAT_METHODS = {  # rows, by name of the method
    "integrated_gradients": IG,
    **{name: METHODS[name].title for name in ("geodesic_graph", "geodesic_descent", "geodesic_variational")},
}


def _flat_measurements(setting: Setting) -> Iterator[Measurement]:
    for net in FLAT_NETS[:: setting.of("flat.every")]:
        for name in FLAT_METHODS:
            if name == "geodesic_variational" and not has_pyro():
                continue
            yield Measurement(f"{net.key} {name}", partial(_over_region, setting, net, setting.of("flat.points"), name))


def _over_region(setting: Setting, net: Moons, n: int, name: str) -> Record:
    """A method on points of one net's flat region."""
    solvers: dict[str, Solver] = {
        "integrated_gradients": StraightLine(),
        "geodesic_graph": data_graph(setting, net, refine=False),
        "geodesic_descent": Descent(),
        "geodesic_variational": variational_solver(setting),
    }
    task = moons_task(setting, net, n, flat=True)
    if not len(task.inputs):
        return row_record(FLAT_METHODS[name], net, change=[], A0=[], A1=[])
    result = task.explained(solvers[name])
    assert isinstance(result.values, Tensor)
    first, second = (listed(column) for column in result.values.unbind(1))
    # Changes of score differ in their fifth digit, and that is what is looked at.
    return row_record(FLAT_METHODS[name], net, 8, change=listed(result.score_change), A0=first, A1=second)


def _flat_section(records: Mapping[str, Record]) -> str:
    table = Rows(records)
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


def _spreads(table: Rows, row: str) -> dict[str, dict[str, float | None]]:
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


FLAT = Study("flat", "A flat region", _flat_measurements, _flat_section)
