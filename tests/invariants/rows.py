"""The rows of the table: every method, solver, head and door, as a function from a world to values.

Methods come from their table, solvers from `helpers.ALL_SOLVERS` (which must name every exported one), heads from
`leastpath.heads.HEADS`, doors from `DOORS` below (which must name every module that users import).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import leastpath as lp
from helpers import ALL_SOLVERS, fast_method
from invariants import worlds
from invariants.worlds import Texts, World
from leastpath.heads import HEADS
from leastpath.methods import METHODS
from leastpath.methods.table import BUILT_IN
from leastpath.solvers.solution import chooses_start

LINE = METHODS["integrated_gradients"]
Answer = tuple[list[Tensor], list[float]]  # values of each example, and the change of score that they are to add up to


@dataclass(frozen=True, eq=False)
class Row:
    """One way to explain."""

    kind: str
    name: str
    make_world: Callable[[], Any]
    answer: Callable[[Any], Answer]
    complete: bool = True
    unitless: bool = False
    needs: str = "torch"  # a module without which the row is skipped
    answers_in: Callable[[torch.dtype], torch.dtype] = field(default=lambda dtype: dtype)
    has_features: bool = True  # whether the last axis of its answer is that of the features

    @cached_property
    def world(self) -> Any:
        return self.make_world()

    @cached_property
    def answered(self) -> Answer:
        return self.answer(self.world)

    @property
    def whole(self) -> list[Tensor]:
        """The answer that several columns compare with."""
        return self.answered[0]

    @cached_property
    def alone(self) -> list[list[Tensor]]:
        """The examples one by one."""
        return [self.explain(self.world.take([b])) for b in range(len(self.world))]

    def explain(self, world: Any) -> list[Tensor]:
        return self.answer(world)[0]

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


def rows() -> list[Row]:
    return [*methods(), *solvers(), *heads(), *doors()]


def score_of(world: World, output: str = "log_softmax") -> lp.Score:
    return lp.Score(world.model, world.targets, output, batch_size=world.batch_size)


def answer_of(result: lp.Attribution) -> Answer:
    return list(result.values), result.score_change.tolist()


# ---- methods and solvers -----------------------------------------------------------------------------------------


def methods() -> Iterator[Row]:
    for name in (one.name for one in BUILT_IN):  # studies and pages may have added others by now
        make = worlds.images if METHODS[name].fits == ("image",) else worlds.vectors
        output = "raw" if make is worlds.images or name == "deep_lift" else "log_softmax"  # DeepLift has no rule for it
        needs = {"svi": "pyro"}.get(METHODS[name].extra, METHODS[name].extra) or "torch"
        claims = METHODS[name].complete, METHODS[name].unitless
        yield Row("method", name, make, partial(by_method, name, output), *claims, needs)


def by_method(name: str, output: str, world: World) -> Answer:
    method = fast_method(name, world.points)
    start = world.baselines if method.takes_baselines else None
    return answer_of(method(score_of(world, output), world.inputs, start, seed=world.seed, support=False))


def solvers() -> Iterator[Row]:
    for entry in ALL_SOLVERS:
        case = entry.values[0]
        make = worlds.plane if case.shape == (2,) else worlds.strip
        unitless = entry.id == "straight" and LINE.unitless  # no other solver claims it
        yield Row("solver", entry.id, make, partial(by_solver, case), unitless=unitless, needs=case.needs)


def by_solver(case: Any, world: World) -> Answer:
    score = score_of(world, "softmax")
    solver = case.make(score, lp.Conformal(), world.points)
    start = None if chooses_start(solver) else world.baselines
    settings = {"metric": lp.Conformal(), "seed": world.seed, "support": False}
    return answer_of(lp.attribute(score, world.inputs, start, method=solver, **settings))


# ---- heads -------------------------------------------------------------------------------------------------------

FURTHER_HEADS = ("ForSequenceClassification", "Model")  # without a row in HEADS: what is left, and what has none
GENERATING = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")  # refused there, explained by language.explain


def heads() -> Iterator[Row]:
    for head in (*HEADS, *FURTHER_HEADS):
        if head not in GENERATING:
            yield Row("head", head, partial(worlds.texts, head), by_head, needs="transformers")


def by_head(world: Texts) -> Answer:
    from leastpath.transformers import explain

    found = explain(
        world.model, world.tokenizer, list(world.texts), baseline="mask", method="integrated_gradients", support=False,
        batch_size=world.batch_size, seed=world.seed,
    )  # fmt: skip
    return list(found.values), found.result.score_change.tolist()


# ---- doors -------------------------------------------------------------------------------------------------------


def by_default(world: World) -> Answer:
    """What `attribute` does if nothing is said, with its test by removal."""
    result = lp.attribute(score_of(world), world.inputs, world.baselines, seed=world.seed)
    return answer_of(result)


def by_captum(world: World) -> Answer:
    from leastpath.captum import GeodesicIntegratedGradients

    explainer = GeodesicIntegratedGradients(world.model, solver=lp.StraightLine(), tolerance=0.01)
    values, delta = explainer.attribute(
        world.inputs, world.baselines, target=world.targets, internal_batch_size=world.batch_size,
        return_convergence_delta=True,
    )  # fmt: skip
    return list(values), (values.sum(1) - delta).tolist()


def by_quantus(world: World) -> Answer:
    from leastpath.quantus import explain

    values = explain(
        world.model, world.inputs.float().numpy(), world.targets.numpy(), baselines=world.baselines,
        method=lp.StraightLine(), batch_size=world.batch_size, seed=world.seed, support=False,
    )  # fmt: skip
    return list(torch.from_numpy(values)), changes(world)


def by_shap(world: World) -> Answer:
    from leastpath.shap import explanation

    score = score_of(world, "raw")
    settings = {"method": lp.StraightLine(), "seed": world.seed, "support": False}
    result = lp.attribute(score, world.inputs, world.baselines, **settings)
    found = explanation(result, list("abcd"), world.inputs, score=score)
    return list(torch.from_numpy(np.asarray(found.values))), changes(world)


def by_table(world: World) -> Answer:
    import pandas as pd

    from leastpath.tabular import explain

    frame, background = (
        pd.DataFrame(part.double().numpy(), columns=list("abcd")) for part in (world.inputs, world.points)
    )
    found = explain(
        world.model, frame, world.targets, background=background, baseline="median", support=False, seed=world.seed,
        batch_size=world.batch_size,
    )  # fmt: skip
    return list(torch.from_numpy(found.values.to_numpy())), found.result.score_change.tolist()


def by_language(world: Texts) -> Answer:
    from leastpath.language import explain

    settings = {"method": "token_staircase", "support": False, "batch_size": world.batch_size, "seed": world.seed}
    found = [explain(world.model, world.tokenizer, text, world.target, **settings) for text in world.texts]
    return [one.values for one in found], [float(one.result.score_change) for one in found]


def by_verdict(world: World) -> Answer:
    """Support and both p-values of one explanation, by a shared set of removals."""
    values = lp.METHODS["input_x_gradient"](score_of(world), world.inputs, world.baselines, support=False).values
    found = lp.verdict(score_of(world), world.inputs, values, world.baselines, seed=world.seed, draws=99)
    return list(torch.stack([found.support, found.p_value, found.p_model], 1)), []


def by_comparison(world: World) -> Answer:
    """The removal curves' areas and the gap of two methods, side by side."""
    from leastpath.evaluation import compare

    table = compare(
        ["integrated_gradients", "input_x_gradient"], score_of(world), world.inputs, world.baselines, seed=world.seed,
        fail_fast=True,
    )  # fmt: skip
    if not table.finished:  # it keeps what it has, and says so: what the others raise
        raise KeyboardInterrupt
    found = table.per_example
    numbers = found[["completeness_gap", "cancellation", "support", "p_value", "p_model", "gradients", "forwards"]]
    rows = torch.from_numpy(numbers.to_numpy(float)).nan_to_num(-1.0)
    return [rows[(found["input"] == b).to_numpy()] for b in range(len(world))], []


def by_job(world: World) -> Answer:
    """A folder of explanations, of a job that is started again if it was interrupted."""
    from leastpath import jobs

    with tempfile.TemporaryDirectory() as folder:
        found = jobs.explain(
            [(x, int(t)) for x, t in zip(world.inputs, world.targets, strict=True)], lambda: world.model,
            "integrated_gradients", folder, target="label", output="log_softmax", show=False, seed=world.seed,
            shard_size=2, batch_size=world.batch_size or 2, dtype=str(world.inputs.dtype).removeprefix("torch."),
        )  # fmt: skip
        return list(found.values(0, len(world))), []


def by_explorer(world: World) -> Answer:
    """What the page shows of a method, without a browser."""
    from leastpath.explorer.explaining import settings_of
    from leastpath.explorer.question import Question
    from leastpath.explorer.sources.tensors import TensorSource

    found, gaps = [], []
    source = TensorSource(lp.Score(world.model, batch_size=world.batch_size), world.inputs)
    for b in range(len(world)):
        question = Question.about(source.subject(b))
        subject, method = question.subject, lp.METHODS["integrated_gradients"]
        settings = settings_of(subject, method, None)
        result = method(question.score, subject.inputs, question.baselines, support=False, **settings)
        found.append(result.values[0])
        gaps.append(float(result.score_change))
    return found, gaps


def changes(world: World) -> list[float]:
    """Of the raw output of each example's class."""
    score = score_of(world, "raw")
    return (score(world.inputs) - score(world.baselines)).tolist()


@dataclass(frozen=True)
class Door:
    """A door, the module of `leastpath` that it is, and the world that it shows."""

    answer: Callable[[Any], Answer]
    module: str
    world: Callable[[], Any] = worlds.vectors
    complete: bool = True
    unitless: bool = False  # what its method claims, or its documentation
    needs: str = "torch"
    answers_in: Callable[[torch.dtype], torch.dtype] = lambda dtype: dtype
    has_features: bool = True


def in_float64(_: torch.dtype) -> torch.dtype:
    return torch.float64


def as_numpy(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype == torch.bfloat16 else dtype


DOORS: Mapping[str, Door] = {
    "attribute": Door(by_default, "attribution"),
    "captum.GeodesicIntegratedGradients": Door(by_captum, "captum", unitless=LINE.unitless, needs="captum"),
    "quantus.explain": Door(by_quantus, "quantus", unitless=LINE.unitless, answers_in=as_numpy),
    "shap.explanation": Door(by_shap, "shap", unitless=LINE.unitless, needs="shap", answers_in=as_numpy),
    "tabular.explain": Door(by_table, "tabular", unitless=True, needs="pandas", answers_in=in_float64),
    "language.explain": Door(by_language, "language", worlds.prompts, needs="transformers", answers_in=in_float64),
    "verdict": Door(by_verdict, "removal", complete=False, needs="captum", answers_in=in_float64, has_features=False),
    "evaluation.compare": Door(
        by_comparison, "evaluation", complete=False, needs="pandas", answers_in=in_float64, has_features=False
    ),
    "jobs.explain": Door(by_job, "jobs", unitless=LINE.unitless, complete=False, needs="pyarrow"),
    "explore": Door(by_explorer, "explorer", unitless=LINE.unitless),
}
WITHOUT_ROW = {
    "transformers": "the heads above",
    "heads": "the heads above",
    "commands": "tests/commands: the same calls, from a shell",
}


def doors() -> Iterator[Row]:
    for name, door in DOORS.items():
        given = (door.complete, door.unitless, door.needs, door.answers_in, door.has_features)
        yield Row("door", name, door.world, door.answer, *given)
