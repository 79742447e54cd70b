"""The page. Oracle: made-up results, whose cells are written by hand."""

from tiny_truth import tiny_results

from studies.truth.page import BEGIN, EMPTY, END, truth_page


def cells(page, section, method):
    """A method's row of the section's table."""
    lines = page.partition(f"## {section}\n")[2].partition("\n## ")[0].splitlines()
    return next(line.strip("| ").split(" | ") for line in lines if line.startswith(f"| {method} |"))


def test_numbers_and_signs():
    page = truth_page(tiny_results())
    # n, the two fills with the sign of a clear difference, mean, worst, difference to IG, and no test against IDGI.
    assert cells(page, "Tiny net", "Descent")[1:8] == ["9", "0.50 +", "0.25 −", "0.38", "0.25", "+0.000 (0.9)", "–"]
    assert cells(page, "Tiny net", "IG")[2:4] == ["0.25", "0.50"]
    assert cells(page, "Gates", "Descent") == ["Descent", "0.50"]
    assert cells(page, "Objects", "Descent") == ["Descent", "3.0", "–", "–"]


def test_only_the_summary_is_kept():
    page = truth_page(tiny_results())
    assert f"{BEGIN}{EMPTY}{END}" in page
    mine = page.replace(EMPTY, "\nMine.\n")
    assert truth_page(tiny_results(), mine + "\nadded below") == mine
    assert truth_page(tiny_results(), "a page without a summary") == page


def test_gated_nets_have_no_table_of_gains():
    told = tiny_results()
    told["nets"]["tiny"]["gate"] = "randomised"
    assert "## Tiny net" not in truth_page(told)
