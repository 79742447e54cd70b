"""One prompt: explanations by every method from every start, what removal says of each, how exact integrals are."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

import leastpath as lp
from leastpath.language.baselines import NEUTRAL_TEXTS, Natural, find_starts, token_id
from leastpath.language.explaining import Question, ask
from leastpath.language.explanation import sum_features
from leastpath.language.rows import leave_one_out, token_staircase
from leastpath.language.size import frozen
from leastpath.score.calls import leave_untouched
from leastpath.transformers import embedding_of
from studies.language.prompts import Case

STEPS = 50  # of Integrated Gradients: the default of Captum and inseq
SHARES = (0.15, 0.3, 0.5, 0.7)
# Texts that stand in for removed words. No explanation starts from them.
REMOVAL_TEXTS = (
    "Every summer the family drove to the same lake, where the children swam all day and the parents read under the "
    "trees until it was time to light the fire.",
)
NATURAL = tuple(f"natural {k}" for k in range(len(NEUTRAL_TEXTS["en"])))
STARTS: Mapping[str, Any] = {
    "zeros": "zero", "mean": "mean", "end of text": "end",
    **{name: Natural([text]) for name, text in zip(NATURAL, NEUTRAL_TEXTS["en"], strict=True)},
}  # fmt: skip
METHODS = {"IG": STARTS, "leave one out": ("end of text", *NATURAL), "staircases": ("end of text", *NATURAL)}


def ask_case(model: nn.Module, tokenizer: Any, case: Case) -> Question:
    """The case as a question: log p of the answer minus log p of its foil, words as features."""
    joined = case.sort == "greater than"  # the answer goes on with the number that the prompt has begun
    answer, foil = (
        tokenizer(word, add_special_tokens=False)["input_ids"] if joined else word for word in (case.answer, case.foil)
    )
    return ask(model, tokenizer, case.prompt, answer, contrast=foil, groups="words", embedding=embedding_of(model))


def study_case(model: nn.Module, tokenizer: Any, case: Case, *, band: bool = False) -> dict[str, Any]:
    """All that is measured on one prompt, as JSON.

    Args:
        model: a causal language model.
        tokenizer: its own.
        case: the prompt.
        band: also the elastic band, which takes long.
    """
    with frozen(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="from ")
        question = ask_case(model, tokenizer, case)
        starts = {name: _start(model, tokenizer, question, what) for name, what in STARTS.items()}
        values, gaps = _explain_all(question, starts, case.gradients, band)
        margin = float(question.score(question.ids)[0])
        removed = _remove_all(model, tokenizer, question, values)
    words = [piece.text for piece in question.features]
    return {
        "sort": case.sort, "half": case.half, "prompt": case.prompt, "answer": case.answer, "foil": case.foil,
        "causes": case.causes, "words": words, "margin": margin, "gaps": gaps, "gains": removed,
        "values": {name: one.tolist() for name, one in values.items()},
    }  # fmt: skip


def _start(model: nn.Module, tokenizer: Any, question: Question, what: Any) -> Tensor:
    return find_starts(tokenizer, embedding_of(model), question.prompt, question.ids, question.free, what).vectors


def _explain_all(
    question: Question, starts: Mapping[str, Tensor], gradients: bool, band: bool
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Values (words,) of every explanation, and the completeness gap over the change of score for each integral."""
    values, gaps = {}, {}

    def explain(start: Tensor, method: Any, **settings: Any) -> tuple[Tensor, Any]:
        found = lp.attribute(
            question.score, question.ids, start, groups=question.labels(start), method=method, support=False, **settings
        )
        assert isinstance(found.values, Tensor)
        return sum_features(found.values[0].double().sum(-1), question.features), found

    for name, start in starts.items():
        if gradients:
            settings = {"tolerance": None, "n_steps": STEPS, "rule": "midpoint", "measure": "values"}
            values[f"IG, {name}"], found = explain(start, "integrated_gradients", **settings)
            gaps[name] = float(found.completeness_gap[0] / found.score_change[0].abs().clamp_min(1e-6))
        for title, method in (("leave one out", leave_one_out), ("staircases", token_staircase)):
            if name in METHODS[title] and (gradients or title == "leave one out"):
                values[f"{title}, {name}"] = explain(start, method)[0]
    values["gradient × input"] = _gradient_times_input(question)
    if band:
        settings = {"max_gradients": 120, "measure": "values"}
        values["elastic band, natural 0"] = explain(starts[NATURAL[0]], "elastic_band", **settings)[0]
    for title in METHODS if gradients else ("leave one out",):
        values[f"{title}, natural × {len(NATURAL)}"] = torch.stack([values[f"{title}, {n}"] for n in NATURAL]).mean(0)
    return {name: one for name, one in values.items() if not name.endswith(NATURAL[1:])}, gaps


def _gradient_times_input(question: Question) -> Tensor:
    with leave_untouched(question.score.model, question.ids):
        bound = question.score.bind(question.ids)
        point = bound.space.points()
        slope = bound.gradients(point, torch.tensor([0]))[1]
    return sum_features((slope * point)[0].double().sum(-1), question.features)


# ---- removal -----------------------------------------------------------------------------------------------------


def _remove_all(
    model: nn.Module, tokenizer: Any, question: Question, values: Mapping[str, Tensor]
) -> dict[str, dict[str, float]]:
    """The symmetric gain of every explanation, in log-probability, under each of three removals.

    Sets of words that several explanations remove run once.
    """
    natural = _start(model, tokenizer, question, Natural(REMOVAL_TEXTS))
    end = _start(model, tokenizer, question, token_id(tokenizer, "end"))
    fills = {"natural": natural, "end of text": end, "deleted": torch.full_like(natural, torch.nan)}
    first = {name: _sets(one) for name, one in values.items()}
    every = sorted({one for sets in first.values() for pair in sets for one in pair}, key=sorted)
    found: dict[str, dict[str, float]] = {}
    for kind, fill in fills.items():
        scores = dict(zip(every, _scores_without(question, every, fill), strict=True))
        found[kind] = {
            name: sum(scores[last] - scores[most] for most, last in sets) / len(sets) for name, sets in first.items()
        }
    return found


def _sets(values: Tensor) -> list[tuple[frozenset[int], frozenset[int]]]:
    """For each share the most and the least important words."""
    order, n = values.argsort(descending=True, stable=True).tolist(), len(values)
    counts = [max(1, min(n - 1, int(share * n + 0.5))) for share in SHARES]
    return [(frozenset(order[:k]), frozenset(order[n - k :])) for k in counts]


def _scores_without(question: Question, sets: Sequence[frozenset[int]], fill: Tensor) -> list[float]:
    with leave_untouched(question.score.model, question.ids):
        bound = replace(question.score, batch_size=32).bind(question.ids)
        point, points = bound.space.points()[0], []
        for words in sets:
            places = [place for word in words for place in question.features[word].positions]
            mask = torch.zeros(len(point), 1, dtype=torch.bool)
            mask[places] = True
            points.append(torch.where(mask, fill[0], point))
        scores: list[float] = bound.values(torch.stack(points), torch.zeros(len(points), dtype=torch.long)).tolist()
    return scores


def control_precision(model: nn.Module, tokenizer: Any, case: Case, steps: int = 4 * STEPS) -> dict[str, float]:
    """The gap of Integrated Gradients over the change of score, in the precision of this model: zeros and a text."""
    with frozen(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="from ")
        question = ask_case(model, tokenizer, case)
        gaps = {}
        for name in ("zeros", "end of text", NATURAL[0]):
            found = lp.attribute(
                question.score, question.ids, _start(model, tokenizer, question, STARTS[name]), support=False,
                method="integrated_gradients", tolerance=None, n_steps=steps, rule="midpoint", measure="values",
            )  # fmt: skip
            gaps[name] = float(found.completeness_gap[0] / found.score_change[0].abs().clamp_min(1e-6))
    return gaps
