"""Each method's answer to a case, its test by removal, and how long all of them will take."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leastpath._support.numbers import written
from leastpath.account.run import Run, shown_by
from leastpath.commands.case import Case
from leastpath.commands.run_folder import RunFolder
from leastpath.evaluation.masking import FULL_AREAS, Masking
from leastpath.evaluation.support import SymmetricRelevanceGain
from leastpath.methods import Method
from leastpath.methods.planning import in_words
from leastpath.removal.gain import SHARES, default_rank, judged_score, patches
from leastpath.result.attribution import Attribution
from leastpath.result.status import Outcome, Status, finished
from leastpath.score.untouched import leave_untouched

EVIDENCE = ("support", "completeness_gap", "cancellation", "length", "length_ratio", "certificate", "n_gradients")
PROBED = 4  # rows of the trial that tells how long a gradient takes
OF_PHOTOGRAPH = 250  # gradients that the integral of a photograph takes to 1 %, about
OF_TEST = 2 * len(SHARES) + 2 * len(FULL_AREAS)  # forwards, for each method and baseline


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

    @property
    def support(self) -> float:
        """The symmetric relevance gain: above 0 for an order that is better than a random one."""
        return float(self.record["support"])

    @property
    def is_probability(self) -> bool:
        """Whether removal is judged by a probability, not by a score."""
        return bool(self.record["kind"] == "log_odds")


def answers(
    case: Case,
    run: RunFolder,
    methods: Sequence[Method],
    limits: Mapping[str, float | None],
    seed: int,
) -> list[Answer]:
    """One for each method, in their order. What the run's store already has is not computed."""
    found = []
    for method in methods:
        if method.name not in run.store:
            began = time.monotonic()
            with _one_bar(method.title):
                result = finished(_explain_by(case, method, limits, seed))
            assert isinstance(result.values, Tensor)
            record = {"seconds": round(time.monotonic() - began, 2), **_evidence(case, result)}
            curves, kind = _curves(case, result, seed)
            run.store.write(method.name, {**record, "kind": kind}, {"values": result.values, **curves})
        unit = run.store.read(method.name)
        found.append(Answer(method.title, unit.record, **unit.arrays))
    return found


def _explain_by(case: Case, method: Method, limits: Mapping[str, float | None], seed: int) -> Attribution:
    """The test is the same for every method, so those that test themselves need not."""
    settings: dict[str, Any] = {
        name: value for name, value in limits.items() if value is not None and name in method.defaults
    }
    if "support" in method.defaults:
        settings["support"] = False
    baselines = case.baselines if method.takes_baselines else None
    return method(case.score, case.inputs, baselines, seed=seed, **settings)


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


def _evidence(case: Case, result: Attribution) -> dict[str, Any]:
    """What is known of a result, its support first: the mean over the baselines that features are replaced by."""
    gain = SymmetricRelevanceGain("values" if case.features is not None else "patches")
    each = [gain(case.score, case.inputs, start, result).values for start in case.each_baseline]
    evidence = {**vars(result), "support": torch.stack(each).mean(0)}
    record: dict[str, Any] = {name: float(evidence[name][0]) for name in EVIDENCE}
    # What a method says of its own test, that there was none, is not true here.
    told = Status(tuple(note for note in result.status[0].notes if note.outcome is not Outcome.NOT_TESTED))
    return {**record, "method": result.method, "metric": result.metric, "status": told.value}


def _curves(case: Case, result: Attribution, seed: int) -> tuple[dict[str, Tensor], str]:
    """The curves (areas,) whose difference is the support: the same order, the same patches, the same baselines."""
    removed = "values" if case.features is not None else patches(*case.inputs.shape[-2:])[0]
    kind = judged_score(case.score, "auto")[1]
    rank: Any = default_rank("image", kind)  # never "net", which is for tokens
    masking = Masking(FULL_AREAS, features=removed, fill="baseline", rank=rank)
    arrays = {"x": torch.tensor(FULL_AREAS)}
    for name, keep in (("deletion", False), ("insertion", True)):
        curves = []
        for start in case.each_baseline:
            scores = masking.curves(case.score, case.inputs, start, result, keep=keep, seed=seed)
            curves.append(scores.probability()[1][0, 0])
        arrays[name] = torch.stack(curves).mean(0)
    return arrays, kind


# ---- how long it will take ---------------------------------------------------------------------------------------


def estimate(case: Case, methods: Sequence[Method], limits: Mapping[str, float | None]) -> str:
    """One sentence on the time that all methods and their tests will take, after a short trial of the model."""
    gradient, forward = _seconds(case)
    gradients, forwards, unknown = 0, 0, []
    m = len(case.each_baseline)
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
        f"About {total} for {count}{besides}: {written(gradients)} gradients at {in_words(gradient)} and "
        f"{written(forwards)} forward passes at {in_words(forward)}."
    )


def _seconds(case: Case) -> tuple[float, float]:
    """How long a gradient and a forward take, a row of a small batch each; the second trial counts."""
    with leave_untouched(case.score.model, case.inputs):
        bound = case.score.bind(case.inputs)
        points, rows = bound.space.explained().repeat(PROBED, *[1] * (case.inputs.ndim - 1)), torch.zeros(PROBED).long()
        took = []
        for call in (bound.gradients, bound.values):
            call(points, rows)
            began = time.monotonic()
            call(points, rows)
            took.append((time.monotonic() - began) / PROBED)
    return took[0], took[1]
