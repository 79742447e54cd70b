"""Derivatives of a bound score that only some solvers and methods ask for. `BoundScore.gradients` has the usual one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from leastpath.score.calls import only_tensor, ordinary, record_layer
from leastpath.score.frozen import freeze_where_it_pays
from leastpath.score.score import BoundScore


class FeatureReader(Protocol):
    """What a metric says about the features that it compares: where they are read, and what is made of them."""

    @property
    def layer(self) -> nn.Module | None: ...

    def features(self, read: Tensor) -> Tensor: ...


def differentiable_values(score: BoundScore, points: Tensor, examples: Tensor) -> Tensor:
    """f at `points` (n, *shape) as a part of the caller's autograd graph: (n,), in one model call of any size.

    Counts as gradients if the points require one, else it is `score.values`.
    """
    if not (torch.is_grad_enabled() and points.requires_grad):
        return score.values(points, examples)
    score.count_gradients(examples)
    value = score.evaluate(points, examples)
    if score.after_gradients is not None:
        score.after_gradients()
    return value


def output_gradients(
    score: BoundScore, points: Tensor, examples: Tensor, of: Callable[[Tensor, slice], Tensor]
) -> tuple[Tensor, Tensor]:
    """The model's own output (n, …) at `points` (n, *shape), and the gradient (n, *shape) of a function of it.

    `of(outputs, rows)` gives one number for each of some outputs; `rows` says which of the n they are. Counts as
    gradients.
    """
    score.count_gradients(examples)

    def evaluate(leaf: Tensor, owners: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        output = score.whole_output(leaf, owners).to(score.work_dtype)
        return of(output, rows), output

    gradient, outputs = _differentiate(score, points, examples, evaluate)
    return torch.cat(outputs), gradient


def read_features(
    score: BoundScore, points: Tensor, examples: Tensor, reader: FeatureReader, *, strict: bool = True
) -> Tensor:
    """What a metric compares, at `points` (n ≥ 1, *shape) with the inputs of each example (n,): (n, width).

    Counts as forwards. Features that are NaN or infinite are an error if `strict`, else they are returned.
    """
    score.count_forwards(examples)

    def chunk(some: Tensor, owners: Tensor, rows: slice) -> Tensor:
        with torch.no_grad():
            return reader.features(_read(score, some, owners, reader)).detach()

    found = torch.cat(score.in_batches(chunk, points, examples))
    if strict and not torch.isfinite(found).all():
        bad = score.space.row(int(examples[int((~torch.isfinite(found)).any(1).nonzero()[0].cpu())]))
        raise ValueError(
            f"what {reader!r} compares is NaN or infinite on the path of example {bad}: drop this example, or "
            "measure with another metric, as in metric=lp.Conformal()"
        )
    return found


def pull_back(score: BoundScore, points: Tensor, examples: Tensor, reader: FeatureReader, vectors: Tensor) -> Tensor:
    """The derivative of Σ vectors · features by the points, (n, width) -> (n, *shape). Counts as gradients."""
    score.count_gradients(examples)

    def evaluate(leaf: Tensor, owners: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        features = reader.features(_read(score, leaf, owners, reader))
        return features * vectors[rows].to(features), features

    missing = (
        f"what {reader!r} compares does not depend on the inputs: choose a layer that comes after what is explained, "
        "and look for torch.no_grad() or .detach() inside the model"
    )
    return _differentiate(score, points, examples, evaluate, missing)[0]


def hessian_vector(score: BoundScore, points: Tensor, vectors: Tensor, examples: Tensor) -> Tensor:
    """The Hessian of f at `points` times `vectors`, (n, *shape) all three, by double back-propagation.

    Counts as two gradients per row. Zero where the gradient is piecewise constant, as in a ReLU net's logits.
    """
    score.count_gradients(examples, each=2)

    def evaluate(leaf: Tensor, owners: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        (gradient,) = torch.autograd.grad(score.evaluate(leaf, owners).sum(), leaf, create_graph=True)
        return gradient * vectors[rows].detach().to(gradient), gradient

    with sdpa_kernel(SDPBackend.MATH):  # only the plain kernel of attention has a second derivative
        return _differentiate(score, points, examples, evaluate)[0]


def push_forward(
    score: BoundScore, points: Tensor, examples: Tensor, of: Callable[[Tensor], Tensor], vectors: Tensor
) -> Tensor:
    """The derivative of a function of the model's own output at `points` along `vectors`, (n, *shape): (n, …).

    By two back-propagations: the first is linear in what it propagates, and its derivative by that is the answer.
    Counts as a gradient.
    """
    score.count_gradients(examples)

    def chunk(some: Tensor, owners: Tensor, rows: slice) -> Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            leaf = ordinary(some.to(score.dtype)).requires_grad_()
            output = of(score.whole_output(leaf, owners).to(score.work_dtype))
            propagated = torch.zeros_like(output, requires_grad=True)
            (back,) = torch.autograd.grad(output, leaf, propagated, create_graph=True, materialize_grads=True)
            along = ordinary(vectors[rows]).to(back)
            return torch.autograd.grad(back, propagated, along, materialize_grads=True)[0].detach()

    with sdpa_kernel(SDPBackend.MATH):  # only the plain kernel of attention has a second derivative
        return torch.cat(score.in_batches(chunk, points, examples))


def _differentiate(
    score: BoundScore, points: Tensor, examples: Tensor,
    evaluate: Callable[[Tensor, Tensor, slice], tuple[Tensor, Tensor]], missing: str = "",
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """The gradient of Σ of what `evaluate` gives first, (n, *shape), and what it gives second, a part for each call.

    Where the points play no part, the gradient is zero, or an error that says what is `missing`.
    """

    def chunk(some: Tensor, owners: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        with torch.inference_mode(False), torch.enable_grad():
            leaf = ordinary(some.to(score.dtype)).requires_grad_()
            with freeze_where_it_pays(leaf, score.calls.runs_step_by_step):
                value, kept = evaluate(leaf, owners, rows)
            gradient = torch.autograd.grad(value.sum(), leaf, allow_unused=True)[0] if value.requires_grad else None
        if gradient is None and missing:
            raise ValueError(missing)
        return (torch.zeros_like(leaf) if gradient is None else gradient).detach().to(score.work_dtype), kept.detach()

    chunks = score.in_batches(chunk, points, examples)
    gradients = [gradient for gradient, _ in chunks] or [points.to(score.work_dtype)]
    return torch.cat(gradients), [kept for _, kept in chunks]


def _read(score: BoundScore, points: Tensor, examples: Tensor, reader: FeatureReader) -> Tensor:
    """What a metric reads: the model's output, or that of its layer, (n, …)."""
    if reader.layer is None:
        return score.whole_output(points, examples)
    if reader.layer is score.score.layer:  # its output is the point itself
        return points.to(score.dtype)
    with record_layer(reader.layer) as seen:
        score.run_model(points, examples)
    return only_tensor(seen, len(points))
