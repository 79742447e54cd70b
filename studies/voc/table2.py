"""The paper's Table 2 beside ours, in numbers, in words and in Markdown; costs and settings of the methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leastpath.evaluation.comparison import Comparison
from leastpath.evaluation.statistics import bootstrap_interval, holm, paired_test
from leastpath.methods import METHODS
from studies.expected import expected_numbers
from studies.markdown import markdown_table
from studies.voc.config import LINE, VocConfig, contenders
from studies.voc.explaining import MEASURES
from studies.voc.methods import IDGI_SAMPLED

if TYPE_CHECKING:
    import pandas as pd

PAPER: Mapping[str, Mapping[str, float]] = expected_numbers("voc")["paper"]["table"]
"""Its Table 2: method -> comprehensiveness, log_prob_ratio and, but for random numbers, seconds."""
RIVAL, CONTROL = "idgi", IDGI_SAMPLED
OTHERS = (LINE, RIVAL, CONTROL)  # what methods are tested against
FILLS = ("grey", "black")
CLEAR = 0.05  # after Holm's correction
GLANCE = (
    "**× IG at a glance.** + and −: clearly better or worse than IG; ⊕ and ⊖: than IDGI, too. Clear is p < 0.05 in a "
    "paired test, after Holm's correction over all rows and columns of this table"
)
TITLES = {"comprehensiveness": "AUC comprehensiveness", "log_prob_ratio": "AOC log-odds"}


def table2(found: Comparison, methods: Sequence[str]) -> pd.DataFrame:
    """One row a method, measure and fill: mean, interval, ratio to IG, the paper's ratio, paired tests.

    Holm's correction is over all methods, measures and fills that are shown, against one rival.
    """
    import pandas as pd

    values = found.per_example.pivot_table(index="name", columns="method", values=_columns(found), sort=False)
    rows = []
    for fill in FILLS:
        for measure in MEASURES:
            each = values[f"{measure} {fill}"]
            rows += [_row(each, method, measure, fill) for method in methods if method in each]
    table = pd.DataFrame(rows)
    for other in OTHERS:
        tested = table["measure"].isin(TITLES) & table[f"p_{other}"].notna()
        table[f"holm_{other}"] = np.nan
        if tested.any():
            table.loc[tested, f"holm_{other}"] = holm(table.loc[tested, f"p_{other}"].to_numpy())
    return table


def _columns(found: Comparison) -> list[str]:
    return list(found.higher_is_better)


def _row(each: pd.DataFrame, method: str, measure: str, fill: str) -> dict[str, Any]:
    numbers = each[method].dropna()
    interval = bootstrap_interval(numbers.to_numpy())
    row: dict[str, Any] = {
        "fill": fill, "measure": measure, "method": method, "n": len(numbers), "mean": interval.mean,
        "low": interval.low, "high": interval.high, "ratio": np.nan, "paper_ratio": np.nan,
    }  # fmt: skip
    if LINE in each:
        both = each[[method, LINE]].dropna() if method != LINE else each[[LINE]].dropna()
        row["ratio"] = float(both[method].mean() / both[LINE].mean()) if len(both) else np.nan
    if method in PAPER and measure in TITLES:
        row["paper_ratio"] = PAPER[method][measure] / PAPER[LINE][measure]
    for other in OTHERS:
        row |= {f"difference_{other}": np.nan, f"p_{other}": np.nan}
        if other in each and other != method:
            both = each[[method, other]].dropna()
            if len(both) > 1:
                test = paired_test(both[method].to_numpy(), both[other].to_numpy())
                row |= {f"difference_{other}": test.difference, f"p_{other}": test.p_value}
    return row


def readable(rows: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """One row a method, in words."""
    import pandas as pd

    table = {
        titles[row["method"]]: {
            "images": row["n"],
            "area": f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]",
            "× IG": _short(row["ratio"], ".2f"),
            "paper's × IG": _short(row["paper_ratio"], ".2f"),
            "p against IG (Holm)": _tested(row, LINE),
            "p against IDGI (Holm)": _tested(row, RIVAL),
        }
        for row in rows.to_dict("records")
    }
    return pd.DataFrame.from_dict(table, orient="index")


def _tested(row: Mapping[str, Any], other: str) -> str:
    if np.isnan(row[f"p_{other}"]):
        return "–"
    return f"{row[f'p_{other}']:.2g} ({row[f'holm_{other}']:.2g})"


def at_a_glance(table: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """A row a method, a column a measure and fill: × IG; + or − if clear of IG, ⊕ or ⊖ if also clear of IDGI."""
    import pandas as pd

    found: dict[str, dict[str, str]] = {}
    for row in table[table["measure"].isin(TITLES)].to_dict("records"):
        mark = _clear(row, LINE)
        mark = {"+": " ⊕", "−": " ⊖", "": ""}[mark] if mark == _clear(row, RIVAL) else f" {mark}".rstrip()
        cells = found.setdefault(titles[row["method"]], {"images": str(row["n"])})
        cells[f"{TITLES[row['measure']]}, {row['fill']}"] = _short(row["ratio"], ".2f") + mark
    return pd.DataFrame.from_dict(found, orient="index")


def _clear(row: Mapping[str, Any], other: str) -> str:
    """The sign of a difference that is clear after Holm's correction."""
    if not row[f"holm_{other}"] < CLEAR:
        return ""
    return "+" if row[f"difference_{other}"] > 0 else "−"


def _short(value: float, spec: str) -> str:
    return "–" if np.isnan(value) else format(value, spec)


def verdicts(table: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    """Our methods minus IG, IDGI and the control without geodesics: a row each, a column a measure and fill."""
    import pandas as pd

    found: dict[str, dict[str, str]] = {}
    for row in table.to_dict("records"):
        ours = row["method"].startswith("geodesic") or row["method"] == CONTROL
        if not ours or row["measure"] not in TITLES:
            continue
        for other in OTHERS:
            if not np.isnan(row[f"p_{other}"]):
                cells = found.setdefault(f"{titles[row['method']]} − {titles[other]}", {})
                star = " *" if row[f"p_{other}"] < 0.05 else ""
                text = f"{row[f'difference_{other}']:+.3f} (p = {row[f'p_{other}']:.2g}){star}"
                cells[f"{TITLES[row['measure']]}, {row['fill']}"] = text
    return pd.DataFrame.from_dict(found, orient="index")


def markdown(table: pd.DataFrame, titles: Mapping[str, str], lead: str, more: Mapping[str, pd.DataFrame]) -> str:
    """A glance, the four tables, the verdicts and more tables as a page that documentation can include."""
    parts = [lead, GLANCE, _piped(at_a_glance(table, titles))]
    for measure, title in TITLES.items():
        for fill in FILLS:
            rows = table[(table["fill"] == fill) & (table["measure"] == measure)]
            parts += [f"**{title}, masked values become {fill}**", _piped(readable(rows, titles))]
    parts += [
        "**Differences on the same images, with the p-value of a paired test; \\* below 0.05**",
        _piped(verdicts(table, titles)),
    ]
    for title, frame in more.items():
        parts += [title.replace("|", "\\|"), _piped(frame)]
    return "\n\n".join(parts) + "\n"


def _piped(frame: pd.DataFrame) -> str:
    known = frame.astype(object).where(frame.notna(), "–")
    rows = ([index, *row] for index, row in zip(known.index, known.to_numpy(), strict=True))
    return markdown_table(["", *map(str, frame.columns)], rows).rstrip()


def costs(found: Comparison, methods: Sequence[str], titles: Mapping[str, str]) -> pd.DataFrame:
    """Gradients, forwards and seconds per image, on average, beside the paper's seconds."""
    import pandas as pd

    means = found.per_example.groupby("method", sort=False)[["gradients", "forwards", "seconds"]].mean()
    rows = {
        titles[name]: {
            **means.loc[name].to_dict(), "paper's seconds (L4)": PAPER.get(name, {}).get("seconds"),
        }
        for name in methods
    }  # fmt: skip
    return pd.DataFrame.from_dict(rows, orient="index")


def settings_table(config: VocConfig) -> list[dict[str, str]]:
    rows = []
    for name, method in contenders(config).items():
        usual = METHODS[name].defaults
        changed = {k: v for k, v in method.defaults.items() if repr(v) != repr(usual[k])}
        rows.append(
            {"method": method.title, "settings": ", ".join(f"{k}={v}" for k, v in changed.items()) or "defaults"}
        )
    return rows
