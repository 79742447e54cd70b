"""Each method's answer to a case, its test by removal, and how long all of them will take."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from leastpath._support.checks import in_words, write_number
from leastpath.account.run import Run, shown_by
from leastpath.commands.case import Case
from leastpath.commands.run_folder import RunFolder
from leastpath.commands.verdict import Trial
from leastpath.evaluation.masking import FULL_AREAS
from leastpath.evaluation.measure import read_attributions
from leastpath.features.groups import label_groups
from leastpath.methods import Method
from leastpath.removal.curves import Order, Scale, judged_score, level_of, removal_scores
from leastpath.removal.referee import FEWEST, REMOVALS_OF_PHOTOGRAPH, Referee
from leastpath.result.attribution import Attribution
from leastpath.result.status import finished
from leastpath.score.calls import leave_untouched
from leastpath.score.remembered import remember_outputs

EVIDENCE = (
    "support",
    "p_value",
    "p_model",
    "completeness_gap",
    "cancellation",
    "length",
    "length_ratio",
    "certificate",
    "n_gradients",
)
PROBED = 4  # rows of the trial that tells how long a gradient takes
OF_TEST = 2 * len(FULL_AREAS)  # forwards, for each method and baseline; the shares of support are among them, about


@dataclass(frozen=True)
class Answer:
    """The result of one method, as it is stored."""

    title: str
    record: dict[str, Any]
    values: Tensor
    """(1, *features)"""
    x: Tensor
    """(areas,)"""
    deletion: Tensor
    """(areas,) the probability, or score, without what is ranked first."""
    insertion: Tensor
    """(areas,) with only this left."""
    strengths: Tensor
    """(units,) the values that are ranked."""
    weights: Tensor
    """(units,) of the removals by which all methods are judged."""

    @property
    def support(self) -> float:
        """The symmetric relevance gain: above 0 for an order that is better than a random one."""
        return float(self.record["support"])

    @property
    def trial(self) -> Trial:
        """What removal says of it."""
        p_values = float(self.record["p_value"]), float(self.record["p_model"])
        return Trial(self.support, *p_values, self.strengths, self.weights)

    @property
    def is_probability(self) -> bool:
        """Whether removal is judged by a probability, not by a score."""
        return bool(self.record["kind"] == "log_odds")


def answers(
    case: Case, run: RunFolder, methods: Sequence[Method], limits: Mapping[str, float | None], seed: int
) -> list[Answer]:
    """One for each method, in their order. What the run's store already has is not computed."""
    with remember_outputs(case.score.model):  # explanations, curves and the test often remove the same things
        return list(_answer_one_by_one(case, run, methods, limits, seed))


def _answer_one_by_one(
    case: Case, run: RunFolder, methods: Sequence[Method], limits: Mapping[str, float | None], seed: int
) -> Iterator[Answer]:
    referee = cache(partial(_appoint, case, seed))
    for method in methods:
        if method.name not in run.store:
            began = time.monotonic()
            with _one_bar(method.title):
                result = finished(_explain_by(case, method, limits, seed))
            assert isinstance(result.values, Tensor)
            seconds = round(time.monotonic() - began, 2)
            curves, scale = _remove(case, result)
            with _one_bar(f"{method.title}: verdict"):
                test = referee().judge(result.values)
            record = {"seconds": seconds, **_evidence(test.add_to(result)), "kind": scale}
            units = dict(zip(("strengths", "weights"), referee().show_units(result.values), strict=True))
            run.store.write(method.name, record, {"values": result.values, **curves, **units})
        unit = run.store.read(method.name)
        yield Answer(method.title, unit.record, **unit.arrays)


def _explain_by(case: Case, method: Method, limits: Mapping[str, float | None], seed: int) -> Attribution:
    """Not tested, because the curves of removal are the test."""
    given: dict[str, Any] = {name: n for name, n in limits.items() if n is not None and name in method.defaults}
    baselines = case.baselines if method.takes_baselines else None
    return method(case.score, case.inputs, baselines, seed=seed, support=False, **given)


@contextmanager
def _one_bar(title: str) -> Iterator[None]:
    """One progress bar for a method, whatever its stages are. How long all will take has been said before."""
    with Run(progress=True).bar(title, 1.0) as bar:
        done = 0.0

        def show(stage: str, share: float) -> None:
            nonlocal done
            bar.advance(share - done)
            done = share

        with shown_by(show):
            yield
        bar.advance(1.0 - done)


def _appoint(case: Case, seed: int) -> Referee:
    """One referee for all methods: they are judged by the same removals, which are made once."""
    return Referee(case.score, case.inputs, case.baselines, seed=seed)


def _evidence(result: Attribution) -> dict[str, Any]:
    """What is known of a result, its test first."""
    record: dict[str, Any] = {name: float(getattr(result, name)[0]) for name in EVIDENCE}
    return {**record, "method": result.method, "metric": result.metric, "status": result.status[0].value}


def _remove(case: Case, result: Attribution) -> tuple[dict[str, Tensor], Scale]:
    """The curves of removal (areas,) and their scale. Means over the baselines that replace features."""
    judged, scale = judged_score(case.score)
    with leave_untouched(case.score.model, case.inputs):
        bound = judged.bind(case.inputs)
        values = read_attributions(bound, result)
        groups = label_groups("values" if case.features is not None else "patches", values)
        order = Order.of(values, groups, "signed")
        fills = [bound.space.ends(start)[0] for start in case.each_baseline]
        also = order.first(FULL_AREAS), order.all_but_first(FULL_AREAS)
        scores = removal_scores(bound, order, torch.cat(also), fills)
        found = level_of(scores, scale).split(len(FULL_AREAS), 2)
    curves = [torch.where(order.ranks, curve[0, :, :, 0].mean(0), torch.nan) for curve in found]
    return {"x": torch.tensor(FULL_AREAS), "deletion": curves[0], "insertion": curves[1]}, scale


# ---- how long it will take ---------------------------------------------------------------------------------------


def estimate(case: Case, methods: Sequence[Method], limits: Mapping[str, float | None]) -> str:
    """One sentence on the time that all methods and their tests will take, after a short trial of the model."""
    gradient, forward = _seconds(case)
    gradients, forwards, unknown = 0, 0, []
    m = len(case.each_baseline)
    forwards += REMOVALS_OF_PHOTOGRAPH if case.features is None else FEWEST  # once for all methods
    for method in methods:
        cost = method.cost(case.inputs.shape[1:], limits.get("max_gradients"))
        if cost is None:
            unknown.append(method.title)
        more = cost or (0, 0)
        gradients, forwards = gradients + m * more[0], forwards + m * (more[1] + OF_TEST)
    total = in_words(gradients * gradient + forwards * forward)
    besides = f", besides {' and '.join(unknown)}, whose cost is not known beforehand" if unknown else ""
    count = "1 method" if len(methods) == 1 else f"{len(methods)} methods"
    return (
        f"About {total} for {count}{besides}: {write_number(gradients)} gradients at {in_words(gradient)} and "
        f"{write_number(forwards)} forward passes at {in_words(forward)}."
    )


def _seconds(case: Case) -> tuple[float, float]:
    """How long a gradient and a forward take, a row of a small batch each; the second trial counts."""
    with leave_untouched(case.score.model, case.inputs):
        bound = case.score.bind(case.inputs)
        points, rows = bound.space.points().repeat(PROBED, *[1] * (case.inputs.ndim - 1)), torch.zeros(PROBED).long()
        took = []
        for call in (bound.gradients, bound.values):
            call(points, rows)
            began = time.monotonic()
            call(points, rows)
            took.append((time.monotonic() - began) / PROBED)
    return took[0], took[1]
