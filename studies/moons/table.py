"""The paper's Table 1 from the results of a half-moons run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leastpath._support.store import Store, Unit
from leastpath.evaluation.purity import auc_purity, purity
from leastpath.evaluation.statistics import PairedTest, paired_test
from leastpath.methods import METHODS
from studies.expected import expected_numbers
from studies.moons.config import PAPER, MoonsConfig
from studies.moons.results import MethodOnNet

if TYPE_CHECKING:
    import pandas

REFERENCE = "integrated_gradients"  # what every method is tested against, net by net
IDEAL = "|f(x) − f(x̄)|"
NETS_FOR_A_TEST = 10  # with fewer, the smallest p-value that a sign-flip test can give means little
COLUMNS = {
    "paper": "AUC-purity as the paper prints it.",
    "ours": "AUC-purity of this run.",
    "ideal": "AUC-purity of |f(x) − f(x̄)| itself, on the points that the method explained.",
    "minus IG": "Mean purity over the nets minus that of Integrated Gradients on the same points. It is a mean, not an "
    "area over the noise, and some methods explain fewer points: it is no difference of two numbers under ours.",
    "NCC gap": "Σ|A| − |f(x) − f(x̄)|, mean over points. 0: nothing cancels. Below 0: the method explains less than "
    "there is to explain.",
    "median": "The NCC gap, median over points.",
    "points": "Test points explained for each net. Slow methods get fewer, with the same balance of the two classes.",
    "gradients": "Gradients of the model for one point.",
    "forwards": "Evaluations of the model without gradient for one point.",
    "CPU s a net": "Seconds of one core for all points of a net.",
}
"""What the columns of the table say."""


@dataclass(frozen=True)
class MethodResult:
    """What one method reached.

    Args:
        method: its name, or "ideal".
        purity: (seeds, noises).
        ideal: (seeds, noises) purity of |f(x) − f(x̄)| on the same points.
        reference: (seeds, noises) purity of Integrated Gradients on the same points; NaN where it was not run.
        cancellation_mean: mean of Σ|A| − |Δf| over points, then nets.
        cancellation_median: median over points, then mean over nets.
        points: explained on each net.
        gradients: model gradients per example, mean.
        forwards: evaluations without gradient per example, mean.
        seconds: of one CPU, a net, mean.

    Example:
        >>> perfect = torch.ones(5, 2)
        >>> MethodResult("ideal", perfect, perfect, perfect, 0.0, 0.0, 2000).area((0.25, 0.75))
        (0.5, 0.0)
    """

    method: str
    purity: Tensor
    ideal: Tensor
    reference: Tensor
    cancellation_mean: float
    cancellation_median: float
    points: int
    gradients: float = 0.0
    forwards: float = 0.0
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """As tables print it."""
        return IDEAL if self.method == "ideal" else METHODS[self.method].title

    def area(self, noises: tuple[float, ...]) -> tuple[float, float]:
        """AUC-purity: mean over seeds, and its standard error (NaN for one seed)."""
        areas = torch.as_tensor(auc_purity(noises, self.purity))
        error = float(areas.std()) / math.sqrt(len(areas)) if len(areas) > 1 else math.nan
        return float(areas.mean()), error

    def ideal_area(self, noises: tuple[float, ...]) -> float:
        """AUC-purity of |f(x) − f(x̄)| on the same points, mean over seeds."""
        return float(torch.as_tensor(auc_purity(noises, self.ideal)).mean())

    def minus_reference(self) -> float | None:
        """Mean purity minus that of Integrated Gradients on the same points, if that was run."""
        if self.method in (REFERENCE, "ideal") or bool(self.reference.isnan().any()):
            return None
        return float((self.purity - self.reference).mean())

    def against_reference(self) -> PairedTest | None:
        """Purity against that of Integrated Gradients on the same points, paired over nets; None if they are few."""
        if self.minus_reference() is None or self.purity.numel() < NETS_FOR_A_TEST:
            return None
        return paired_test(self.purity.flatten(), self.reference.flatten())


def method_results(store: Store, config: MoonsConfig) -> list[MethodResult]:
    """All methods of a run in the order of its configuration, then the ideal score.

    Example:
        >>> method_results(run.store, config)[0].area(config.noises)  # doctest: +SKIP
        (0.334, 0.008)
    """
    nets = _Nets(store, config)
    return [*(nets.result(method) for method in config.methods), nets.ideal()]


class _Nets:
    """What every method is judged by: predictions, changes of score and Integrated Gradients, net by net."""

    def __init__(self, store: Store, config: MoonsConfig) -> None:
        self.store, self.config = store, config
        self.kept = [store.read(f"net {net.key}").arrays for net in config.nets]
        self.reference: list[Tensor] | None = None
        if REFERENCE in config.methods:
            self.reference = [unit.arrays["values"] for unit in self._units(REFERENCE)]

    def result(self, method: str) -> MethodResult:
        units = self._units(method)
        rows = [self.config.rows_of(method, kept["other_class"]) for kept in self.kept]

        def mean(name: str, statistic: Callable[[Tensor], Tensor] = torch.mean) -> float:
            return sum(float(statistic(unit.arrays[name].double())) for unit in units) / len(units)

        ideal = self._purities([kept["change"][r, None] for kept, r in zip(self.kept, rows, strict=True)], rows)
        reference = torch.full_like(ideal, math.nan)
        if self.reference is not None:
            reference = self._purities([values[r] for values, r in zip(self.reference, rows, strict=True)], rows)
        return MethodResult(
            method,
            self._purities([unit.arrays["values"] for unit in units], rows),
            ideal,
            reference,
            mean("cancellation"),
            mean("cancellation", torch.median),
            self.config.points_of(method),
            mean("gradients"),
            mean("forwards"),
            sum(unit.record["seconds"] for unit in units) / len(units),
        )

    def ideal(self) -> MethodResult:
        """|f(x) − f(x̄)| itself, on all points."""
        n = self.config.points
        purities = self._purities([kept["change"][:n, None] for kept in self.kept], [torch.arange(n)] * len(self.kept))
        return MethodResult("ideal", purities, purities, purities, 0.0, 0.0, n)

    def _purities(self, values: list[Tensor], rows: list[Tensor]) -> Tensor:
        """Purity of attributions (n, features) of test points `rows` (n,), net by net: (seeds, noises)."""
        each = [
            purity(v, kept["other_class"][r].long(), baseline_class=0)
            for v, kept, r in zip(values, self.kept, rows, strict=True)
        ]
        return torch.tensor(each, dtype=torch.float64).reshape(len(self.config.seeds), -1)

    def _units(self, method: str) -> list[Unit]:
        return [self.store.read(MethodOnNet(method, net).key) for net in self.config.nets]


def table_1(store: Store, config: MoonsConfig) -> pandas.DataFrame:
    """The table as text cells.

    `COLUMNS` says what the columns are. AUC-purity has its standard error over seeds, and differences from Integrated
    Gradients their p-value, where there are enough seeds and nets.

    Example:
        >>> table_1(run.store, config).to_csv("table.csv")  # doctest: +SKIP
    """
    import pandas

    rows = []
    for result in method_results(store, config):
        area, error = result.area(config.noises)
        ideal = result.ideal_area(config.noises)
        rows.append(
            {
                "method": result.title,
                "paper": _number(PAPER.get(result.method), 3),
                "ours": _number(area, 3) + ("" if math.isnan(error) else f" ± {error:.3f}"),
                "ideal": _number(ideal, 3),
                "minus IG": _difference(result),
                "NCC gap": _number(result.cancellation_mean, 3),
                "median": _number(result.cancellation_median, 3),
                "points": f"{result.points:,}",
                "gradients": f"{result.gradients:,.0f}",
                "forwards": f"{result.forwards:,.0f}",
                "CPU s a net": _number(result.seconds, 1),
            }
        )
    return pandas.DataFrame(rows)


def winner(results: Sequence[MethodResult], config: MoonsConfig) -> MethodResult:
    """The method with the highest AUC-purity. |f(x) − f(x̄)| is no method.

    Example:
        >>> winner(method_results(run.store, config), config).title  # doctest: +SKIP
        'Geodesic IG (graph)'
    """
    return max((r for r in results if r.method != "ideal"), key=lambda r: r.area(config.noises)[0])


def conclusion(results: Sequence[MethodResult], config: MoonsConfig) -> str:
    """What the table says, in words.

    Example:
        >>> conclusion(method_results(run.store, config), config)  # doctest: +SKIP
        'Geodesic IG (graph) ranks the test points purest: …'
    """
    best, by_name = winner(results, config), {r.method: r for r in results}
    span = config.noises[-1] - config.noises[0]
    said = [f"{best.title} ranks the test points purest: AUC-purity {best.area(config.noises)[0]:.3f}, where chance is "
            f"{span / 2:.2f} and {span:.2f} is the most there is"]  # fmt: skip
    line = by_name.get(REFERENCE)
    if line is not None and best is not line:
        said.append(f"Integrated Gradients has {line.area(config.noises)[0]:.3f}")
        said.append(
            f"The NCC gap, what cancels within an attribution, is {best.cancellation_mean:.2f} on average against "
            f"{line.cancellation_mean:.2f}"
        )
    ideal = by_name["ideal"].area(config.noises)[0]
    above = best.area(config.noises)[0] > ideal
    said.append(
        f"An attribution in which nothing cancels has {ideal:.3f}"
        + (", so what is above that is owed to something else than fewer cancellations" if above else "")
    )
    nets = len(config.nets)
    if nets < NETS_FOR_A_TEST:
        said.append(f"{nets} nets are few: they show the direction, not how sure it is; the complete run has 65")
    return ". ".join(said) + "."


def _difference(result: MethodResult) -> str:
    test, difference = result.against_reference(), result.minus_reference()
    if difference is None:
        return "–"
    return f"{difference:+.3f}" + ("" if test is None else f" (p = {_p(test.p_value)})")


def against_expected(results: Sequence[MethodResult], config: MoonsConfig) -> str:
    """In words, whether the run found what expected.toml holds: for the complete run, or the quick one.

    Example:
        >>> against_expected([], MoonsConfig(seeds=(1,)))
        'expected.toml has no numbers of a run with these settings.'
    """
    runs = {"measured": MoonsConfig(), "quick": MoonsConfig.quick()}
    which = next((name for name, usual in runs.items() if replace(config, methods=usual.methods) == usual), None)
    if which is None:
        return "expected.toml has no numbers of a run with these settings."
    known, far = expected_numbers("moons")[which]["auc_purity"], []
    for result in results:
        if result.method in known:
            mean, error = known[result.method]
            area = result.area(config.noises)[0]
            if abs(area - mean) > 3 * error:
                far.append(f"{result.title} {area:.3f}, expected {mean:.3f} ± {error:.3f}")
    if far:
        return f"Not as expected.toml has it, by more than three times its error: {'; '.join(far)}."
    return "All methods agree with expected.toml."


def summary(store: Store, config: MoonsConfig) -> dict[str, Any]:
    """The same as plain numbers, for pages that quote them.

    Example:
        >>> summary(run.store, config)["methods"]["geodesic_graph"]["auc_purity"]  # doctest: +SKIP
        0.559
    """
    methods = {}
    for result in method_results(store, config):
        area, error = result.area(config.noises)
        test = result.against_reference()
        methods[result.method] = {
            "auc_purity": area,
            "standard_error": None if math.isnan(error) else error,
            "paper": PAPER.get(result.method),
            "ideal_on_these_points": result.ideal_area(config.noises),
            "cancellation_mean": result.cancellation_mean,
            "cancellation_median": result.cancellation_median,
            "points": result.points,
            "gradients": result.gradients,
            "forwards": result.forwards,
            "seconds_a_net": result.seconds,
            "against_ig": None if test is None else vars(test),
            "purity_mean_by_noise": result.purity.mean(0).tolist(),
            "gap_below_median": None if result.method == "ideal" else gap_below_median(store, config, result.method),
        }
    accuracy = [store.read_record(f"net {net.key}").record["accuracy"] for net in config.nets]
    return {"noises": list(config.noises), "seeds": list(config.seeds), "accuracy": accuracy, "methods": methods}


def gap_below_median(store: Store, config: MoonsConfig, method: str, noise: float = 0.3) -> dict[str, float]:
    """The mean NCC gap of points whose |Δf| lies in the second quartile, from this noise on: by side of the border.

    These are the points that some cancellation lifts into the upper half, which purity looks at.

    Example:
        >>> gap_below_median(run.store, config, "geodesic_graph")  # doctest: +SKIP
        {'other_class': 0.43, 'baseline_class': 0.01}
    """
    gaps: dict[str, list[Tensor]] = {"other_class": [], "baseline_class": []}
    for net in config.nets:
        if net.noise >= noise:
            kept = store.read(f"net {net.key}").arrays
            gap = store.read(MethodOnNet(method, net).key).arrays["cancellation"]
            rows = config.rows_of(method, kept["other_class"])
            change, other = kept["change"][rows].abs(), kept["other_class"][rows]
            low, high = torch.quantile(change, torch.tensor([0.25, 0.5]))
            below = (change > low) & (change <= high)
            gaps["other_class"].append(gap[below & other])
            gaps["baseline_class"].append(gap[below & ~other])
    return {side: float(torch.cat(values).double().mean()) for side, values in gaps.items() if values}


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _p(value: float) -> str:
    return f"{value:.1g}" if value < 0.1 else f"{value:.2f}"
