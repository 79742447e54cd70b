"""The page that tells what the study found. Every number comes from the results; the summary is written by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from studies.findings.measuring import written
from studies.markdown import markdown_table
from studies.truth.candidates import CANDIDATES, CONTROLS, IDGI, IG
from studies.truth.choice import CLEAR
from studies.truth.leads import SORTS, Lead, best_of, lead_over_controls

BEGIN, END = "<!-- summary: written by hand, kept when the page is written anew -->", "<!-- end of the summary -->"
EMPTY = "\nThe summary is not written yet.\n"
HEAD = """# When is an explanation true?

{begin}{summary}{end}

How this was measured: `python -m studies.truth --data <folder>`. The *gain* is the symmetric relevance gain: the
mean, over shares of the features, of the score after removing the least important ones minus that after removing the
most important ones, in probability for classes; 0 for a random order. What is removed is filled in several ways.
Settings were chosen on the development half of the examples; the tables are of the reporting half, which also has
nets that no setting was chosen on. "Clearly" means p < 0.05 in a paired test, corrected by Holm over all cells of a
method. The [tables of each net](_generated/truth_nets.md) have costs, worst fills, tests, gates, objects and
controls; every method is in the [data](_generated/truth.json), every example in [rows](_generated/truth.csv).
"""
TABLES = """# Truth, net by net

The tables of [When is an explanation true?](../truth.md), which says how to read them.
"""


def truth_page(told: Mapping[str, Any], kept: str = "") -> str:
    """The page as Markdown.

    Args:
        told: the results, as `command.told_by` makes them.
        kept: the page as it is now, whose summary is kept.
    """
    inside = kept.partition(BEGIN)[2].partition(END)[0] if BEGIN in kept and END in kept else EMPTY
    head = HEAD.format(begin=BEGIN, summary=inside, end=END)
    sections = (_pictures(told), _best(told), _choices(told), _rivals(told))
    return "\n".join([head, *(section for section in sections if section)])


def nets_page(told: Mapping[str, Any]) -> str:
    """The tables of each net, the gates and the objects, as Markdown."""
    sections = (*(_net(told, net) for net in told["nets"]), _gates(told), _objects(told))
    return "\n".join([TABLES, *(section for section in sections if section)])


def _rivals(told: Mapping[str, Any]) -> str:
    """One table: how far the default of photographs is ahead of each rival, net by net."""
    rivals = told.get("rivals", {})
    if not rivals:
        return ""
    leads = rivals["leads"]
    nets = [net for net in told["nets"] if any(net in of for of in leads.values())]
    shown = [rival for rival in leads if rival not in CONTROLS or rival == "edges"]
    nearest = sorted(shown, key=lambda rival: min(of["difference"] for of in leads[rival].values()))
    n = {net: max(of[net]["n"] for of in leads.values() if net in of) for net in nets}
    rows = [
        [told["candidates"][rival], *(_lead_on(leads[rival].get(net), n[net]) for net in nets)] for rival in nearest
    ]
    heads = ["lead over", *(f"{told['nets'][net]['title'].split(', which')[0]} (n {n[net]})" for net in nets)]
    behind = [f"{told['candidates'][rival]} ({'; '.join(where)})" for rival, where in rivals["behind"].items() if where]
    text = (
        "Windows in context, mean over the fills, on the reporting half. Bold: clearly ahead, underlined: clearly "
        "behind, by a paired test that Holm corrects over the whole table; a smaller n of a rival is beside its lead. "
        f"In single fills it is clearly behind {', '.join(behind) if behind else 'none of them anywhere'}."
    )
    return f"## Photographs: the default beside its rivals\n\n{text}\n\n{markdown_table(heads, rows)}"


def _lead_on(lead: Mapping[str, Any] | None, n: int) -> str:
    if lead is None:
        return "–"
    text = f"{lead['difference']:+.2f}".replace("-", "−")
    if lead["p"] < CLEAR:
        text = f"**{text}**" if lead["difference"] > 0 else f"<u>{text}</u>"
    return text if lead["n"] == n else f"{text} (n {lead['n']})"


def _choices(told: Mapping[str, Any]) -> str:
    rows = []
    for kind, choice in told["choices"].items():
        name = told["candidates"].get(choice["name"], choice["name"])
        rows.append([SORTS.get(kind, kind), name, choice["reason"]])
    if not rows:
        return ""
    return "## What the rule chooses\n\n" + markdown_table(["input", "default", "why"], rows)


def _pictures(told: Mapping[str, Any]) -> str:
    lines = ["## In one picture\n", "![Gains, net by net](_generated/truth_heat.png)\n"]
    if any(told["gates"].values()):
        lines.append("![The planted mark](_generated/truth_marks.png)\n")
    return "\n".join(lines)


def _best(told: Mapping[str, Any]) -> str:
    """For each sort of input the best method, its lead over the second, and its cost."""
    rows = []
    for sort, title in SORTS.items():
        best = best_of(told, sort)
        if best is not None:
            second = best.leads[0]
            costs = [told["summaries"]["reporting"][net][best.name].get("gradients") for net in best.nets]
            lead = f"{_signed(second.difference)} over {told['candidates'][second.over]} ({written(second.p, 1)})"
            cost = max((cost for cost in costs if cost is not None), default=None)
            rows.append([title, told["candidates"][best.name], _number(best.gain), lead, second.n, _number(cost)])
    if not rows:
        return ""
    heads = ["input", "best", "gain", "lead over the second (p)", "n", "gradients"]
    text = "Of the methods that were measured on all nets of a sort. Holm's correction is over all of the others."
    return f"## The best for each sort of input\n\n{text}\n\n{markdown_table(heads, rows)}"


def _net(told: Mapping[str, Any], net: str) -> str:
    """One table: the main rows, the best first, and the controls at the bottom."""
    about = told["nets"][net]
    half = "reporting" if net in told["summaries"]["reporting"] else "development"
    found = {name: of for name, of in told["summaries"][half].get(net, {}).items() if _is_main(name)}
    if not found or about["gate"] in ("control", "randomised"):
        return ""
    leads = lead_over_controls(told.get("examples", {}).get(net, {}))
    order = sorted(found, key=lambda name: (name in CONTROLS, -found[name].get("gain", -math.inf)))
    rows = [
        [
            told["candidates"][name], of["n"], _number(of.get("gain")), _number(of["worst"]), _lead(leads.get(name)),
            _difference(told, half, net, name, IG, "gain"), _number(of.get("gradients")), _number(of.get("seconds")),
        ]
        for name in order if (of := found[name])
    ]  # fmt: skip
    heads = ["", "n", "gain", "worst fill", "− best control (p)", "− IG (p)", "gradients", "seconds"]
    quality = ", ".join(f"{name} {written(value, 3)}" for name, value in about["quality"].items())
    control = next((told["candidates"][lead.over] for lead in leads.values()), "")
    note = "; ".join(part for part in (f"{half} half", quality, control and f"best control: {control}") if part)
    return f"## {about['title']}\n\nThe {note}.\n\n{markdown_table(heads, rows)}"


def _is_main(name: str) -> bool:
    return name in CANDIDATES and CANDIDATES[name].main


def _lead(lead: Lead | None) -> str:
    return "–" if lead is None else f"{_signed(lead.difference)} ({written(lead.p, 1)})"


def _signed(difference: float) -> str:
    return f"{'+' if difference >= 0 else '−'}{abs(difference):.3f}"


def _difference(told: Mapping[str, Any], half: str, net: str, method: str, rival: str, measure: str) -> str:
    test = _test(told, half, net, method, rival, measure)
    return "–" if test is None else f"{_signed(test['difference'])} ({written(test['p'], 1)})"


def _test(told: Mapping[str, Any], half: str, net: str, method: str, rival: str, measure: str) -> Any:
    wanted = (half, net, method, rival, measure)
    for test in told["tests"]:
        if (test["half"], test["net"], test["method"], test["rival"], test["measure"]) == wanted:
            return test
    return None


def _gates(told: Mapping[str, Any]) -> str:
    half = "reporting" if told["gates"]["reporting"] else "development"
    found = told["gates"][half]
    if not found:
        return ""
    names = list(dict.fromkeys(name for of in found.values() for name in of))
    rows = [[told["candidates"][method], *(_number(of.get(name)) for name in names)] for method, of in found.items()
            if _is_main(method)]  # fmt: skip
    return (
        "## Gates\n\nA planted mark must be found, and random weights must change the explanation: no number may be "
        f"more than 5 points below IG's. The {half} half.\n\n{markdown_table(['', *names], rows)}"
    )


def _objects(told: Mapping[str, Any]) -> str:
    half = "reporting" if told["summaries"]["reporting"] else "development"
    parts = []
    for net, found in told["summaries"][half].items():
        rows = [
            [told["candidates"][method], _number(of["objects"]),
             *(_difference(told, half, net, method, rival, "objects") for rival in (IG, IDGI))]
            for method, of in found.items() if "objects" in of and _is_main(method)
        ]  # fmt: skip
        if rows:
            title = told["nets"][net]["title"]
            parts.append(f"{title}:\n\n{markdown_table(['', 'on the object', '− IG (p)', '− IDGI (p)'], rows)}")
    if not parts:
        return ""
    text = (
        "The share of Σ|A| on the published mask of the explained class, over the mask's share of the area. It depends "
        "on no fill."
    )
    return f"## Objects\n\n{text}\n\n" + "\n".join(parts)


def _number(value: float | None) -> str:
    return "–" if value is None or not math.isfinite(value) else written(value, 2 if abs(value) < 100 else 3)
