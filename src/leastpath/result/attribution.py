"""Attribution: values and the evidence for them, what every method returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path as File
from typing import Any

import torch
from torch import Tensor

from leastpath._support.checks import show_value
from leastpath.geometry.path import Path
from leastpath.result.files import read_fields, write_fields
from leastpath.result.html import result_html
from leastpath.result.status import Status
from leastpath.score.calls import Inputs

SHOWN_EVIDENCE = (
    "support", "p_value", "p_model", "completeness_gap", "cancellation", "length", "length_ratio", "certificate",
    "score_change",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Attribution:
    """Attributions and the evidence for them. Fields are (batch,) unless they say otherwise.

    Example:
        >>> import leastpath as lp
        >>> weights = torch.linspace(-1, 1, 24)[torch.randperm(24, generator=torch.Generator().manual_seed(0))]
        >>> result = lp.attribute(lp.Score(lambda x: x @ weights), torch.ones(2, 24), method=lp.StraightLine())
        >>> result.values.shape, result.status[0].ok
        (torch.Size([2, 24]), True)
    """

    values: Inputs
    """Same structure, shape and dtype as the inputs (with `layer=`: as the layer's output)."""
    completeness_gap: Tensor
    """Σ values − (f(x) − f(x̄))."""
    cancellation: Tensor
    """Σ|values| − |f(x) − f(x̄)|: the NCC gap. Can be as low as −|completeness_gap|, not lower."""
    length: Tensor
    """Length of the path under the metric, measured by the integrator."""
    length_error: Tensor
    """The integrator's own estimate of the error of `length`, from cutting the path finer. An estimate, not a bound:
    what happens between all nodes can hide. NaN at fixed steps."""
    length_ratio: Tensor
    """length / length of the straight line, which with more than four features is measured to 10 %, or as exactly as it
    takes to tell which of the two is longer; NaN where budget or user ended the work before that was measured."""
    certificate: Tensor
    """length / |f(x) − f(x̄)|. For the model metrics it is at least 1, and 1 proves that no path is shorter, up to
    `length_error`. inf where the score does not change, NaN for metrics that do not bound the score. For `Fisher` and
    `Pullback`: length / the distance of the two ends, of which the same is true."""
    path: Path | None
    """One polyline per example (per example and baseline, where there are several: row b · m + j); None for methods
    without a path."""
    status: tuple[Status, ...]
    """What became of each example; `status[b].value` is the sentence to read."""
    support: Tensor
    """Does removal confirm the explanation? The symmetric relevance gain: how much more the score loses without the
    most important features than without the least important ones. 0 is what random orders have on average, higher is
    better. In probability for class scores. Over many inputs it is a measure; what it means for one input, `p_value`
    and `p_model` say. NaN where it was not measured, `support=False`."""
    p_value: Tensor
    """How often chance does as well on this input: the p-value of a permutation test (docs/verdict.md)."""
    p_model: Tensor
    """How often orders do as well that know the input and not the model. The status is built on both."""
    n_gradients: Tensor
    """Model gradients spent, solver and integral together (int64)."""
    score_change: Tensor
    """f(x) − f(x̄): the score at the path's last knot minus that at its first."""
    n_forwards: Tensor
    """Model evaluations without gradient (int64)."""
    attribution_error: Tensor
    """The integrator's own estimate of the error of `values`, from cutting the path finer: Σ|error| up to four
    features, above that twice its Euclidean norm. An estimate, not a bound. NaN at fixed steps."""
    baseline_spread: Inputs | None
    """Standard deviation of `values` between baselines, shaped like them; None with one baseline an example."""
    path_spread: Inputs | None
    """Standard deviation of `values` over paths that the solver sampled, shaped like them; None where it sampled
    none."""
    method: str
    """The method that found the values, with its settings: the solver's, where it has a path."""
    geometry: str
    """The score that the path was found for. Lengths and certificates are always of the explained score."""
    metric: str
    """The metric that lengths are measured in."""
    stats: Mapping[str, Any]
    """What else the solver told. The parts of `n_gradients` (int64): `solver_gradients`, those of the solver itself;
    `value_gradients`, those after which the values were known; `length_gradients`, what the length took beyond that;
    `line_gradients`, those of the straight line that the path is compared with. They add up to `n_gradients`.
    `line_support`: the support of the straight line's explanation, NaN where it was not measured. `chance`: the
    standard deviation of a random order's support. `support_by_fill`: the support by each thing that stood in."""

    def __repr__(self) -> str:
        ok, known = sum(s.ok is True for s in self.status), not bool(self.support.isnan().all())
        shapes = [tuple(v.shape) for v in (self.values if isinstance(self.values, tuple) else (self.values,))]
        return (
            f"Attribution(values={', '.join(map(str, shapes))}, method={self.method}, metric={self.metric}, "
            f"ok={ok}/{len(self.status)}, "
            f"{f'median support={float(self.support.nanmedian()):.2g}' if known else 'support not measured'}, "
            f"median |completeness_gap|={float(self.completeness_gap.abs().median()):.2g}, "
            f"median cancellation={float(self.cancellation.median()):.2g}, gradients={int(self.n_gradients.sum())})"
        )

    @property
    def names(self) -> tuple[str, ...] | None:
        """Of the features, where `named` has given some."""
        return self.stats.get("names")

    def named(self, names: Sequence[object]) -> Attribution:
        """The result with the names of its features, such as a table's columns: notebooks, bars and files have them.

        Example:
            >>> import leastpath as lp
            >>> result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), method=lp.StraightLine())
            >>> result.named(["age", "income"]).names
            ('age', 'income')
        """
        due = self.values.shape[1:].numel() if isinstance(self.values, Tensor) else 0
        if len(names) != due:
            raise ValueError(f"got {len(names)} names for {due} features of one input tensor: pass one for each")
        return replace(self, stats={**self.stats, "names": tuple(map(str, names))})

    def save(self, path: str | os.PathLike[str]) -> File:
        """Keep the result as a file, which `lp.load` and `leastpath explore` open. Needs safetensors (extra `io`).

        Tensors come back on the CPU. Entries of `stats` that are no tensors, numbers or text are kept as their `repr`.

        Example:
            >>> import pytest, tempfile, leastpath as lp
            >>> _ = pytest.importorskip("safetensors")
            >>> result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), method=lp.StraightLine())
            >>> lp.load(result.save(f"{tempfile.mkdtemp()}/result.safetensors")).values
            tensor([[0.5000, 0.5000]])
        """
        return write_fields(path, {field.name: getattr(self, field.name) for field in fields(self)})

    def _repr_html_(self) -> str:
        return self.as_html(self.values)

    def as_html(self, values: Inputs, names: Sequence[Sequence[str]] = ()) -> str:
        """What a notebook shows: these values (of groups of features, perhaps) and the evidence for them."""
        evidence = {name.replace("_", " "): getattr(self, name) for name in SHOWN_EVIDENCE}
        evidence["gradients"] = self.n_gradients
        names = names or ([self.names] * len(self.status) if self.names else [])
        return result_html(values, self.status, evidence, f"{self.method}, {self.metric}", names)


def load(path: str | os.PathLike[str]) -> Attribution:
    """A result that `result.save(path)` wrote. The file can run no code. Needs safetensors (extra `io`).

    Example:
        >>> load("nowhere.safetensors")
        Traceback (most recent call last):
        ...
        ValueError: nowhere.safetensors is not a file: pass what result.save(path) wrote
    """
    return attribution_of(read_fields(path), str(path))


def attribution_of(found: Mapping[str, Any], name: str) -> Attribution:
    """A result from its fields; `name` is what an error calls their file."""
    expected = {field.name for field in fields(Attribution)}
    if set(found) != expected:
        wrong = sorted(set(found) ^ expected)
        raise ValueError(f"{name} is of another version of leastpath, which differs in {', '.join(wrong)}")
    for field, wanted in _misfits(found):
        got = show_value(found[field])
        raise ValueError(f"{name} is damaged: its field {field} is {got}, expected {wanted}: save the result again")
    return Attribution(**found)


def _misfits(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The fields that do not hold what `Attribution` says, each with what was expected."""
    parts = found["values"] if isinstance(found["values"], tuple) else (found["values"],)
    if not parts or not all(isinstance(part, Tensor) and part.ndim and part.is_floating_point() for part in parts):
        yield "values", "numbers (batch, *features), or a tuple of such tensors"
        return
    batch = len(parts[0])

    def is_like_values(given: Any) -> bool:
        given = given if isinstance(given, tuple) else (given,)
        return [getattr(part, "shape", None) for part in given] == [part.shape for part in parts]

    schema: dict[str, tuple[Callable[[Any], bool], str]] = {
        "Inputs": (lambda v: all(len(part) == batch for part in parts), "tensors of one batch"),
        "Inputs | None": (lambda v: v is None or is_like_values(v), "None, or shaped like values"),
        "Tensor": (lambda v: isinstance(v, Tensor) and v.shape == (batch,), f"numbers of shape ({batch},)"),
        "Path | None": (
            lambda v: v is None or (isinstance(v, Path) and len(v) % batch == 0), f"None, or paths of {batch} examples",
        ),
        "tuple[Status, ...]": (
            lambda v: isinstance(v, tuple) and len(v) == batch and all(isinstance(one, Status) for one in v),
            f"{batch} statuses",
        ),
        "str": (lambda v: isinstance(v, str), "a text"),
        "Mapping[str, Any]": (lambda v: isinstance(v, Mapping), "a dictionary"),
    }  # fmt: skip
    for field in fields(Attribution):
        fits, wanted = schema[str(field.type)]
        if not fits(found[field.name]):
            yield field.name, wanted


def without_path(
    values: Inputs, completeness_gap: Tensor, cancellation: Tensor, score_change: Tensor, status: tuple[Status, ...], *,
    n_gradients: Tensor, n_forwards: Tensor, method: str, support: Tensor | None = None, p_value: Tensor | None = None,
    p_model: Tensor | None = None, baseline_spread: Inputs | None = None, stats: Mapping[str, Any] | None = None,
) -> Attribution:  # fmt: skip
    """The result of something that integrates nothing: no path, and NaN for all that is measured along one."""
    unknown = torch.full_like(completeness_gap, torch.nan)
    return Attribution(
        values=values,
        completeness_gap=completeness_gap,
        cancellation=cancellation,
        length=unknown,
        length_error=unknown,
        length_ratio=unknown,
        certificate=unknown,
        path=None,
        status=status,
        support=unknown if support is None else support,
        p_value=unknown if p_value is None else p_value,
        p_model=unknown if p_model is None else p_model,
        n_gradients=n_gradients,
        score_change=score_change,
        n_forwards=n_forwards,
        attribution_error=unknown,
        baseline_spread=baseline_spread,
        path_spread=None,
        method=method,
        geometry="none",
        metric="none",
        stats=stats or {},
    )
