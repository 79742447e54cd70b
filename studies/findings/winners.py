"""Who wins where: what `python -m studies.truth` found, net by net and method by method."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.findings.config import Setting
from studies.findings.measuring import mean, written
from studies.findings.study import Measurement, Record, Study
from studies.findings.tables import needed
from studies.markdown import markdown_table

IG, IDGI, RANDOM = "ig", "idgi", "random"
PHOTOGRAPHS = ("imagenet-efficientnet", "imagenet-mobilenet", "cifar", "voc")
DIGITS = ("digits-mlp", "digits-cnn")  # where all methods were run
MARK = "mark among the first"
KEY = (
    "The gain of removal (0 is chance) of the method that has most of it; methods that were run on fewer examples are "
    "left out. p-values are of paired tests on the same examples, corrected by Holm over all cells of a method. Below "
    "the table, who is clear of IG, and on photographs of IDGI, which is the rival to beat there: p < 0.05."
)
COSTS_KEY = (
    "What each method costs and gains. *Gradients* are those of an ImageNet photograph, and a forward counts a third. "
    "*Clear* counts the nets on which the gain is clearly above (+) and clearly below (−) that of IG, and of IDGI. "
    "*Mark* is how often a planted mark is among the first three patches; *digits* the mean of MLP and ReLU CNN. A "
    "number behind a gain says that it is of so many of the examples only: compare it by the tests, which are paired."
)
PICTURE = "![Gain of the best method, of IDGI and of IG, net by net](_generated/finding_who_wins_where.png)"
SHORT_KEY = (
    "Gains of removal, as in [When is an explanation true?](truth.md), on examples that no setting was chosen on. The "
    "best of many methods is a little flattered by being the best. With p-values: "
    "[winners.csv](_generated/findings/winners.csv); every method with its cost: "
    "[winners-2.csv](_generated/findings/winners-2.csv)."
)
TAIL = "From `python -m studies.truth`; each fill, and all rows: [When is an explanation true?](../../truth.md)."


def measured_by(folder: Path) -> Iterator[Measurement]:
    """What is read of the folder of a finished study of truth."""
    file = needed(folder / "truth.json", "python -m studies.truth")
    yield Measurement("truth", lambda: brief(json.loads(file.read_text(encoding="utf-8"))), reads=True)


def _measurements(setting: Setting) -> Iterator[Measurement]:
    if setting.truth is not None:
        yield from measured_by(setting.truth)


def brief(told: Mapping[str, Any]) -> Record:
    """Of all that the study of truth tells, what the section needs: gains of the reporting half, and their tests."""
    tests = {
        (test["net"], test["method"], test["rival"]): {"difference": test["difference"], "p": test["p"]}
        for test in told["tests"]
        if test["half"] == "reporting" and test["measure"] == "gain"
    }
    nets: dict[str, Record] = {}
    for net, found in told["summaries"]["reporting"].items():
        if told["nets"][net]["gate"] in ("control", "randomised") or IG not in found:
            continue
        methods = {}
        for name, of in found.items():
            against = {rival: tests[net, name, rival] for rival in (IG, IDGI) if (net, name, rival) in tests}
            methods[name] = {"n": of["n"], "gain": of["gain"], "gradients": of.get("gradients"), **against}
        nets[net] = {"title": told["nets"][net]["title"], "methods": methods}
    marks = {name: of[MARK] for name, of in told["gates"]["reporting"].items() if MARK in of}
    titles = {name: told["candidates"][name] for net in nets.values() for name in net["methods"]}
    return {"nets": nets, "marks": marks, "titles": titles}


def _section(records: Mapping[str, Record]) -> str:
    record = records["truth"]
    nets = {name: net for name, net in record["nets"].items() if IG in net["methods"]}
    heads = ["net", "n", "most gain", "gain", "IG", "IDGI", "− IG (p)", "− IDGI (p)"]
    rows = [_net_row(of, record["titles"]) for of in nets.values()]
    sides = "\n".join(
        _sides(of, record["titles"], (IG, IDGI) if net in PHOTOGRAPHS else (IG,)) for net, of in nets.items()
    )
    table = markdown_table(heads, rows).rstrip()
    return "\n\n".join([_lead(nets, record["titles"]), KEY, table, sides, COSTS_KEY, _costs(record), TAIL])


def short_section(records: Mapping[str, Record]) -> str:
    """The picture, and net by net the method with most gain, beside the two to beat."""
    record = records["truth"]
    nets = {name: net for name, net in record["nets"].items() if IG in net["methods"]}
    heads = ["net", "most gain", "gain", "IDGI", "IG", "clearly ahead of", "examples"]
    table = markdown_table(heads, [_short_row(of, record["titles"]) for of in nets.values()]).rstrip()
    return "\n\n".join([PICTURE, table, SHORT_KEY])


def contenders(methods: Mapping[str, Record]) -> dict[str, Record]:
    """Those that were run on as many examples as IG.

    Example:
        >>> list(contenders({"ig": {"n": 40}, "shapley": {"n": 20}, "random": {"n": 40}, "idgi": {"n": 40}}))
        ['ig', 'idgi']
    """
    return {name: of for name, of in methods.items() if name != RANDOM and of["n"] >= methods[IG]["n"]}


def _best(methods: Mapping[str, Record]) -> str:
    return max(contenders(methods), key=lambda name: methods[name]["gain"])


def _short_row(of: Record, titles: Mapping[str, str]) -> list[object]:
    methods = of["methods"]
    best = _best(methods)
    gains = [written(methods[name]["gain"]) if name in methods else "–" for name in (best, IDGI, IG)]
    return [of["title"], titles[best], *gains, _beaten(methods, best, titles), methods[best]["n"]]


def _beaten(methods: Mapping[str, Record], best: str, titles: Mapping[str, str]) -> str:
    """The rivals that the best is clearly ahead of, and those that it was not tested against."""
    rivals = [rival for rival in (IDGI, IG) if rival in methods and rival != best]
    tested = [rival for rival in rivals if rival in methods[best]]
    ahead = [titles[rival] for rival in tested if verdict(methods[best], rival) == 1]
    open_ = [titles[rival] for rival in rivals if rival not in tested]
    told = [" and ".join(ahead) or "none"] if tested else []
    return "; ".join(told + ([f"{' and '.join(open_)} not tested"] if open_ else []))


def _net_row(of: Record, titles: Mapping[str, str]) -> list[object]:
    methods = of["methods"]
    best = _best(methods)
    row = methods[best]
    references = [written(methods[name]["gain"]) if name in methods else "–" for name in (IG, IDGI)]
    tested = [_tested(row.get(rival)) for rival in (IG, IDGI)]
    return [of["title"], row["n"], titles[best], written(row["gain"]), *references, *tested]


def _tested(test: Record | None) -> str:
    if test is None:
        return "–"
    sign = "+" if test["difference"] >= 0 else "−"
    return f"{sign}{abs(test['difference']):.2f} ({written(test['p'], 1)})"


def verdict(of: Record, rival: str) -> int:
    """1 if clearly above the rival, −1 if clearly below, else 0.

    Example:
        >>> verdict({"ig": {"difference": -0.2, "p": 0.01}}, "ig")
        -1
    """
    test = of.get(rival)
    if test is None or test["p"] >= 0.05:
        return 0
    return 1 if test["difference"] > 0 else -1


def _lead(nets: Mapping[str, Record], titles: Mapping[str, str]) -> str:
    winners = Counter(_best(of["methods"]) for of in nets.values())
    told = "; ".join(f"{titles[name]} on {count}" for name, count in winners.most_common())
    return f"Of {len(nets)} nets, most is gained by: {told}."


def _sides(of: Record, titles: Mapping[str, str], rivals: Sequence[str]) -> str:
    """Who is clearly ahead of the rivals on a net, and who behind."""
    methods = contenders(of["methods"])
    told = [
        f"clearly {word} {titles[rival]}: {'; '.join(names) or 'none'}."
        for rival in rivals
        for side, word in ((1, "ahead of"), (-1, "behind"))
        for names in [[titles[name] for name, row in methods.items() if verdict(row, rival) == side]]
    ]
    return f"- **{of['title']}** ({of['methods'][IG]['n']} examples). {' '.join(map(_sentence, told))}"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def _costs(record: Record) -> str:
    nets, titles = record["nets"], record["titles"]
    shown = [net for net in PHOTOGRAPHS if net in nets]
    names = [name for name in titles if any(name in nets[net]["methods"] for net in shown) and name != RANDOM]
    heads = ["method", "gradients", *(nets[net]["title"] for net in shown), "digits", "mark", "clear of IG",
             "clear of IDGI"]  # fmt: skip
    rows = []
    for name in names:
        of = {net: found["methods"][name] for net, found in nets.items() if name in found["methods"]}
        all_of = {net: row["n"] >= nets[net]["methods"][IG]["n"] for net, row in of.items()}
        cost = [of[net]["gradients"] for net in shown[:2] if net in of and of[net]["gradients"] is not None]
        digits = [of[net]["gain"] for net in DIGITS if all_of.get(net)]
        rows.append([
            titles[name], written(mean(cost), 3) if cost else "–",
            *(_gain(of[net], all_of[net]) if net in of else "–" for net in shown),
            written(mean(digits)) if digits else "–",
            f"{record['marks'][name]:.0%}" if name in record["marks"] else "–",
            *(_clear(list(of.values()), rival) if name != rival else "–" for rival in (IG, IDGI)),
        ])  # fmt: skip
    return markdown_table(heads, rows).rstrip()


def _gain(row: Record, of_all: bool) -> str:
    """With the number of examples where it is not that of IG: such gains are not compared with others as they stand."""
    return written(row["gain"]) + ("" if of_all else f" ({row['n']})").replace(" ", "\u00a0")


def _clear(rows: Sequence[Record], rival: str) -> str:
    sides = [verdict(row, rival) for row in rows if rival in row]
    return f"+{sides.count(1)} −{sides.count(-1)} of {len(sides)}".replace(" ", "\u00a0")  # on one line


WINNERS = Study("winners", "Who wins where", _measurements, _section)
