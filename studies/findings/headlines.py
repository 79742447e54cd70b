"""One number of each study: enough to see whether a run found what was found before. expected.toml has those."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from studies.expected import expected_numbers
from studies.findings.half_moons.energy import AWAY, DEFAULT
from studies.findings.half_moons.flat import relative_spread
from studies.findings.half_moons.rows import IG, Rows
from studies.findings.measuring import mean, middle, written
from studies.findings.study import Record

Records = Mapping[str, Record]
GRAPH, DESCENT, VARIATIONAL = "geodesic_graph", "geodesic_descent", "geodesic_variational"
NEAR = 0.1  # of the expected number: a run on another machine rounds differently, and solvers amplify it


def _left(row: str, records: Records) -> float:
    """The mean cancellation of a row over that of Integrated Gradients."""
    ours, line = Rows(records).pair(row, IG, "cancellation")
    return mean(ours) / mean(line) if ours else math.nan


def _winners(records: Records) -> float:
    methods = records["truth"]["nets"]["imagenet-efficientnet"]["methods"]
    return float(methods["staircase-two"]["gain"])


def _moons(records: Records) -> float:
    return float(records["summary"]["methods"][GRAPH]["auc_purity"])


def _voc(records: Records) -> float:
    wanted = (VARIATIONAL, "comprehensiveness", "grey")
    rows = records["table 2"]["rows"]
    return mean([float(row["ratio"]) for row in rows if (row["method"], row["measure"], row["fill"]) == wanted])


def _objects(records: Records) -> float:
    gains = [float(row["dark_gain"] or math.nan) for row in _of(DESCENT, records["localisation"]["rows"])]
    return mean([gain for gain in gains if math.isfinite(gain)])


def _paths(records: Records) -> float:
    rows = _of("descent", records["solvers"]["rows"])
    return middle([row["ratio"] for row in rows if (row["size"], row["output"]) == (128, "softmax")])


def _of(method: str, rows: Iterable[Record]) -> list[Record]:
    return [row for row in rows if row["method"] == method]


def _baseline(records: Records) -> float:
    pairs = records[f"digits {DESCENT}"]["methods"][DESCENT]["pairs"]
    return mean([x for pair in pairs.values() for x in pair["rank"]])


def _output(records: Records) -> float:
    return middle(records[f"digits {DESCENT}"]["methods"][DESCENT]["outputs"]["log-softmax"]["length_ratio"])


def _flat(records: Records) -> float:
    found = [record for key, record in records.items() if key.endswith(f" {GRAPH}")]
    return mean([relative_spread(record["A0"], record["change"]) for record in found])


def _shortcut(records: Records) -> float:
    planted = [record for key, record in records.items() if key.startswith("planted, log_softmax")]
    return mean([share for record in planted for share in record["methods"][DESCENT]["share"]])


def _domains(records: Records) -> float:
    return middle(records[f"breast cancer, {DESCENT}"]["length_ratio"])


def _architectures(records: Records) -> float:
    return middle([x for record in records.values() for x in record["methods"][DESCENT]["length_ratio"]])


HEADLINES: Mapping[str, tuple[str, Callable[[Records], float]]] = {
    "winners": ("gain of random staircases from several baselines, ImageNet, EfficientNet-lite0", _winners),
    "moons": ("AUC-purity of Geodesic IG on the graph", _moons),
    "voc": ("comprehensiveness of the variational geodesic over IG's, grey fill", _voc),
    "objects": ("what an object's dark pixels get, over its average pixel, by descent", _objects),
    "paths": ("median length of descent's paths over the line's, 128 pixels, softmax", _paths),
    "sign": ("mean cancellation over IG's, pushed away from steep ground", lambda records: _left(AWAY, records)),
    "energy": ("mean cancellation over IG's, with the default settings", lambda records: _left(DEFAULT, records)),
    "metric": (
        "mean cancellation over IG's, refined graph, Conformal",
        lambda records: _left("graph, Conformal", records),
    ),
    "baseline": ("rank correlation between baselines, digits, by descent", _baseline),
    "output": ("median length ratio, log-softmax, digits, by descent", _output),
    "flat": ("spread of A₀ in the flat region, on the graph", _flat),
    "shortcut": ("share of Σ|A| on the planted mark, log-softmax, by descent", _shortcut),
    "domains": ("median length ratio, breast cancer, by descent", _domains),
    "architectures": ("median length ratio over all nets and outputs, by descent", _architectures),
}
"""By study: what is looked at, and how it is computed from the records of a complete study."""


def found_headlines(found: Mapping[str, Records]) -> dict[str, float]:
    """The number of each study that is complete enough to have one.

    Example:
        >>> found_headlines({"moons": {"summary": {"methods": {"geodesic_graph": {"auc_purity": 0.56}}}}})
        {'moons': 0.56}
    """
    numbers = {}
    for name, (_, compute) in HEADLINES.items():
        try:
            numbers[name] = compute(found[name])
        except KeyError:  # not finished yet
            continue
    return {name: number for name, number in numbers.items() if math.isfinite(number)}


def against_expected(found: Mapping[str, Records]) -> str:
    """A line for each study: what was found, and what was expected.

    Example:
        >>> print(against_expected({"moons": {"summary": {"methods": {"geodesic_graph": {"auc_purity": 0.3}}}}}))
        DIFFERS  moons: AUC-purity of Geodesic IG on the graph is 0.300, expected 0.559
    """
    expected = expected_numbers("findings")["measured"]
    lines = []
    for name, number in found_headlines(found).items():
        near = abs(number - expected[name]) <= NEAR * abs(expected[name])
        verdict = "as expected" if near else "DIFFERS"
        numbers = f"{written(number, 3)}, expected {written(expected[name], 3)}"
        lines.append(f"{verdict}  {name}: {HEADLINES[name][0]} is {numbers}")
    return "\n".join(lines)
