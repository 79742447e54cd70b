"""The table: rows × columns, each cell a test or a reason why there is none.

A row that joins (a method by `register` or in `BUILT_IN`, a solver in `ALL_SOLVERS`, a head, a door) gets every column
unless a reason is written here.
"""

from __future__ import annotations

from invariants.columns import COLUMNS
from invariants.rows import Row, rows

DRAWS = "draws numbers for features in turn: another numbering is another draw"
WORDS = "the places of words have a meaning"
OWN_PARTS = "the network, decoder or path that it is given numbers features itself"
ONE_BY_ONE = "explains one example a call"

# column -> row -> why the cell has no test. A row is named by its name, or by its kind and its name.
REASONS: dict[str, dict[str, str]] = {
    "batch = loop": {
        "verdict": "other rows of a table stand in for what is removed: the docstring says so",
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


def markdown() -> str:
    """The table as the documentation prints it: ✓ is a test, a number the reason below the table."""
    reasons: dict[str, int] = {}
    lines = [f"| | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    for row in ROWS:
        marks = []
        for column in COLUMNS:
            reason = reason_of(row, column)
            marks.append("✓" if reason is None else str(reasons.setdefault(reason, len(reasons) + 1)))
        lines.append(f"| {row.kind} `{row.name}` | {' | '.join(marks)} |")
    notes = [f"{number}. {reason[0].upper()}{reason[1:]}." for reason, number in reasons.items()]
    return "\n".join([*lines, "", *notes]) + "\n"
