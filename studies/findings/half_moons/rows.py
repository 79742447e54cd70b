"""Records of several nets side by side, as rows of a table, and how their numbers are written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from studies.findings.half_moons.task import TOLERANCE
from studies.findings.measuring import enumerated, mean, middle, written
from studies.findings.study import Record
from studies.moons.config import BASELINE
from studies.moons.training import Moons

Numbers = list[float | None]
"""One an example, or one a net."""
GREW = 0.01
IG = "IG"
SIZES = ("cancellation, mean", "median", "median across")
ACROSS = "*Across* are the points on the other side of the border from the baseline"


def row_record(row: str, net: Moons, digits: int = 4, **found: Any) -> Record:
    """A record of one row of a table on one net; lists of numbers are kept to so many significant digits."""
    short = {
        name: [float(f"{x:.{digits}g}") if isinstance(x, float) else x for x in value]
        if isinstance(value, list)
        else value
        for name, value in found.items()
    }
    return {"row": row, "net": net.key, "noise": net.noise, **short}


def share_grown(a: Sequence[float | None], b: Sequence[float | None]) -> float:
    """The share of examples whose number in `a` is more than `GREW` above that in `b`; NaN of no examples."""
    return mean([float(x > y + GREW) for x, y in zip(a, b, strict=True) if x is not None and y is not None])


class Rows:
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


def written_gap(number: float) -> str:
    """A cancellation; what is below a thousandth is the integral's error."""
    return written(round(number, 3))


def gap_sizes(gaps: Sequence[float | None], across: Sequence[bool]) -> list[str]:
    """Cancellations of all points, their mean and median, and the median of those across the border."""
    beyond = [gap for gap, is_across in zip(gaps, across, strict=True) if is_across]
    return [written_gap(x) for x in (mean(gaps), middle(gaps), middle(beyond))]


def ratio_of(a: float, b: float) -> float:
    return a / b if b else math.nan


def written_share(part: float) -> str:
    return f"{part:.0%}" if math.isfinite(part) else "–"
