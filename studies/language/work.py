"""One prompt: explanations by every method from every start, what removal says of each, how exact integrals are."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

import leastpath as lp
from leastpath.language.answers import token_log_p
from leastpath.language.baselines import NEUTRAL_TEXTS, Natural, find_starts, token_id
from leastpath.language.explaining import Question, ask
from leastpath.language.explanation import sum_features
from leastpath.language.rows import leave_one_out, token_staircase
from leastpath.language.size import frozen
from leastpath.score.calls import leave_untouched
from leastpath.transformers import embedding_of
from studies.language.prompts import Case

STEPS = 50  # of Integrated Gradients: the default of Captum and inseq
NATURAL_STEPS = 12  # of each of four natural texts: together as many gradients
FEWER_STEPS = (6, 12, 25)  # from which gaps are also taken, on some prompts
SHARES = (0.15, 0.3, 0.5, 0.7)
# Texts that stand in for removed words. No explanation starts from them.
REMOVAL_TEXTS = (
    "Every summer the family drove to the same lake, where the children swam all day and the parents read under the "
    "trees until it was time to light the fire.",
)
NATURAL = tuple(f"natural {k}" for k in range(len(NEUTRAL_TEXTS["en"])))
Part = Literal["left out", "staircases", "gradients", "removal", "gaps"]
STARTS: Mapping[str, Any] = {
    "zeros": "zero", "mean": "mean", "end of text": "end",
    **{name: Natural([text]) for name, text in zip(NATURAL, NEUTRAL_TEXTS["en"], strict=True)},
}  # fmt: skip
GAPPED = ("zeros", "mean", "end of text", NATURAL[0])
FORWARDS = {"left out": leave_one_out, "staircases": token_staircase}


def ask_case(model: nn.Module, tokenizer: Any, case: Case) -> Question:
    """The case as a question: log p of the answer minus log p of its foil, words as features."""
    joined = case.sort == "greater than"  # the answer goes on with the number that the prompt has begun
    answer, foil = (
        tokenizer(word, add_special_tokens=False)["input_ids"] if joined else word for word in (case.answer, case.foil)
    )
    return ask(model, tokenizer, case.prompt, answer, contrast=foil, groups="words", embedding=embedding_of(model))


def study_case(
    model: nn.Module, tokenizer: Any, case: Case, part: Part, known: Mapping[str, Any] | None = None, *,
    band: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """One part of what is measured on one prompt, as JSON; nothing where the model prefers the foil.

    Args:
        model: a causal language model.
        tokenizer: its own.
        case: the prompt.
        part: what is done.
        known: what the parts before it found; removal asks about their values.
        band: with the gradients also the elastic band, which takes long.
    """
    with frozen(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="from ")
        question = ask_case(model, tokenizer, case)
        margin = float(question.score(question.ids)[0])
        found: dict[str, Any] = {"margin": margin, "values": {}, "gaps": {}, "gains": {}, "fewer": {}}
        if margin > 0 and part == "removal":
            before = {name: torch.tensor(one) for name, one in (known or {})["values"].items()}
            found["gains"] = _remove_all(model, tokenizer, question, before)
        elif margin > 0:
            starts = {name: _start(model, tokenizer, question, what) for name, what in STARTS.items()}
            values: dict[str, Tensor] = {}
            if part == "gaps":
                found["fewer"] = {n: {k: _straight(question, starts[n], k)[1] for k in FEWER_STEPS} for n in GAPPED}
            elif part == "gradients":
                values, found["gaps"] = _by_gradients(question, starts, band)
            else:
                log_p, method = token_log_p(model, question.ids), FORWARDS[part]
                values = _by_forwards(question, starts, log_p, part, method)
            found["values"] = {name: one.tolist() for name, one in values.items()}
    words = [piece.text for piece in question.features]
    return found | {
        "sort": case.sort, "half": case.half, "prompt": case.prompt, "answer": case.answer, "foil": case.foil,
        "causes": case.causes, "words": words,
    }  # fmt: skip


def _start(model: nn.Module, tokenizer: Any, question: Question, what: Any) -> Tensor:
    return find_starts(tokenizer, embedding_of(model), question.prompt, question.ids, question.free, what).vectors


def _explain(question: Question, start: Tensor, method: Any, **settings: Any) -> tuple[Tensor, Any]:
    """Values (words,), and all that is known of them."""
    found = lp.attribute(
        question.score, question.ids, start, groups=question.labels(start), method=method, support=False, **settings
    )
    assert isinstance(found.values, Tensor)
    return sum_features(found.values[0].double().sum(-1), question.features), found


def _by_forwards(
    question: Question, starts: Mapping[str, Tensor], log_p: Tensor, title: str, method: Any
) -> dict[str, Tensor]:
    """Values (words,) by a method that only runs the model forwards.

    "By surprise": what a word does is multiplied by the probability that something else would stand there. "Specific":
    and divided by 1 + the nats that answer and foil lose on average. "Joined": the mean of what a word does and of the
    specific value, both of one size.
    """
    each, lost = {}, {}
    for name in ("end of text", *NATURAL):
        each[name], found = _explain(question, starts[name], method)
        answer, foil = sum_features(torch.as_tensor(found.stats["rows"])[0], question.features)  # (words,) each
        lost[name] = (answer - foil) / 2  # a foil's row has its sign turned
    for made in (each, lost):
        made[f"natural × {len(NATURAL)}"] = torch.stack([made.pop(name) for name in NATURAL]).mean(0)
    surprise = -sum_features(log_p.double(), question.features).expm1()  # (words,)
    by_surprise = {f"{name}, by surprise": surprise * own for name, own in each.items()}
    specific = {name: surprise * each[name] / (1 + lost[name].clamp_min(0)) for name in each}
    by_surprise |= {f"{name}, by surprise, specific": own for name, own in specific.items()}
    joined = {f"{name}, joined": _join(each[name], specific[name]) for name in each}
    return {f"{title}, {name}": own for name, own in (each | by_surprise | joined).items()}


def _join(one: Tensor, other: Tensor) -> Tensor:
    """Their mean, the other with the Σ|values| of the one."""
    return (one + other * (one.abs().sum() / other.abs().sum().clamp_min(1e-12))) / 2


def _by_gradients(
    question: Question, starts: Mapping[str, Tensor], band: bool
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Values (words,) of explanations with gradients, and the completeness gap over the change of score for each."""
    values, gaps, natural = {"gradient × input": _gradient_times_input(question)}, {}, []
    for name, start in starts.items():
        steps = NATURAL_STEPS if name in NATURAL else STEPS
        own, gaps[name] = _straight(question, start, steps)
        if name in NATURAL:
            natural.append(own)
        if name not in NATURAL[1:]:
            values[f"IG, {name}"] = own
    values[f"IG, natural × {len(NATURAL)}"] = torch.stack(natural).mean(0)
    if band:
        settings = {"max_gradients": 120, "measure": "values"}
        values["elastic band, natural 0"] = _explain(question, starts[NATURAL[0]], "elastic_band", **settings)[0]
    return values, gaps


def _straight(question: Question, start: Tensor, steps: int) -> tuple[Tensor, float]:
    """Integrated Gradients: values (words,), and their completeness gap over the change of score."""
    settings = {"tolerance": None, "n_steps": steps, "rule": "midpoint", "measure": "values"}
    own, found = _explain(question, start, "integrated_gradients", **settings)
    return own, float(found.completeness_gap[0] / found.score_change[0].abs().clamp_min(1e-6))


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
    found: dict[str, dict[str, float]] = {kind: {} for kind in fills}
    for kind, fill in fills.items() if every else ():
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


def control_precision(model: nn.Module, tokenizer: Any, case: Case, steps: int = STEPS) -> dict[str, float]:
    """The gap of Integrated Gradients over the change of score, in the precision of this model: zeros and a text."""
    with frozen(model), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="from ")
        question = ask_case(model, tokenizer, case)
        starts = {name: _start(model, tokenizer, question, STARTS[name]) for name in ("zeros", NATURAL[0])}
        return {name: _straight(question, start, steps)[1] for name, start in starts.items()}
