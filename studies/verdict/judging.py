"""Units of work: maps of some inputs, judged by one referee; and on photographs by more and more removals."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import leastpath as lp
from leastpath._support.store import Store
from leastpath.account.run import Run
from leastpath.commands.verdict import Trial, verdict
from leastpath.removal.verdict import say
from studies.findings.config import Setting
from studies.findings.measuring import listed
from studies.truth.problem import Opened, Problem
from studies.verdict.kinds import KINDS, RANDOM_SEEDS, draw_maps, explained_score, kinds_of
from studies.verdict.tasks import Sort, Task

REMOVALS = (96, 192, 384, 768, 1536)
"""Of the curve of power."""


class Workshop:
    """Opens nets when they are needed, does units of work and keeps them: an interruption loses at most one.

    Args:
        store: of the run.
        data: folder of shared data; None: only nets that need none.
        quick: train little.
    """

    def __init__(self, store: Store, data: Path | None, quick: bool = False) -> None:
        self.store, self._data, self._setting = store, data, Setting(store, quick)
        self._opened: dict[str, Opened] = {}
        self.missing: dict[str, str] = {}

    def open(self, task: Task) -> Opened | None:
        """The net at work; None, after a sentence that says why, where something is missing."""
        if task.name not in self._opened and task.name not in self.missing:
            try:
                self._opened[task.name] = task.open(self._setting, self._data)
            except (ValueError, ImportError) as error:
                self.missing[task.name] = str(error)
                print(f"{task.title} is left out: {error}")
        return self._opened.get(task.name)

    def judge(self, task: Task, rows: Sequence[int]) -> None:
        """The verdicts on all kinds of maps of some inputs."""
        opened = self.open(task)
        if opened is None or rows[-1] >= opened.examples:
            return
        problem = opened.problem(rows)
        maps = draw_maps(problem, task.sort, rows[0])
        if task.sort == "photograph":
            maps = {name: over_patches(values) for name, values in maps.items()}
        record = judge_maps(problem, task.sort, maps)
        about = {"task": task.name, "title": task.title, "sort": task.sort, "rows": list(rows)}
        kept = {"maps": torch.stack(list(maps.values())).float()} if task.sort == "photograph" else {}
        self.store.write(key_of("judged", task, rows), about | record | {"names": list(maps)}, kept)

    def follow(self, task: Task, rows: Sequence[int]) -> None:
        """How the p-values of one photograph's maps fall with the number of removals."""
        opened, judged = self.open(task), key_of("judged", task, rows)
        if opened is None or judged not in self.store:
            return
        problem, unit = opened.problem(rows), self.store.read(judged)
        maps = dict(zip(unit.record["names"], unit.arrays["maps"], strict=True))
        record = follow_removals(problem, {name: maps[name] for name in maps if name in KINDS})
        self.store.write(key_of("followed", task, rows), {"task": task.name, "title": task.title} | record)


def key_of(what: str, task: Task, rows: Sequence[int]) -> str:
    """The key of a unit of work."""
    return f"{what} {task.name} {rows[0]:03d}-{rows[-1]:03d}"


def do_all(
    workshop: Workshop, tasks: Sequence[Task], *, most: int | None = None, minutes: float | None = None,
    progress: bool = False,
) -> int:  # fmt: skip
    """Do what is left; how many units of work are left after `minutes`. Nets take turns, so that all have some."""
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    work = [(at, "judged", task, rows) for task in tasks for at, rows in enumerate(task.blocks(most))]
    work += [
        (at + 2 * (at % 3 != 0) * len(work), "followed", task, rows)  # every third first: the curve needs fewer
        for task in tasks if task.sort == "photograph" for at, rows in enumerate(task.blocks(most))
    ]  # fmt: skip
    todo = [unit for unit in sorted(work, key=lambda unit: unit[0]) if key_of(*unit[1:]) not in workshop.store]
    with Run(progress=progress).bar("judging", sum(len(rows) * task.seconds for _, _, task, rows in todo)) as bar:
        for done, (_, what, task, rows) in enumerate(todo):
            if time.monotonic() > until:
                return len(todo) - done
            (workshop.judge if what == "judged" else workshop.follow)(task, rows)
            bar.advance(len(rows) * task.seconds, f"{task.name} {rows[0]}")
    return 0


# ---- verdicts ----------------------------------------------------------------------------------------------------


def referee_of(problem: Problem, sort: Sort, **settings: Any) -> lp.Referee:
    """One for all maps of some inputs: by the first baseline, and by what a referee adds to it."""
    groups = None if sort in ("photograph", "digits") else problem.labels
    return lp.Referee(
        explained_score(problem, sort), problem.inputs, problem.baselines[:, 0], groups=groups, **settings
    )


def judge_maps(problem: Problem, sort: Sort, maps: Mapping[str, Tensor]) -> dict[str, Any]:
    """What one referee says of each kind of maps, and what `explain` would say of four random ones."""
    referee, kinds = referee_of(problem, sort), [kind.name for kind in kinds_of(sort)]
    found = {name: judge_map(referee, sort, maps[name]) for name in [*kinds, *(f"random{k}" for k in RANDOM_SEEDS)]}
    record: dict[str, Any] = {"kinds": found, "four random": []}
    record["removals"] = [row.n_forwards for row in referee.removals]
    for b in range(len(problem.inputs)):
        trials = {}
        for k in RANDOM_SEEDS:
            of, values = found[f"random{k}"], shaped_as(maps[f"random{k}"], sort)
            strengths, weights = referee.show_units(values, b)
            trials[f"random {k}"] = Trial(0.0, of["p_value"][b], of["p_model"][b], strengths, weights)
        said = verdict(trials)
        record["four random"].append("trust" in said or "stand the test" in said)
    if sort == "table":
        record["band"] = judge_band(problem, sort, referee)
    return record


def judge_map(referee: lp.Referee, sort: Sort, values: Tensor) -> dict[str, list[Any]]:
    """p-values and outcomes of maps (n, *features), or of one photograph's patches (256,)."""
    if sort == "photograph":  # without measuring support, which would take as long as the test
        evidence = weigh_map(referee, values)
        outcome = say(evidence, math.nan).outcome
        return {"p_value": [evidence.by_chance.p], "p_model": [evidence.by_input.p], "outcome": [outcome.value]}
    judgment = referee.judge(values)
    outcomes = [status.outcomes[0].value for status in judgment.status]
    return {"p_value": listed(judgment.p_value), "p_model": listed(judgment.p_model), "outcome": outcomes}


def weigh_map(referee: lp.Referee, patches: Tensor) -> Any:
    """The evidence for a map of one photograph, after as many removals as it needs."""
    strengths, _ = referee.show_units(shaped_as(patches, "photograph"))
    referee._remove([strengths], [True])
    return referee._weigh(0, strengths, None, math.nan, math.nan)


def judge_band(problem: Problem, sort: Sort, referee: lp.Referee) -> dict[str, list[Any]]:
    """The elastic band, whose result is also compared with the straight line's: is it called worse without reason?"""
    result = lp.attribute(
        explained_score(problem, sort), problem.inputs, problem.baselines[:, 0], method="elastic_band", support=referee
    )
    outcomes = [status.outcomes[0].value for status in result.status]
    return {"p_value": listed(result.p_value), "p_model": listed(result.p_model), "outcome": outcomes}


def follow_removals(problem: Problem, maps: Mapping[str, Tensor]) -> dict[str, Any]:
    """p-values of one photograph's maps (256,) after more and more removals, other ones than those it was judged by."""
    referee, found = referee_of(problem, "photograph", seed=1), {}
    for n in REMOVALS:
        referee.n_removals = n
        evidence = {name: weigh_map(referee, values) for name, values in maps.items()}
        found[str(n)] = {name: [each.by_chance.p, each.by_input.p] for name, each in evidence.items()}
    return {"by removals": found}


# ---- patches -----------------------------------------------------------------------------------------------------


def over_patches(values: Tensor) -> Tensor:
    """A photograph's values (1, 3, side, side) as sums over 16 × 16 patches: (256,)."""
    side = values.shape[-1] // 16
    return values[0].sum(0).unflatten(0, (16, side)).unflatten(2, (16, side)).sum((1, 3)).flatten().float()


def shaped_as(values: Tensor, sort: Sort) -> Tensor:
    """Patches (256,) as a map (1, 128, 128) with the same sums; other maps as they are."""
    if sort != "photograph":
        return values
    return values.view(1, 16, 16).repeat_interleave(8, 1).repeat_interleave(8, 2) / 64
