"""`python -m invariants`: write the table of invariants into its page of the documentation, and its CSV."""

from pathlib import Path

from invariants.table import CELLS, ROWS, as_csv, markdown

PAGE = Path(__file__).parents[2] / "docs" / "invariants.md"
BEGINS = "## The table\n\n"

head = PAGE.read_text(encoding="utf-8").partition(BEGINS)[0]
PAGE.write_text(head + BEGINS + markdown(), encoding="utf-8")
(PAGE.parent / "_generated" / "invariants.csv").write_text(as_csv(), encoding="utf-8")
print(f"{PAGE.name}: {len(ROWS)} rows, {len(CELLS)} cells that are tests")
