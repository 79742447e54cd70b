"""Comparison: what compare() found, as tables, tests, a figure and a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import false_discovery_control

from leastpath._support.checks import write_number
from leastpath._support.optional import import_optional
from leastpath._support.store import Unit
from leastpath.evaluation.measure import Measure
from leastpath.evaluation.statistics import Interval, bootstrap_interval, holm, paired_test
from leastpath.removal.verdict import bound_share
from leastpath.report.html import Report
from leastpath.report.measures import comparison_figure, comparison_table
from leastpath.result.status import Outcome

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

EVIDENCE = ("completeness_gap", "cancellation", "length_ratio", "certificate", "support", "p_value", "p_model")
COSTS = ("gradients", "forwards", "seconds")
MEASURING = ("measuring_gradients", "measuring_forwards", "measuring_seconds")
RESERVED = (
    "method",
    "input",
    "name",
    "length_ratio",
    *COSTS,
    *MEASURING,
    "q_value",
    "outcome",
    "ok",
    "status",
    "failure",
)
"""Columns whose names no measure may have. Measures may share a name with the evidence that they report."""
WORDS = ("outcome", "ok", "status")
FIRST_REFERENCES = ("integrated_gradients", "StraightLine")


@dataclass(frozen=True, repr=False)
class Comparison:
    """Methods side by side. `print` it for the table in words.

    Example:
        >>> import leastpath as lp, torch
        >>> from leastpath.evaluation import compare
        >>> found = compare({"line": lp.StraightLine()}, lp.Score(lambda x: (x**2).prod(1)), torch.ones(3, 2))
        >>> found.table()["inputs", "done"].to_dict()
        {'line': 3}
    """

    per_example: pd.DataFrame
    """One row per method and input: method, input, name, one column per measure, evidence, costs, status, failure.

    `outcome` is the verdict's. Who points at single rows takes those with `q_value` ≤ .05: the larger of the two
    p-values, corrected for how many inputs of the method were judged (Benjamini–Hochberg), so that at most 5 % of the
    rows pointed at are expected to be there by chance.
    """
    curves: pd.DataFrame
    """What is behind the measures that have curves, one row per point: method, input, measure, curve, x, value."""
    methods: tuple[str, ...]  #: in the order they were given
    higher_is_better: Mapping[str, bool]  #: by the name of each measure
    reference: str  #: the method that the others are also tested against
    level: float  #: of the confidence intervals; significant is what has p < 1 − level
    finished: bool  #: False where Ctrl-C ended the comparison early
    axes: Mapping[str, str] = field(default_factory=dict)  #: what the axis of each measure's curve is

    @staticmethod
    def of(
        methods: Sequence[str],
        names: Sequence[str] | range,
        measures: Sequence[Measure],
        units: Mapping[tuple[str, int], Unit],
        failures: Mapping[tuple[str, int], str],
        reference: str | None,
        level: float,
        finished: bool,
    ) -> Comparison:
        """Put units of work together, each of a (method, input), and the reasons of those that failed."""
        pd = _pandas()
        rows, points = [], []
        for method in methods:
            for b, name in enumerate(names):
                start = {"method": method, "input": b, "name": str(name)}
                if (method, b) in units:
                    unit = units[method, b]
                    found = {name: unit.record.get(name) for name in (*EVIDENCE, *COSTS, *MEASURING, *WORDS)}
                    rows.append(start | found | {m.name: unit.record["measures"][m.name] for m in measures})
                    points += [{**start, **point} for point in _points(unit)]
                elif (method, b) in failures:
                    rows.append({**start, "ok": False, "failure": failures[method, b]})
        titles = [m.name for m in measures]
        # An axiom asked for as a measure has the name of the evidence that it reports: one column serves both.
        numbers = [*titles, *(name for name in EVIDENCE if name not in titles), *COSTS, *MEASURING]
        table = pd.DataFrame(rows, columns=["method", "input", "name", *numbers, *WORDS, "failure"])
        table = table.astype({column: float for column in numbers})
        table.insert(table.columns.get_loc("outcome"), "q_value", _correct_for_inputs(table))
        curves = pd.DataFrame(points, columns=["method", "input", "name", "measure", "curve", "x", "value"])
        chosen = reference or next((r for r in FIRST_REFERENCES if r in methods), methods[0])
        directions = {m.name: m.higher_is_better for m in measures}
        axes = {m.name: str(getattr(m, "axis", "place on the curve")) for m in measures}
        return Comparison(table, curves, tuple(methods), directions, chosen, level, finished, axes)

    def table(self) -> pd.DataFrame:
        """One row per method. Columns (measure, mean | low | high | n), then mean evidence and cost per input.

        Means are over the inputs that a method has a value for, n of them: where failures make these differ, compare
        by `tests()`, which only uses inputs that both methods have.
        """
        return self._table.copy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        pd = _pandas()
        rows = {}
        for method, group in self.per_example.groupby("method", sort=False):
            row: dict[tuple[str, str], Any] = {}
            for measure in self.higher_is_better:
                row |= self._summary(measure, group[measure])
            row |= self._share_supported(group["outcome"])
            row["evidence", "|completeness gap|"] = group["completeness_gap"].abs().mean()
            row["evidence", "cancellation"] = group["cancellation"].mean()
            row |= {("cost", cost): group[cost].mean() for cost in COSTS}
            row["inputs", "done"] = int(group["failure"].isna().sum())
            row["inputs", "failed"] = int(group["failure"].notna().sum())
            rows[method] = row
        table = pd.DataFrame.from_dict(rows, orient="index")
        if len(table):
            table.columns = pd.MultiIndex.from_tuples(table.columns)
        table.index.name = "method"
        return table

    def _summary(self, measure: str, values: Any) -> dict[tuple[str, str], Any]:
        known = values[np.isfinite(values)]
        none = Interval(np.nan, np.nan, np.nan, self.level, 0)
        found = bootstrap_interval(known.to_numpy(), self.level) if len(known) else none
        return {(measure, part): getattr(found, part) for part in ("mean", "low", "high", "n")}

    def _share_supported(self, outcomes: Any) -> dict[tuple[str, str], Any]:
        """How many of the judged explanations are supported: both of their p-values are at most .05."""
        tested = [outcome for outcome in outcomes if isinstance(outcome, str) and outcome]
        hits, n = tested.count(Outcome.SUPPORTED.value), len(tested)
        low, high = bound_share(hits, n, self.level) if n > 1 else (np.nan, np.nan)
        found = {"supported": hits / n if n else np.nan, "low": low, "high": high, "n": n}
        return {("verdict", name): value for name, value in found.items()}

    def tests(self) -> pd.DataFrame:
        """Paired tests of every method against the best of each measure, and against the reference.

        Columns: measure, against ("best" or "reference"), method, other, difference (method − other), low, high,
        p_value, p_holm, n. `p_holm` is corrected (Holm) for all methods that the same one is tested against.
        The best is chosen by the same numbers that it is then tested on, which favours it a little.
        """
        return self._tests.copy()

    @cached_property
    def _tests(self) -> pd.DataFrame:
        rows: list[dict[str, Any]] = []
        for measure in self.higher_is_better:
            values = self._wide(measure)
            for against, other in (("best", self._best(measure)), ("reference", self.reference)):
                if other is None or other not in values:
                    continue
                rivals = [m for m in values if m != other and (values[m] - values[other]).notna().any()]
                family = [
                    {"measure": measure, "against": against, "method": m, "other": other}
                    | asdict(paired_test(values[m].to_numpy(), values[other].to_numpy(), self.level, omit_nan=True))
                    for m in rivals
                ]
                for row, p in zip(family, holm([row["p_value"] for row in family]), strict=True):
                    rows.append({**row, "p_holm": float(p)})
        columns = ["measure", "against", "method", "other", "difference", "low", "high", "p_value", "p_holm", "n"]
        return _pandas().DataFrame(rows, columns=columns)

    def winners(self) -> pd.DataFrame:
        """One row per measure: the best method, those not significantly worse, and whether it beats the reference.

        Columns: best, mean, tied (methods whose difference from the best is not significant), clear (nobody is tied),
        reference, beats_reference, p_reference (corrected). The best is by the mean over inputs that all methods have.
        """
        rows, alpha = {}, 1 - self.level
        for measure in self.higher_is_better:
            best = self._best(measure)
            if best is None:
                continue
            tests = self._tests[self._tests["measure"] == measure]
            rivals = tests[tests["against"] == "best"]
            tied = rivals[rivals["p_holm"] >= alpha]["method"].tolist()
            own = rivals[rivals["method"] == self.reference]["p_holm"]  # the same answer as in `tied`
            p = float(own.iloc[0]) if len(own) else np.nan
            rows[measure] = {
                "best": best,
                "mean": float(self._table.loc[best, (measure, "mean")]),
                "tied": tied,
                "clear": len(rivals) > 0 and not tied,
                "reference": self.reference,
                "beats_reference": p < alpha,
                "p_reference": p,
            }
        columns = ["best", "mean", "tied", "clear", "reference", "beats_reference", "p_reference"]
        return _pandas().DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("measure")

    @property
    def failures(self) -> pd.DataFrame:
        """The pairs that failed: method, input, name, failure (the reason)."""
        failed = self.per_example[self.per_example["failure"].notna()]
        return failed[["method", "input", "name", "failure"]].reset_index(drop=True)

    def _wide(self, measure: str) -> pd.DataFrame:
        """One row per input, one column per method; NaN where there is no finite value."""
        table = self.per_example.pivot(index="input", columns="method", values=measure)
        return table[self.per_example["method"].unique()].replace([np.inf, -np.inf], np.nan)

    def _best(self, measure: str) -> str | None:
        values = self._wide(measure).dropna(axis=1, how="all")
        if values.empty:
            return None
        common = values.dropna()
        means = (values if common.empty else common).mean()
        return str(means.idxmax() if self.higher_is_better[measure] else means.idxmin())

    def __repr__(self) -> str:
        size = f"{len(self.methods)} methods, {len(self.higher_is_better)} measures, {len(self.per_example)} pairs"
        return f"Comparison({size}{'' if self.finished else ', interrupted'})"

    def __str__(self) -> str:
        return f"{self._in_words().to_string()}\n{self._key()}"

    def _in_words(self) -> pd.DataFrame:
        """The table as it is printed: mean [low, high], marked * for the best and = for those tied with it."""
        table, winners = self._table, self.winners()
        words: dict[str, list[str]] = {}
        for measure, higher in self.higher_is_better.items():
            marks = {}
            if measure in winners.index:
                marks = {winners.loc[measure, "best"]: "*"} | dict.fromkeys(winners.loc[measure, "tied"], "=")
            words[f"{measure} {'↑' if higher else '↓'}"] = [
                _interval(*(table.loc[m, (measure, part)] for part in ("mean", "low", "high"))) + marks.get(m, " ")
                for m in table.index
            ]
        if len(table) and (table["verdict", "n"] > 0).any():
            words["supported"] = [
                _interval(*(table.loc[m, ("verdict", part)] for part in ("supported", "low", "high")))
                for m in table.index
            ]
        for part, column in (c for c in table.columns if c[0] in ("evidence", "cost")):
            words[column] = [write_number(value) for value in table[part, column]]
        if len(table) and (table["inputs", "failed"] > 0).any():
            words["failed"] = [str(n) for n in table["inputs", "failed"]]
        return _pandas().DataFrame(words, index=table.index)

    def _key(self, best: str = "* best") -> str:
        return (
            f"Means over inputs with {self.level:.0%} bootstrap intervals. {best}, = not significantly worse than it "
            f"(paired sign-flip test, Holm, p ≥ {1 - self.level:.2g}). ↑ higher is better, ↓ lower. Costs: per input. "
            "Supported: share of inputs on which removal confirms the explanation beyond chance and beyond what the "
            "input alone shows."
        )

    def plot(self) -> Figure:
        """Every measure with its interval, beside its mean curve where it has one; below, what each method costs."""
        return comparison_figure(self._table, self.curves, self.methods, self.higher_is_better, self.axes)

    def to_html(self, path: str | Path | None = None, *, about: str = "") -> str:
        """The comparison as one self-contained page; written to `path` where one is given.

        `about` is a sentence on what was compared, for whoever reads the page without the call that made it.
        """
        lead = f"{len(self.methods)} methods on {self.per_example['input'].nunique()} inputs."
        words = [lead, *([] if self.finished else ["Interrupted."]), *([about] if about else [])]
        report = Report("Comparison of attribution methods", " ".join(words))
        report.section("Table").raw(comparison_table(self._in_words())).text(self._key("Bold: best"))
        if self.higher_is_better:
            caption = (
                "Tied: not significantly worse than the best. Clear winner: nobody is tied with it. "
                f"The reference is {self.reference}; p is that of the best against it, corrected for all methods."
            )
            report.section("Winners").table(_word_winners(self.winners()), caption, index=False)
        report.section("Figure").figure(self.plot(), "Means with intervals, mean curves, and costs.", format="svg")
        if self.higher_is_better:
            report.section("Paired tests").table(
                _drop_repeated_pairs(self._tests).round(6), _TESTS, digits=3, index=False
            )
        if len(self.failures):
            report.section("Failures").table(self.failures, "These pairs are left out of the means.")
        if path is not None:
            report.write(path)
        return report.html()


def _correct_for_inputs(table: pd.DataFrame) -> Any:
    """The larger of both p-values of each row, corrected within its method (Benjamini–Hochberg); NaN: not judged."""
    larger = table[["p_value", "p_model"]].max(axis=1, skipna=False)
    found = larger.copy()
    for _, own in larger.dropna().groupby(table["method"]):
        found[own.index] = false_discovery_control(own.to_numpy())
    return found


def _points(unit: Unit) -> list[dict[str, Any]]:
    found = []
    for name, curve in unit.arrays.items():
        measure, _, kind = name.rpartition("/")
        axis = unit.arrays.get(f"{measure}/x", range(len(curve)))
        if kind != "x":
            found += [
                {"measure": measure, "curve": kind, "x": float(at), "value": float(value)}
                for at, value in zip(axis, curve, strict=True)
            ]
    return found


def _interval(mean: float, low: float, high: float) -> str:
    """mean [low, high], to two digits of the interval's width."""
    if np.isnan(mean):
        return "–"
    if np.isnan(low):
        return write_number(mean)
    width = high - low
    places = 3 if width <= 0 else min(9, max(0, 1 - int(np.floor(np.log10(width)))))
    return f"{mean:,.{places}f} [{low:,.{places}f}, {high:,.{places}f}]".replace("-", "−")


def _word_winners(winners: pd.DataFrame) -> pd.DataFrame:
    """For people: the measure in a column, several names in one cell, plain words in the head."""
    words = winners.assign(tied=[", ".join(tied) or "nobody" for tied in winners["tied"]]).reset_index()
    titles = {"beats_reference": "beats the reference", "p_reference": "p", "clear": "clear winner"}
    return words.drop(columns="reference").rename(columns=titles)


_TESTS = (
    "Each row compares two methods on the inputs that both have. Difference: method − other, with its interval. "
    "p_holm is the p-value, corrected for all methods that the same one is compared with. n counts inputs."
)


def _drop_repeated_pairs(tests: pd.DataFrame) -> pd.DataFrame:
    """Each pair of methods once: where the best meets the reference, or is the reference, one row says both."""
    pairs = [(m, *sorted(two)) for m, *two in tests[["measure", "method", "other"]].itertuples(index=False)]
    both = tests.assign(pair=pairs)
    kinds = both.groupby("pair")["against"].transform(lambda kinds: " and ".join(dict.fromkeys(kinds)))
    return both.assign(against=kinds).drop_duplicates("pair").drop(columns="pair")


def _pandas() -> Any:
    return import_optional("pandas", "comparisons are pandas tables", "eval")
