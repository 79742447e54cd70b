"""Derivatives of a bound score that only some solvers and methods ask for. `BoundScore.gradients` has the usual one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from leastpath.score.bound import BoundScore
from leastpath.score.calls import only_tensor, record_layer
from leastpath.score.untouched import ordinary


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

    def chunk(some: Tensor, owners: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
        with torch.inference_mode(False), torch.enable_grad():
            leaf = _leaf(score, some)
            output = score.whole_output(leaf, owners)
            value = of(output.to(score.work_dtype), rows)
            gradient = None
            if value.requires_grad:
                (gradient,) = torch.autograd.grad(value.sum(), leaf, allow_unused=True)
        gradient = torch.zeros_like(leaf) if gradient is None else gradient
        return output.detach().to(score.work_dtype), gradient.detach().to(score.work_dtype)

    chunks = score.in_batches(chunk, points, examples)
    return torch.cat([output for output, _ in chunks]), torch.cat([gradient for _, gradient in chunks])


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

    def chunk(some: Tensor, owners: Tensor, rows: slice) -> Tensor:
        with torch.inference_mode(False), torch.enable_grad():
            leaf = _leaf(score, some)
            found = reader.features(_read(score, leaf, owners, reader))
            pulled = None
            if found.requires_grad:
                (pulled,) = torch.autograd.grad(found, leaf, vectors[rows].to(found), allow_unused=True)
        if pulled is None:
            raise ValueError(
                f"what {reader!r} compares does not depend on the inputs: choose a layer that comes after what is "
                "explained, and look for torch.no_grad() or .detach() inside the model"
            )
        return pulled.to(score.work_dtype)

    pulled = score.in_batches(chunk, points, examples)
    return torch.cat(pulled) if pulled else points.to(score.work_dtype)


def hessian_vector(score: BoundScore, points: Tensor, vectors: Tensor, examples: Tensor) -> Tensor:
    """The Hessian of f at `points` times `vectors`, (n, *shape) all three, by double back-propagation.

    Counts as two gradients per row. Zero where the gradient is piecewise constant, as in a ReLU net's logits.
    """
    score.count_gradients(examples, each=2)

    def chunk(some: Tensor, owners: Tensor, rows: slice) -> Tensor:
        # Only the plain kernel of attention has a second derivative.
        with torch.inference_mode(False), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            leaf = _leaf(score, some)
            (gradient,) = torch.autograd.grad(score.evaluate(leaf, owners).sum(), leaf, create_graph=True)
            along = (gradient * vectors[rows].detach().to(gradient)).sum()
            product = None
            if along.requires_grad:
                (product,) = torch.autograd.grad(along, leaf, allow_unused=True)
        return torch.zeros_like(some) if product is None else product.detach().to(score.work_dtype)

    products = score.in_batches(chunk, points, examples)
    return torch.cat(products) if products else torch.zeros_like(points)


def _leaf(score: BoundScore, points: Tensor) -> Tensor:
    return ordinary(points.to(score.dtype)).requires_grad_()


def _read(score: BoundScore, points: Tensor, examples: Tensor, reader: FeatureReader) -> Tensor:
    """What a metric reads: the model's output, or that of its layer, (n, …)."""
    if reader.layer is None:
        return score.whole_output(points, examples)
    if reader.layer is score.score.layer:  # its output is the point itself
        return points.to(score.dtype)
    with record_layer(reader.layer) as seen:
        score.run_model(points, examples)
    return only_tensor(seen, len(points))
