"""Every cell of the table of invariants: methods, solvers, heads and doors × what must hold of each."""

import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

import leastpath as lp
from invariants.columns import COLUMNS
from invariants.rows import DOORS, WITHOUT_ROW
from invariants.table import CELLS, REASONS, ROWS, as_csv, markdown
from leastpath.methods.table import BUILT_IN

SOURCE = Path(lp.__file__).parent
ROOMS = (  # of the walk, which doors use and users do not enter by themselves
    "account", "features", "geometry", "integral", "methods", "report", "result", "score", "solvers",
)  # fmt: skip


@pytest.mark.parametrize(("row", "column"), CELLS, ids=[f"{row}-{column}" for row, column in CELLS])
def test_cell(row, column):
    if find_spec(row.needs) is None:
        pytest.skip(f"needs {row.needs}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Captum, Pyro and bfloat16 say
        COLUMNS[column](row)


def test_every_method_and_every_door_has_a_row():
    names = {row.name for row in ROWS}
    assert {one.name for one in BUILT_IN} <= names  # others may have joined since, from studies and pages
    modules = {path.stem for path in SOURCE.iterdir() if not path.name.startswith("_") and path.suffix in ("", ".py")}
    assert modules - set(ROOMS) == {door.module for door in DOORS.values()} | set(WITHOUT_ROW)


def test_no_reason_outlives_its_row():
    names = {name for row in ROWS for name in (row.name, str(row))}
    assert set(REASONS) <= set(COLUMNS)
    assert [name for of_column in REASONS.values() for name in of_column if name not in names] == []


def test_the_documentation_prints_this_table():
    page = Path(__file__).parents[2] / "docs" / "invariants.md"
    if not page.exists():
        pytest.skip("an installed package has no documentation beside it")
    rows = page.parent / "_generated" / "invariants.csv"
    assert markdown() in page.read_text(encoding="utf-8"), "write it anew: python -m invariants"
    assert as_csv() == rows.read_text(encoding="utf-8"), "write it anew: python -m invariants"
