"""Findings as the page reads them: evidence in words first, then numbers, pictures and curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import nan
from typing import Any

from torch import Tensor

from leastpath._support.checks import write_number
from leastpath.evaluation.statistics import holm
from leastpath.explorer.arrays import LARGEST, pack, pictures_of, value_range
from leastpath.explorer.explaining import Finding
from leastpath.explorer.removal import removal_order
from leastpath.explorer.subject import Subject
from leastpath.explorer.walk import Walk, shares_moved
from leastpath.removal.curves import Rank
from leastpath.removal.verdict import ALPHA, headline
from leastpath.result.attribution import Attribution
from leastpath.result.status import Outcome

EVIDENCE = {  # in the order of showing: a label, and what it means
    "support": (
        "Support", "How much more the prediction loses without what is ranked first than without what is ranked last. "
        "0 is a random order, higher is better."
    ),
    "p_value": (
        "p against chance", "How often an order that knows nothing does as well here. 0.05 or less is evidence."
    ),
    "p_model": (
        "p against the input", "How often an order that knows the input, but not the model, does as well."
    ),
    "line_support": (
        "Support of the straight line", "The support of Integrated Gradients along the straight line, for comparison."
    ),
    "completeness_gap": ("Completeness gap", "The sum of all values minus the change of the score. 0 is best."),
    "cancellation": (
        "Cancellation", "How much positive and negative values cancel: the sum of sizes minus the change of the score."
    ),
    "length": ("Length", "The length of the path, measured by the model's gradient."),
    "length_ratio": (
        "Length against the line", "The length of the path compared with the straight line. Below 1 it is shorter."
    ),
    "certificate": (
        "Certificate", "The length divided by the change of the score. 1 proves that no path is shorter."
    ),
    "n_gradients": ("Gradients", "Gradients of the model that the explanation took."),
    "seconds": ("Seconds", "Time that it took."),
}  # fmt: skip
MEASURING = "Removal is being measured: a moment until it is known whether it confirms this explanation."


def as_result(key: str, finding: Finding) -> dict[str, Any]:
    """A finding as `GET /api/results/KEY` gives it."""
    question, walk = finding.question, finding.walk
    return {
        "key": key,
        "method": finding.method.name,
        "label": finding.method.title,
        "stiffness": finding.stiffness,
        "stopped": finding.stopped,
        "tested": finding.is_tested,
        **show_result(question.subject, finding.result, "signed", finding.stopped, finding.seconds),
        **({} if finding.is_tested else {"headline": MEASURING}),
        "walk": None if walk is None else walk_of(question.subject, walk, question.baselines),
        "sentence_walk": _walk_words(finding),
        "curves": {name: asdict(curve) for name, curve in finding.curves.items()},
    }


def show_result(
    subject: Subject, result: Attribution, rank: Rank, stopped: bool = False, seconds: float = nan
) -> dict[str, Any]:
    """The verdict, the evidence and the numbers of a result."""
    status = result.status[0]
    said = headline([status])
    return {
        "headline": f"{said[:1].upper()}{said[1:]}.",
        "trusted": None if math.isnan(float(result.support[0])) else status.ok and not stopped,
        "status": status.value,
        "evidence": evidence(result, seconds),
        **numbers_of(subject, result, rank),
    }


def correct_verdict(finding: Finding, others: Sequence[Finding]) -> dict[str, Any]:
    """What changes of a verdict where several methods were tried on one question: p-values by Holm's correction."""
    rivals = [f for f in others if f is not finding and f.is_tested and f.question.is_same(finding.question)]
    p = [max(float(f.result.p_value[0]), float(f.result.p_model[0])) for f in (finding, *rivals)]
    if not rivals or math.isnan(p[0]) or Outcome.SUPPORTED not in finding.result.status[0]:
        return {}
    corrected = float(holm([1.0 if math.isnan(one) else one for one in p])[0])
    tried = f"p {write_number(corrected, 2)} after correction for {len(p)} methods tried here"
    said = headline(finding.result.status)
    if corrected <= ALPHA:
        return {"headline": f"{said[:1].upper()}{said[1:]}; {tried}."}
    alone = f"Not supported once all {len(p)} methods are counted: {tried}. Alone: {said}."
    return {"headline": alone, "trusted": False}


def evidence(result: Attribution, seconds: float = nan) -> list[dict[str, Any]]:
    """What is known of a result, in the order of showing. What was not measured is left out."""
    line = result.stats.get("line_support")
    known = {"line_support": float(line[0]) if isinstance(line, Tensor) else math.nan, "seconds": seconds}
    found = {name: known[name] if name in known else float(getattr(result, name)[0]) for name in EVIDENCE}
    return [
        {"name": name, "label": label, "value": found[name], "text": _number(name, found[name]), "hint": hint}
        for name, (label, hint) in EVIDENCE.items()
        if not math.isnan(found[name])
    ]


def _number(name: str, value: float) -> str:
    if name == "seconds":
        return f"{value:,.1f}"
    return write_number(int(value) if name == "n_gradients" else value)


def numbers_of(subject: Subject, result: Attribution, rank: Rank) -> dict[str, Any]:
    """Values as they are shown, for pictures the sums of patches, and the units in the order of removal."""
    values = result.values
    assert isinstance(values, Tensor)
    values = values.detach().float().cpu()
    order = removal_order(subject, values, rank)
    if subject.kind != "image":
        return {"values": pack(subject.by_feature(values)[0]), "units": None, "order": order}
    return {"values": pack(values[0]), "units": pack(by_patch(subject, values)[0]), "order": order}


def by_patch(subject: Subject, values: Tensor) -> Tensor:
    """(n, channels, height, width) -> (n, rows, columns) sums."""
    assert subject.grid is not None
    return subject.by_feature(values).unflatten(1, subject.grid)


def walk_of(subject: Subject, walk: Walk, baselines: Tensor) -> dict[str, Any]:
    """The walk as the page reads it."""
    attributed = walk.attributed.float().cpu()
    cumulative = by_patch(subject, attributed) if subject.kind == "image" else subject.by_feature(attributed)
    start = baselines if baselines.ndim == subject.inputs.ndim else baselines.mean(1)
    return {
        "positions": walk.places.tolist(),
        "scores": walk.scores.tolist(),
        "gradient_norms": walk.gradient_norms.tolist(),
        "attributed": attributed.flatten(1).sum(1).tolist(),
        "idle": [list(stretch) for stretch in walk.idle],
        "frames": pack(frames_of(subject, walk.points, start)),
        "cumulative": pack(cumulative),
    }


def frames_of(subject: Subject, points: Tensor, start: Tensor) -> Tensor:
    """What is shown at each place: pictures, cells, or how far each token has come."""
    points = points.to(subject.inputs)
    if subject.kind == "image":
        return pictures_of(points, value_range(subject.inputs), LARGEST)
    if subject.decode is not None:
        return subject.decode(points).float().cpu()
    assert subject.feature_of is not None
    return shares_moved(points, start.to(points), subject.inputs, subject.feature_of, len(subject.names)).float().cpu()


def _walk_words(finding: Finding) -> str:
    if finding.walk is None:
        return "This method has no path to walk along."
    several = f" All numbers are the mean over {finding.question.m} baselines." if finding.question.m > 1 else ""
    return f"Shaded: stretches where the gradient is below 5 % of its mean along the path.{several}"


def describe(subject: Subject) -> dict[str, Any]:
    """A subject as the page reads it."""
    is_image, n = subject.kind == "image", subject.shape[0]
    channels = ["red", "green", "blue"] if n == 3 else ["grey"] if n == 1 else [f"channel {i}" for i in range(n)]
    return {
        "kind": subject.kind,
        "title": subject.title,
        "shape": list(subject.shape) if is_image else [len(subject.names)],
        "input": _input_of(subject),
        "features": [{"name": name, **more} for name, more in zip(subject.names, subject.details, strict=True)],
        "channels": channels if is_image else [],
        "units": None if subject.grid is None else {"shape": list(subject.grid)},
    }


def _input_of(subject: Subject) -> Mapping[str, Any] | None:
    """What is explained: a picture, the cells of a row; None for a text."""
    if subject.kind == "image":
        return pack(pictures_of(subject.inputs, value_range(subject.inputs))[0])
    return None if subject.decode is None else pack(subject.decode(subject.inputs).float()[0])


def removed_view(subject: Subject, filled: Tensor, mask: Tensor, word: str) -> tuple[Any, str | None]:
    """What is left after removal: a picture, or a text with a word in place of what is gone."""
    if subject.kind == "image":
        return pack(pictures_of(filled[:1], value_range(subject.inputs))[0]), None
    if subject.kind == "table":
        return None, None
    gone = mask.reshape(len(subject.names), -1).any(1).tolist()
    shown = [
        (word if is_gone else name) + str(details.get("space", " "))
        for name, details, is_gone in zip(subject.names, subject.details, gone, strict=True)
        if not details.get("special")
    ]
    return None, "".join(shown).strip()
