"""The page. Oracle: made-up results, whose cells are written by hand."""

from tiny_truth import tiny_results

from studies.truth.page import BEGIN, EMPTY, END, nets_page, truth_page


def cells(page, section, method):
    """A method's row of the section's table."""
    lines = page.partition(f"## {section}\n")[2].partition("\n## ")[0].splitlines()
    return next(line.strip("| ").split(" | ") for line in lines if line.startswith(f"| {method} |"))


def test_numbers_and_signs():
    told = tiny_results()
    told["candidates"] |= {"edges": "edges", "band": "band"}
    tiny = told["summaries"]["reporting"]["tiny"]
    tiny |= {"edges": tiny["ig"] | {"gain": 0.9}, "band": tiny["ig"]}
    page = nets_page(told)
    # n, mean, worst, no examples to test the lead over controls with, and the difference to IG.
    assert cells(page, "Tiny net", "Descent")[1:6] == ["9", "0.38", "0.25", "–", "+0.000 (0.9)"]
    assert cells(page, "Gates", "Descent") == ["Descent", "0.50"]
    assert cells(page, "Objects", "Descent") == ["Descent", "3.0", "–", "–"]
    table = page.partition("## Tiny net\n")[2].partition("\n## ")[0]
    assert table.index("| Descent |") < table.index("| edges |") and "| band |" not in table  # not a main row


def test_leads_over_controls_and_over_the_second():
    """Oracle: differences by hand. IG is .5 above edges on all nine examples: p = 2 of 2⁹ sign flips, twice (Holm)."""
    told = tiny_results()
    gains = {"ig": 0.75, "descent": 0.5, "edges": 0.25, "random": 0.0}
    told["candidates"] |= {"edges": "edges", "random": "random"}
    told["examples"] = {"tiny": {name: {str(i): gain + i / 100 for i in range(9)} for name, gain in gains.items()}}
    tables, page = nets_page(told), truth_page(told)
    assert cells(tables, "Tiny net", "IG")[4] == "+0.500 (0.008)" and "best control: edges" in tables
    assert cells(page, "The best for each sort of input", "Small pictures")[1:5] == [
        "IG", "0.79", "+0.250 over Descent (0.004)", "9",
    ]  # fmt: skip


def test_only_the_summary_is_kept():
    page = truth_page(tiny_results())
    assert f"{BEGIN}{EMPTY}{END}" in page
    mine = page.replace(EMPTY, "\nMine.\n")
    assert truth_page(tiny_results(), mine + "\nadded below") == mine
    assert truth_page(tiny_results(), "a page without a summary") == page


def test_gated_nets_have_no_table_of_gains():
    told = tiny_results()
    told["nets"]["tiny"]["gate"] = "randomised"
    assert "## Tiny net" not in nets_page(told) and "Tiny net" not in truth_page(told)


def test_the_default_stands_beside_its_rivals_on_each_net():
    told = tiny_results()
    leads = {"ig": {"difference": 0.25, "p": 0.01, "n": 9}, "descent": {"difference": -0.125, "p": 0.2, "n": 4}}
    told["rivals"] = {"leads": {name: {"tiny": lead} for name, lead in leads.items()}, "behind": {"ig": []}}
    page = truth_page(told)
    section = "Photographs: the default beside its rivals"
    assert cells(page, section, "IG") == ["IG", "**+0.25**"]
    assert cells(page, section, "Descent") == ["Descent", "−0.12 (n 4)"] and "none of them anywhere" in page
    told["rivals"]["behind"] = {"descent": ["tiny, black"]}
    told["rivals"]["leads"]["descent"]["tiny"]["p"] = 0.01
    page = truth_page(told)
    assert cells(page, section, "Descent")[1] == "<u>−0.12</u> (n 4)" and "behind Descent (tiny, black)" in page
