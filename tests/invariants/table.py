"""The table: rows × columns, each cell a test or a reason why there is none.

A row that joins (a method by `register` or in `BUILT_IN`, a solver in `ALL_SOLVERS`, a head, a door) gets every column
unless a reason is written here.
"""

from __future__ import annotations

import csv
import io

from invariants.columns import COLUMNS
from invariants.rows import Row, rows

DRAWS = "draws numbers for features in turn: another numbering is another draw"
WORDS = "the places of words have a meaning"
OWN_PARTS = "the network, decoder or path that it is given numbers features itself"
ONE_BY_ONE = "explains one example a call"

# column -> row -> why the cell has no test. A row is named by its name, or by its kind and its name.
REASONS: dict[str, dict[str, str]] = {
    "batch = loop": {
        "evaluation.compare": "its test is the verdict's",
        "language.explain": ONE_BY_ONE,
        "explore": ONE_BY_ONE,
    },
    "any batch_size": {"evaluation.compare": "it is the score's, and every method's cell tests it"},
    "numbering": {
        **dict.fromkeys(
            (
                "random", "untrained", "smooth_grad", "smooth_grad_squared", "var_grad", "smooth_integrated_gradients",
                "windows_in_context", "rise", "kernel_shap", "permutation_shap", "staircase", "lime",
                "geodesic_variational", "variational", "hamiltonian",
            ),
            DRAWS,
        ),
        **dict.fromkeys(("warm descent", "amortized", "manifold"), OWN_PARTS),
        "language.explain": WORDS,
    },
}  # fmt: skip


def reason_of(row: Row, column: str) -> str | None:
    """Why a cell has no test; None where it has one."""
    if column == "complete" and not row.complete:
        return "claims no completeness"
    if column == "unit" and not row.unitless:
        return "claims nothing about units: `Method.unitless` is not set, or no method claims it for this row"
    if row.kind == "head" and column == "numbering":
        return WORDS
    reasons = REASONS.get(column, {})
    return reasons.get(str(row), reasons.get(row.name))


ROWS = rows()
CELLS = [(row, column) for row in ROWS for column in COLUMNS if reason_of(row, column) is None]


MANY = 20  # names that the page counts; the CSV has them


def cells_without_test() -> dict[tuple[str, str], list[Row]]:
    """Rows by column and reason."""
    without: dict[tuple[str, str], list[Row]] = {}
    for row in ROWS:
        for column in COLUMNS:
            reason = reason_of(row, column)
            if reason is not None:
                without.setdefault((column, reason), []).append(row)
    return without


def markdown() -> str:
    """The table as the documentation prints it: which cells have no test, and why. All others are tests."""
    lines = ["| column | has no test for | because |", "|---|---|---|"]
    for (column, reason), found in cells_without_test().items():
        kinds = dict.fromkeys(row.kind for row in found)
        if len(found) > MANY:
            names = _count(found)
        else:
            names = "; ".join(f"{kind} {', '.join(f'`{r.name}`' for r in found if r.kind == kind)}" for kind in kinds)
        lines.append(f"| {column} | {names} | {reason} |")
    return "\n".join([f"{len(ROWS)} rows ({_count(ROWS)}), {len(CELLS)} cells that are tests.", "", *lines]) + "\n"


def _count(found: list[Row]) -> str:
    kinds = [row.kind for row in found]
    return "; ".join(f"{kinds.count(kind)} {kind}s" for kind in dict.fromkeys(kinds))


def as_csv() -> str:
    """Every cell without a test."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["column", "kind", "row", "because"])
    for (column, reason), found in cells_without_test().items():
        writer.writerows([column, row.kind, row.name, reason] for row in found)
    return text.getvalue()
