"""A score over one batch: the space of the points, and over it the scalar field f and its gradient.

Derivatives that only some callers need are functions in `derivatives.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from leastpath._support.fastest import clock_of, fastest_size
from leastpath._support.rows import flat_rows
from leastpath._support.threads import in_this_thread
from leastpath.score.calls import (
    ModelCalls,
    ScoreFields,
    check_rows,
    default_batch_size,
    is_out_of_memory,
    output_tensor,
    scalar_output,
)
from leastpath.score.inputs import Baselines, CheckedTarget, Inputs, fits_inputs, flat_baseline
from leastpath.score.untouched import leave_untouched, modules_of

T = TypeVar("T")


class Space:
    """What is explained, as points: one batch of inputs, or of a layer's activations.

    Points have the shape `shape`: the input's features, the layer's features, or, for tuple inputs, one joint vector.
    With several baselines, a row of the inputs has several examples.
    """

    def __init__(self, score: ScoreFields, calls: ModelCalls, joint: bool, baselines_per_example: int) -> None:
        self._calls, self._layer = calls, score.layer
        self._raw = calls.inputs
        self._joint = joint and score.layer is None
        self._parts = list(self._raw)
        if score.layer is not None:
            with leave_untouched(score.model, self._raw):  # not every caller that binds is inside the guard
                self._parts = [calls.layer_outputs(score.layer, self._raw)]
        self._shapes = [part.shape[1:] for part in self._parts]
        self.source = torch.arange(calls.n_rows).repeat_interleave(baselines_per_example)  # (batch,) input row
        self.dtype = self._parts[0].dtype
        for part in self._parts[1:]:
            self.dtype = torch.promote_types(self.dtype, part.dtype)
        self.shape = torch.Size([sum(s.numel() for s in self._shapes)]) if self._joint else self._shapes[0]

    def row(self, example: int) -> int:
        """The row of the inputs that an example belongs to: with several baselines, a row has several examples."""
        return int(self.source[example])

    def inputs_of(self, rows: Tensor) -> list[Tensor]:
        """The inputs of some rows (n,), as the user gave them."""
        return [part[rows] for part in self._raw]

    def ends(self, baselines: Baselines) -> tuple[Tensor, Tensor]:
        """Where paths start and end: both (batch, *shape), in the explained dtype."""
        return self.join(self._starts(baselines)), self.points()

    def points(self) -> Tensor:
        """The inputs, or the layer's activations, as points: (batch, *shape)."""
        return self.join([part[self.source] for part in self._parts])

    def split(self, joint: Tensor) -> Inputs:
        """(n, *shape) back in the structure, shapes and dtypes of the explained inputs."""
        if not self._joint:
            dtype = self._parts[0].dtype
            return joint if joint.dtype == dtype else joint.to(dtype)
        sizes = [shape.numel() for shape in self._shapes]
        return tuple(
            flat.reshape(len(joint), *part.shape[1:]).to(part.dtype)
            for flat, part in zip(joint.split(sizes, dim=1), self._parts, strict=True)
        )

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`: tensors shaped like the explained inputs as points, (n, *shape)."""
        if not self._joint:
            return parts[0]
        return torch.cat([flat_rows(part).to(self.dtype) for part in parts], dim=1)

    def _starts(self, baselines: Baselines) -> list[Tensor]:
        """Baselines as rows of the explained parts, (batch, *features) each.

        With a layer, a tensor that does not have the raw inputs' shape is an activation; anything else is raw inputs.
        """
        layer, raw = self._layer, self._raw
        if layer is not None and isinstance(baselines, Tensor) and (len(raw) > 1 or not fits_inputs(baselines, raw[0])):
            return [self._baseline_rows(baselines, self._parts[0])]
        given = baselines if isinstance(baselines, tuple) else (baselines,)
        if len(given) == 1 and not isinstance(given[0], Tensor):
            given = given * len(raw)  # one number for all inputs
        if len(given) != len(raw):
            raise ValueError(f"got {len(given)} baselines for {len(raw)} inputs: pass a tuple with one per input")
        starts = [self._baseline_rows(baseline, part) for baseline, part in zip(given, raw, strict=True)]
        return starts if layer is None else [self._calls.layer_outputs(layer, starts)]

    def _baseline_rows(self, baseline: float | Tensor | None, part: Tensor) -> Tensor:
        rows = flat_baseline(baseline, part, len(self.source) // len(part))  # (batch, *features)
        if rows.is_floating_point() and not torch.isfinite(rows).all():
            raise ValueError("baselines hold NaN or infinite values: replace them, e.g. baselines.nan_to_num()")
        return rows


class BoundScore:
    """A score bound to a batch: the scalar field f and its gradient over the explained `space`.

    Row i of `points` gets the target and extra arguments of `examples[i]`. Arithmetic is done in `work_dtype` (at least
    float32); the model sees its own dtype. What is spent is counted for each example.
    """

    def __init__(self, score: ScoreFields, inputs: Inputs, baselines_per_example: int = 1) -> None:
        self.score = score
        self.calls = ModelCalls(score, inputs, integers_allowed=score.layer is not None)
        self.space = Space(score, self.calls, isinstance(inputs, tuple), baselines_per_example)
        self.batch, self.shape, self.device = len(self.space.source), self.space.shape, self.calls.device
        self.n_features = max(1, self.shape.numel())
        self.dtype = self.space.dtype
        self.work_dtype = torch.promote_types(self.dtype, torch.float32)
        self._targets = cast(CheckedTarget, score.target)
        if isinstance(self._targets, Tensor):
            n, given = self.calls.n_rows, len(self._targets)
            if given != n:
                raise ValueError(f"got {given} targets for {n} inputs: pass one int, or a tensor of shape ({n},)")
            self._targets = self._targets.to(self.device)
        self._per_example = score.layer is not None or self.calls.args_differ_by_row
        self._looks_up_rows = self._per_example or isinstance(self._targets, Tensor)
        self._trial_is_due = score.batch_size == "auto"
        if score.batch_size in (None, "auto"):  # a layer may be larger than the inputs
            self.calls.batch_size = min(self.calls.batch_size, default_batch_size(self.n_features, self.device))
        self.eps = torch.finfo(self.dtype).eps  # the rounding unit of the model's arithmetic, coarser under autocast
        if torch.is_autocast_enabled(self.device.type):
            self.eps = max(self.eps, torch.finfo(torch.get_autocast_dtype(self.device.type)).eps)
        self.gradients_spent = np.zeros(self.batch)  # rows differentiated, for each example
        self.forwards_spent = np.zeros(self.batch)  # rows evaluated without gradient
        self.after_gradients: Callable[[], None] | None = None  # called after each call of `gradients`: a watch
        self.largest_logit = np.zeros(self.batch)  # met by each example, where its score is a difference of logits

    @property
    def batch_size(self) -> int:
        """Rows in one model call; smaller than at first once memory has run out."""
        if self._trial_is_due:
            self._trial_is_due = False
            self.calls.batch_size = _fastest_batch(self)
        return self.calls.batch_size

    def on_private_copy(self) -> BoundScore:
        """The same score over a copy of the model, for hooks that nobody else may meet. Weights are shared.

        A model that cannot be copied is used itself. What is spent is counted here.
        """
        model, layer = _copy_privately(self.score.model, self.score.layer)
        twin = copy.copy(self)
        twin.score = replace(self.score, model=model, layer=layer)
        twin.calls = copy.copy(self.calls)
        twin.calls.model = model
        return twin

    # ---- who has which score -------------------------------------------------------------------------------------

    @property
    def groups(self) -> Tensor:
        """(batch,) examples of one group have the same f."""
        if self._per_example:  # extra arguments, or a layer of a model that also sees the example
            return self.space.source.clone()
        if isinstance(self._targets, Tensor):
            return torch.unique(self._targets.cpu()[self.space.source], return_inverse=True)[1]
        return torch.zeros(self.batch, dtype=torch.long)

    @property
    def group_labels(self) -> dict[int, int]:
        """The class index of each group; -1 if the score has no index."""
        if self._per_example:
            raise ValueError("a layer or per-example arguments make every example a score of its own")
        if not isinstance(self._targets, Tensor):
            return {0: self._targets if isinstance(self._targets, int) else -1}
        return dict(enumerate(torch.unique(self._targets.cpu()).tolist()))

    def classes(self, asked_by: str) -> Tensor:
        """(batch,) the class that each example's score is about; an error, for who asks, where it is about none."""
        if not isinstance(self._targets, (int, Tensor)):
            raise ValueError(
                f"{asked_by} needs a classifier and the class that is explained: give its index, Score(model, target=0)"
            )
        targets = torch.as_tensor(self._targets).cpu()
        return targets.expand(self.batch) if targets.ndim == 0 else targets[self.space.source]

    def split_cost(self, examples: Tensor) -> None:
        """Divide what some examples (n,) have spent evenly among them. They all saw the same logits."""
        for spent in (self.gradients_spent, self.forwards_spent):
            spent[examples.numpy()] = spent[examples.numpy()].mean()
        self.largest_logit[examples.numpy()] = self.largest_logit[examples.numpy()].max()

    # ---- f and its gradient --------------------------------------------------------------------------------------

    def values(self, points: Tensor, examples: Tensor, *, strict: bool = True) -> Tensor:
        """f at `points` (n, *shape), each with the score of its example (n,): (n,) in the working dtype.

        A score that is NaN or infinite is an error if `strict`, else it is returned.
        """
        self.count_forwards(examples)
        if not len(points):
            return torch.zeros(0, dtype=self.work_dtype, device=self.device)

        def chunk(some: Tensor, of: Tensor, rows: slice) -> Tensor:
            with torch.no_grad():
                value = self.evaluate(some, of).detach().to(self.work_dtype)
            return self._check_finite(value, of) if strict else value

        values = self.in_batches(chunk, points, examples)
        return values[0] if len(values) == 1 else torch.cat(values)

    def gradients(self, points: Tensor, examples: Tensor, *, strict: bool = True) -> tuple[Tensor, Tensor]:
        """f (n,) and its gradient (n, *shape) at `points`, in the working dtype; `strict` as in `values`."""
        self.count_gradients(examples)
        if not len(points):
            return points.new_zeros(0, dtype=self.work_dtype), points.to(self.work_dtype)
        if len(points) > 1:
            _ = self.batch_size  # a trial may be due

        def chunk(some: Tensor, of: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
            value, gradient = self.differentiate(some, of)
            return self._check_finite(value, of) if strict else value, gradient

        chunks = self.in_batches(chunk, points, examples)
        if self.after_gradients is not None:
            self.after_gradients()
        if len(chunks) == 1:
            return chunks[0]
        return torch.cat([value for value, _ in chunks]), torch.cat([gradient for _, gradient in chunks])

    def outputs(self, points: Tensor, examples: Tensor) -> Tensor:
        """The model's own output at `points` (n, *shape), before output and target: (n, …). Counts as forwards."""
        self.count_forwards(examples)

        def chunk(some: Tensor, of: Tensor, rows: slice) -> Tensor:
            with torch.no_grad():
                return self.whole_output(some, of).detach().to(self.work_dtype)

        return torch.cat(self.in_batches(chunk, points, examples))

    # ---- for derivatives.py: nothing here is counted, or cut to the size of a batch, by itself -----------------------

    def count_gradients(self, examples: Tensor, each: int = 1) -> None:
        """Rows of these examples (n,) are differentiated."""
        self.gradients_spent += each * np.bincount(examples.numpy(), minlength=self.batch)

    def count_forwards(self, examples: Tensor) -> None:
        """Rows of these examples (n,) are evaluated without gradient."""
        self.forwards_spent += np.bincount(examples.numpy(), minlength=self.batch)

    def in_batches(self, chunk: Callable[[Tensor, Tensor, slice], T], points: Tensor, examples: Tensor) -> list[T]:
        """`chunk(points, examples, rows)` for n rows, as many at a time as one model call may have."""

        def of_rows(rows: slice) -> T:
            if rows.stop - rows.start == len(points):  # the usual case: nothing to cut out
                return chunk(points, examples, rows)
            return chunk(points[rows], examples[rows], rows)

        return self.calls.in_batches(of_rows, len(points))

    def evaluate(self, points: Tensor, examples: Tensor) -> Tensor:
        """f at `points` (n, *shape), as a part of the caller's autograd graph: (n,)."""
        output, rows = self.run_model(points, examples), self._rows(examples)
        targets = self._targets[rows] if isinstance(self._targets, Tensor) else self._targets
        if self.score.output in ("log_softmax", "logit_margin"):  # differences have the logits' rounding errors
            logits = output_tensor(output)
            if logits.ndim > 1 and len(logits) == len(examples):  # other outputs are refused later
                largest = logits.detach().flatten(1).abs().amax(1).double().cpu().numpy()
                np.fmax.at(self.largest_logit, examples.numpy(), largest)  # fmax ignores NaN
        return scalar_output(output, targets, self.score.output, len(points), self.score.class_dim)

    def whole_output(self, points: Tensor, examples: Tensor) -> Tensor:
        """The tensor (n, …) that the model returns for `points`, as a part of the caller's autograd graph."""
        output = output_tensor(self.run_model(points, examples))
        check_rows(output, len(points))
        return output

    def run_model(self, points: Tensor, examples: Tensor) -> Any:
        """What the model returns with `points` in the place of the examples' inputs, or of its layer's output."""
        rows = self._rows(examples)
        given = points.to(self.dtype, copy=True)  # the model may write on it
        if self.score.layer is None:
            parts = self.space.split(given)
            return self.calls(parts if isinstance(parts, tuple) else (parts,), rows)

        def replace_output(_module: nn.Module, _inputs: Any, output: Any) -> Any:
            return (given, *output[1:]) if isinstance(output, tuple) else given

        with self.score.layer.register_forward_hook(in_this_thread(replace_output)):
            return self.calls(self.space.inputs_of(rows), rows)

    def differentiate(self, points: Tensor, examples: Tensor) -> tuple[Tensor, Tensor]:
        """f (n,) and its gradient (n, *shape) at `points`, in one model call."""
        # A leaf made here is differentiable even if the caller is in no_grad or inference mode.
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False):
                return self.differentiate(points, examples)
        with torch.enable_grad():
            given = points if points.dtype == self.dtype else points.to(self.dtype)
            leaf = (given.clone() if given.is_inference() else given.detach()).requires_grad_()
            value = self.evaluate(leaf, examples)
            if not value.requires_grad:
                raise ValueError(
                    "the score does not depend on the inputs: no gradient flows from the output back to them. "
                    "Look for torch.no_grad(), .detach(), .item() or integer casts inside the model"
                )
            (gradient,) = torch.autograd.grad(value, leaf, torch.ones_like(value), allow_unused=True)
        if gradient is None:
            raise ValueError(
                "the score does not depend on the inputs: the explained output never uses them. "
                "Check target, output and layer of the Score"
            )
        value = value.detach()
        if value.dtype == gradient.dtype == self.work_dtype:
            return value, gradient
        return value.to(self.work_dtype), gradient.to(self.work_dtype)

    # ---- inside --------------------------------------------------------------------------------------------------

    def _rows(self, examples: Tensor) -> Tensor:
        """The rows of the inputs that examples (n,) belong to, where somebody looks them up."""
        return self.space.source[examples].to(self.device) if self._looks_up_rows else examples

    def _check_finite(self, value: Tensor, examples: Tensor) -> Tensor:
        if not torch.isfinite(value).all():
            bad = self.space.row(int(examples[int((~torch.isfinite(value)).nonzero()[0].cpu())]))
            raise ValueError(
                f"the score of example {bad} is NaN or infinite along its path: explain a finite output "
                f'(output="log_softmax" rather than the logarithm of a softmax), or drop this example'
            )
        return value


def _fastest_batch(score: BoundScore) -> int:
    """As many rows in one model call as take the least time per gradient; tried once for a Score."""
    known = score.score.batch_size.found
    model, layer = score.score.model, score.score.layer
    key = (id(model), id(layer), score.shape, score.dtype, score.device, torch.get_num_threads())
    if key not in known:
        logits = score.largest_logit.copy()
        known[key] = fastest_size(lambda rows: _seconds(score, rows), score.calls.batch_size)
        score.largest_logit[:] = logits  # a trial leaves no trace
    return int(known[key])


def _seconds(score: BoundScore, rows: int) -> float | None:
    """How long one gradient of a batch of `rows` takes, the better of two; None if memory runs out."""
    points, first = score.space.points()[torch.zeros(rows, dtype=torch.long)], torch.zeros(rows, dtype=torch.long)
    clock, taken = clock_of(score.device), []
    for _ in range(2):
        begin = clock()
        try:
            score.differentiate(points, first)
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                return None
            raise
        taken.append(clock() - begin)
    return min(taken)


def _copy_privately(model: Any, layer: nn.Module | None) -> tuple[Any, nn.Module | None]:
    """A model and one of its layers with the same weights but modules of their own; as they are, if that fails."""
    kept = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    try:
        return copy.deepcopy((model, layer), {id(tensor): tensor for tensor in kept})
    except Exception:  # a model may hold anything, such as an open file, and say so in any way
        return model, layer


def check_rows_are_independent(score: BoundScore, start: Tensor, end: Tensor) -> None:
    """Refuse models whose score of a row depends on the other rows, as with BatchNorm in training mode.

    The row is compared among others and among copies of itself: batches of one size round alike. Where both give 0, as
    for an input of zeros, nothing is known, and its baseline is compared too.
    """
    companions = torch.cat([end[:1], start[:1], end[1:2]])
    examples = torch.tensor([0, 0, 1])[: len(companions)]
    try:
        among_others = score.values(companions, examples)
        together, alone = among_others[0], _among_copies(score, companions, 0)
        if together == alone == 0:
            together, alone = among_others[1], _among_copies(score, companions, 1)
    except ValueError as error:  # BatchNorm refuses to make statistics of a single row
        if not any(isinstance(module, _BatchNorm) and module.training for module in modules_of(score.score.model)):
            raise
        raise ValueError(_DEPENDENT_ROWS.format(alone="an error", together="a score")) from error
    # Some kernels round differently from call to call; dependence shows orders of magnitude above that.
    allowed = max(1e-3, 64 * score.eps) * max(1e-6, float(together.abs()), float(alone.abs()))
    if float((alone - together).abs()) > allowed:
        raise ValueError(_DEPENDENT_ROWS.format(alone=f"{float(alone):.6g}", together=f"{float(together):.6g}"))
    score.largest_logit[:] = 0  # this check saw only the first examples of the batch


def _among_copies(score: BoundScore, companions: Tensor, row: int) -> Tensor:
    """The score of a point of example 0 in a batch of copies of it."""
    copies = companions[row : row + 1].expand_as(companions)
    return score.values(copies, torch.zeros(len(copies), dtype=torch.long))[0]


_DEPENDENT_ROWS = (
    "the model's rows are not independent: example 0 gives {alone} among copies of itself, {together} among others. "
    "Attributions would mix examples. Call model.eval() (BatchNorm, dropout), "
    "or explain one example at a time with Score(…, batch_size=1)"
)
