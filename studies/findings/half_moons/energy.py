"""The paper's energy: its sign, its β and the learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from leastpath.evaluation.statistics import holm
from leastpath.methods.by_path import LENGTH_MARGIN
from leastpath.solvers import StraightLine, Variational
from studies.findings.config import Setting
from studies.findings.half_moons.rows import (
    ACROSS,
    GREW,
    IG,
    SIZES,
    Rows,
    gap_sizes,
    ratio_of,
    row_record,
    share_grown,
    written_gap,
    written_share,
)
from studies.findings.half_moons.task import NETS, has_pyro, moons_task, variational_solver
from studies.findings.measuring import (
    CLEAR,
    difference,
    direction,
    enumerated,
    evidence,
    known,
    mean,
    middle,
    paired,
    written,
)
from studies.findings.study import Measurement, Record, Study
from studies.markdown import markdown_table
from studies.moons.training import Moons

AWAY, TOWARD, PRINTED = "away", "toward", "as printed"
ENERGIES: dict[str, dict[str, Any] | None] = {
    IG: None, AWAY: {}, TOWARD: {"sign": "toward"}, PRINTED: {"as_printed": True},
}  # fmt: skip


def sign_measurements(
    setting: Setting, points: int | None = None, nets: Sequence[Moons] | None = None
) -> Iterator[Measurement]:
    """Straight lines, and paths of the paper's energy with either sign and as printed.

    Args:
        setting: its store and size.
        points: test points of each net; None: as many as the page shows.
        nets: some of `NETS`; None: those that the page shows.

    Example:
        >>> from leastpath._support.store import Store
        >>> [unit.key for unit in sign_measurements(Setting(Store("results", {})), nets=NETS[:1])][:2]  # doctest: +SKIP
        ['noise=0.05 seed=12 IG', 'noise=0.05 seed=12 away']
    """
    if not has_pyro():
        return
    n = setting.of("sign.points") if points is None else points
    for net in NETS[: setting.of("sign.nets")] if nets is None else nets:
        for row, changed in ENERGIES.items():
            yield Measurement(f"{net.key} {row}", partial(_by_energy, setting, net, n, row, changed))


def _by_energy(setting: Setting, net: Moons, n: int, row: str, changed: Mapping[str, Any] | None) -> Record:
    """A row on one net: `Variational` with some settings changed, or, for None, the straight line."""
    task = moons_task(setting, net, n)
    told = evidence(task.explained(StraightLine() if changed is None else variational_solver(setting, **changed)))
    return row_record(
        row, net, across=task.across.tolist(),
        **{name: told[name] for name in ("change", "cancellation", "length_ratio", "gradients")},
    )  # fmt: skip


def sign_table(records: Mapping[str, Record]) -> str:
    """What `sign_measurements` found, a row for each net and energy, in Markdown.

    Example:
        >>> record = {"row": "IG", "net": "n", "noise": 0.1, "change": [2.0], "cancellation": [0.5], "across": [True]}
        >>> print(sign_table({"n IG": record | {"length_ratio": [1.0], "gradients": [64.0]}}).splitlines()[2])
        | 0.1 | IG | 0.50 | 0.50 | 0.50 | 0% | 1.0 | 64 |
    """
    table, rows = Rows(records), []
    for net in table.nets:
        for row in ENERGIES:
            record, line = (table.found.get(name, {}).get(net) for name in (row, IG))
            if record is None:
                continue
            gaps = record["cancellation"]
            sizes = gap_sizes(gaps, record["across"])
            grew = math.nan if line is None else share_grown(gaps, line["cancellation"])
            spent = written(middle(record["length_ratio"])), written(mean(record["gradients"]))
            rows.append([f"{record['noise']:g}", row, *sizes, written_share(grew), *spent])
    heads = ["noise", "path", *SIZES, "grew", "length ratio", "gradients"]
    return markdown_table(heads, rows)


def _sign_section(records: Mapping[str, Record]) -> str:
    table = Rows(records)
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
            grown = written_share(share_grown(ours, line))
            words.append(
                f"{reading}, the path's cancellation {verdict}: {written_gap(mean(ours))} on average where IG has "
                f"{written_gap(mean(line))}, {difference(ours, line)}; it grew on {grown} of the points."
            )
    return (
        f"{' '.join(words)}\n\n`Variational` on {table.described()}. *As printed* has the minus sign and a temperature "
        f"of one in the units of the inputs. {ACROSS}; *grew* is the share of points whose cancellation is more than "
        f"{GREW:g} above IG's; differences are paired over points.\n\n{sign_table(records)}"
    )


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


def _energy_measurements(setting: Setting) -> Iterator[Measurement]:
    if not has_pyro():
        return
    for net in ENERGY_NETS[: setting.of("energy.nets")]:
        for row, changed in TRIED.items():
            work = partial(_by_energy, setting, net, setting.of("energy.points"), row, changed)
            yield Measurement(f"{net.key} {row}", work)


def _energy_section(records: Mapping[str, Record]) -> str:
    table = Rows(records)
    rows = []
    for row in TRIED:
        if row not in table:
            continue
        ours, line = table.pair(row, IG, "cancellation")
        ratios = table.pooled(row, "length_ratio")
        relative = ratio_of(mean(ours), mean(line)), ratio_of(middle(ours), middle(line))
        sizes = [written_gap(mean(table.pooled(row, "cancellation"))), *(written(round(x, 3)) for x in relative)]
        spent = written(mean(table.pooled(row, "gradients")))
        rows.append([row, *sizes, written(middle(ratios)), written_share(_longer(ratios)), spent])
    heads = ["", "cancellation, mean", "mean / IG's", "median / IG's", "length ratio", "longer", "gradients"]
    return (
        f"{_energy_words(table)}\n\n`Variational`, one setting changed at a time, on {table.described()}. β is in "
        "units of the paper's rule, the mean ‖∇f‖ along the straight line; the learning rate is Adam's, in units of "
        "the root-mean-square difference between the two ends. *Longer* is the share of paths longer than the "
        f"straight line by more than {LENGTH_MARGIN:.0%}.\n\n{markdown_table(heads, rows)}"
    )


def _longer(ratios: Sequence[float | None]) -> float:
    return mean([float(x > 1 + LENGTH_MARGIN) for x in known(ratios)])


def _energy_words(table: Rows) -> str:
    told = []
    families = (("β from {:g} to {:g} times the paper's rule", BETAS), ("a learning rate from {:g} to {:g}", RATES))
    for what, others in families:
        pairs = [table.pair(row, IG, "cancellation") for row in (DEFAULT, *others) if row in table]
        shares = [ratio_of(mean(ours), mean(line)) for ours, line in pairs if ours]
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
        least, most = written_share(min(longer)), written_share(max(longer))
        words.append(f"By setting, {least} to {most} of the paths are longer than the line.")
    return " ".join(words)


def _which(rows: Sequence[str]) -> str:
    return enumerated(rows) if rows else "none"


SIGN = Study("sign", "The sign of the energy", sign_measurements, _sign_section)
ENERGY = Study("energy", "β and the learning rate", _energy_measurements, _energy_section)
