"""BoundScore: a score over one batch, as a scalar field f and its gradient. The only file that runs the model.

Adapters wrap a model in a module of their own, which is then the model that is run here. The methods that are Captum's
get `BoundScore.differentiable` in place of the model. Only `leastpath.captum` gives the user's model to Captum itself,
for a convergence delta, inside the same guard.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from leastpath._support.fastest import clock_of, fastest_size
from leastpath._support.rows import flat_rows
from leastpath._support.threads import in_this_thread
from leastpath.geometry.metric import FeatureMetric
from leastpath.score.arguments import Answers, Marked, per_example, readings_of, settled, shared
from leastpath.score.guards import (
    Baselines,
    CheckedTarget,
    Inputs,
    UnfitInputs,
    advice_on,
    as_the_user_runs_it,
    at_work,
    checked_inputs,
    fits_inputs,
    flat_baseline,
    is_out_of_memory,
    ordinary,
    seen_drawing,
    untouched,
)
from leastpath.score.outputs import check_rows, output_tensor, scalar_output

if TYPE_CHECKING:
    from leastpath.score.score import Score

T = TypeVar("T")

DEFAULT_BATCH_ELEMENTS = 4_194_304  # numbers of the inputs in one model call by default: 27 ImageNet images
# On a CPU: 3 of them. The memory of larger activations is given back and zeroed anew in every call, which takes longer
# than a larger batch saves.
CPU_BATCH_ELEMENTS = 524_288
DEFAULT_BATCH_CEILING = 8_192  # rows: larger batches are not faster
# What trials have found, by model: Score(…, batch_size="auto"). Only speed depends on it.
_FASTEST: MutableMapping[Any, dict[Any, int]] = WeakKeyDictionary()


class ModelCalls:
    """Calls of a score's model for rows of one batch of inputs.

    Extra arguments go along row by row. A call has at most `batch_size` rows, halved when memory runs out.
    """

    def __init__(self, score: Score, inputs: Inputs, integers_allowed: bool) -> None:
        self.model = score.model
        self.inputs = checked_inputs(inputs, integers_allowed)
        self.n_rows = len(self.inputs[0])
        self.device = self.inputs[0].device
        by_size = default_batch_size(sum(part[0].numel() for part in self.inputs), self.device)
        chosen = score.batch_size
        self.batch_size = by_size if chosen is None or chosen == "auto" else chosen
        self._warned_of_memory = False
        self._seen: set[bool] = set()  # kinds of calls that were watched for random numbers
        self._args = self._bound_args(score)
        self.args_differ_by_row = any(by_row for _, by_row in self._args)

    def __call__(self, parts: Sequence[Tensor], rows: Tensor) -> Any:
        """The model's output for inputs (n, …) with the extra arguments of `rows` (n,); advice if inputs do not fit."""
        try:
            with as_the_user_runs_it(), seen_drawing(self.model) if self._first_of_its_kind() else nullcontext():
                return self.model(*parts, *(arg[rows] if by_row else arg for arg, by_row in self._args))
        except (RuntimeError, IndexError, ValueError) as error:
            advice = self._advice_on_args(error) or advice_on(
                self.model, self.inputs[0], error, [arg for arg, _ in self._args]
            )
            if advice is None:
                raise
            raise advice from error

    def _first_of_its_kind(self) -> bool:
        """Whether this is the first call with, or the first without gradient."""
        kind = torch.is_grad_enabled()
        if kind in self._seen:
            return False
        self._seen.add(kind)
        return True

    def outputs(self) -> Tensor:
        """The model's output for every row of the inputs: (rows, …)."""

        def chunk(rows: slice) -> Tensor:
            each = torch.arange(self.n_rows, device=self.device)[rows]
            with torch.no_grad():
                output = output_tensor(self([part[rows] for part in self.inputs], each)).detach()
            check_rows(output, len(each))
            return output

        return torch.cat(self.in_batches(chunk, self.n_rows))

    def layer_outputs(self, layer: nn.Module, parts: Sequence[Tensor]) -> Tensor:
        """A layer's output for inputs (rows · m, …), m in a row for each row of the batch: (rows · m, *features)."""
        n = len(parts[0])
        source = torch.arange(self.n_rows, device=self.device).repeat_interleave(n // self.n_rows)

        def chunk(rows: slice) -> Tensor:
            given = [part[rows] for part in parts]
            with torch.no_grad(), recorded(layer) as seen:
                self(given, source[rows])
            return the_only(seen, len(given[0])).detach()

        return torch.cat(self.in_batches(chunk, n))

    def in_batches(self, chunk: Callable[[slice], T], n: int) -> list[T]:
        """`chunk` for n rows, at most `batch_size` at a time; on out-of-memory it tries again with half as many."""
        results: list[T] = []
        start = 0
        while start < n:
            rows = slice(start, min(n, start + self.batch_size))
            try:
                results.append(chunk(rows))
            except (RuntimeError, MemoryError) as error:
                self._halve_or_raise(error, rows.stop - rows.start)
                continue
            start = rows.stop
        return results

    def _halve_or_raise(self, error: Exception, rows: int) -> None:
        if not is_out_of_memory(error) or rows <= 1:
            raise error
        self.batch_size = rows // 2  # half of what was tried, which may be less than a full batch
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if not self._warned_of_memory:
            self._warned_of_memory = True
            warnings.warn(
                f"out of memory: batch_size was halved to {self.batch_size} and the work goes on; "
                f"pass Score(…, batch_size={self.batch_size}) to start there",
                RuntimeWarning,
                stacklevel=2,
            )

    # ---- extra arguments -----------------------------------------------------------------------------------------

    @property
    def marked_args(self) -> tuple[Any, ...]:
        """The extra arguments, each with a mark that says whether it has one row for each row of the inputs."""
        return tuple(per_example(arg) if by_row else shared(arg) for arg, by_row in self._args)

    def _bound_args(self, score: Score) -> list[tuple[Any, bool]]:
        """Each extra argument, and whether it has one row for each row of the inputs."""
        given = score.additional_forward_args
        values = [arg.value if isinstance(arg, Marked) else arg for arg in given]
        values = [ordinary(v) if isinstance(v, Tensor) and v.is_inference() else v for v in values]
        readings = readings_of(given, self.n_rows)
        self._unmarked = [i for i, arg in enumerate(given) if isinstance(arg, Tensor)]
        if None in readings:
            shapes = [str(tuple(v.shape)) if isinstance(v, Tensor) else "" for v in values]
            with at_work(self.model, self.device):  # not every caller that binds is inside the guard
                readings = list(settled(readings, self.n_rows, shapes, partial(self._answers, score, values), 1e-3))
        return [(self._on_device(v) if by_row else v, bool(by_row)) for v, by_row in zip(values, readings, strict=True)]

    def _on_device(self, arg: Tensor) -> Tensor:
        return arg.to(self.device)

    def _answers(self, score: Score, values: list[Any], readings: list[bool]) -> Answers | None:
        """What the model says of the first, middle and last row alone; None where it cannot work so.

        Each row is also tried moved: an input of zeros may hide what an argument does. A batch of one row is tried as
        two copies of it: alone, both readings are the same.
        """
        copies = 2 if self.n_rows == 1 and self.batch_size > 1 else 1
        found: Answers = []
        for row in sorted({0, self.n_rows // 2, self.n_rows - 1}):
            rows = torch.full((copies,), row, device=self.device)
            args = [self._on_device(v)[rows] if by_row else v for v, by_row in zip(values, readings, strict=True)]
            parts = [part[rows] for part in self.inputs]
            here = self._answer(score, parts, args, rows)
            if here is None:
                return None
            moved = self._answer(score, [_moved(part) for part in parts], args, rows)
            unreadable = [None if part is None else torch.full_like(part, torch.nan) for part in here]
            found += [here, cast(tuple[Tensor, Tensor | None], tuple(unreadable)) if moved is None else moved]
        return found

    def _answer(
        self, score: Score, parts: list[Tensor], args: list[Any], rows: Tensor
    ) -> tuple[Tensor, Tensor | None] | None:
        """What the model returns, and the score, None where it is not asked for; None where the model fails."""
        target: Any = score.target
        if isinstance(target, Tensor) and len(target) == self.n_rows:
            target = target.to(self.device)[rows]
        try:
            output = self.model(*parts, *args)
            raw = output_tensor(output)
            check_rows(raw, len(rows))
        except Exception as error:
            if is_out_of_memory(error):
                raise
            return None
        try:
            return raw, scalar_output(output, target, score.output, len(rows))
        except Exception:  # the score is not asked for, or wrong for both readings
            return raw, None

    def _advice_on_args(self, error: Exception) -> UnfitInputs | None:
        """That an extra argument may be why shapes do not fit: one without a mark, of another length than the batch."""
        lengths = {i: self._args[i][0].shape for i in self._unmarked if self._args[i][0].ndim}
        odd = next((i for i, shape in lengths.items() if shape[0] not in (1, self.n_rows)), None)
        if odd is None or is_out_of_memory(error):
            return None
        return UnfitInputs(
            f"the model fails with additional_forward_args[{odd}] of shape {tuple(lengths[odd])} and a batch of "
            f"{self.n_rows}. If it has one row for each example, give {self.n_rows} rows; if all examples share it, "
            f"mark it lp.shared(…) and see that it fits the model. The model's error: {error}"
        )


class BoundScore:
    """A score bound to a batch: the scalar field f and its gradient over the explained space.

    Points have the shape `shape`: the input's features, the layer's features, or, for tuple inputs, one joint vector.
    Row i of `points` gets the target and extra arguments of `examples[i]`. Arithmetic is done in `work_dtype` (at least
    float32); the model sees its own dtype.
    """

    def __init__(self, score: Score, inputs: Inputs, baselines_per_example: int = 1) -> None:
        self.score = score
        self._calls = ModelCalls(score, inputs, integers_allowed=score.layer is not None)
        self._raw = self._calls.inputs
        self.device = self._calls.device
        self._source = torch.arange(len(self._raw[0])).repeat_interleave(baselines_per_example)  # (batch,) input row
        self.batch = len(self._source)
        self._targets = cast(CheckedTarget, score.target)
        if isinstance(self._targets, Tensor):
            n, given = len(self._raw[0]), len(self._targets)
            if given != n:
                raise ValueError(f"got {given} targets for {n} inputs: pass one int, or a tensor of shape ({n},)")
            self._targets = self._targets.to(self.device)
        self._per_example = score.layer is not None or self._calls.args_differ_by_row
        self._looks_up_rows = self._per_example or isinstance(self._targets, Tensor)
        self._joint = isinstance(inputs, tuple) and score.layer is None
        self._explained = list(self._raw)
        if score.layer is not None:
            with untouched(score.model, self.device):  # not every caller that binds is inside the guard
                self._explained = [self._calls.layer_outputs(score.layer, self._raw)]
        self._shapes = [part.shape[1:] for part in self._explained]
        self.dtype = self._explained[0].dtype
        for part in self._explained[1:]:
            self.dtype = torch.promote_types(self.dtype, part.dtype)
        self.work_dtype = torch.promote_types(self.dtype, torch.float32)
        self.shape = torch.Size([sum(s.numel() for s in self._shapes)]) if self._joint else self._shapes[0]
        self.n_features = max(1, self.shape.numel())
        self._trial_is_due = score.batch_size == "auto"
        if score.batch_size in (None, "auto"):  # a layer may be larger than the inputs
            self._calls.batch_size = min(self._calls.batch_size, default_batch_size(self.n_features, self.device))
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
            self._calls.batch_size = self._fastest_batch()
        return self._calls.batch_size

    def on_private_copy(self) -> BoundScore:
        """The same score over a copy of the model, for hooks that nobody else may meet. Weights are shared.

        A model that cannot be copied is used itself. What is spent is counted here.
        """
        model, layer = _private_copy(self.score.model, self.score.layer)
        twin = copy.copy(self)
        twin.score = replace(self.score, model=model, layer=layer)
        twin._calls = copy.copy(self._calls)
        twin._calls.model = model
        return twin

    # ---- the explained space -------------------------------------------------------------------------------------

    @property
    def groups(self) -> Tensor:
        """(batch,) examples of one group have the same f."""
        if self._per_example:  # extra arguments, or a layer of a model that also sees the example
            return self._source.clone()
        if isinstance(self._targets, Tensor):
            return torch.unique(self._targets.cpu()[self._source], return_inverse=True)[1]
        return torch.zeros(self.batch, dtype=torch.long)

    @property
    def group_labels(self) -> dict[int, int]:
        """The class index of each group; -1 if the score has no index."""
        if self._per_example:
            raise ValueError("a layer or per-example arguments make every example a score of its own")
        if not isinstance(self._targets, Tensor):
            return {0: self._targets if isinstance(self._targets, int) else -1}
        return dict(enumerate(torch.unique(self._targets.cpu()).tolist()))

    def split_cost(self, examples: Tensor) -> None:
        """Divide what some examples (n,) have spent evenly among them. They all saw the same logits."""
        for spent in (self.gradients_spent, self.forwards_spent):
            spent[examples.numpy()] = spent[examples.numpy()].mean()
        self.largest_logit[examples.numpy()] = self.largest_logit[examples.numpy()].max()

    def row(self, example: int) -> int:
        """The row of the inputs that an example belongs to: with several baselines, a row has several examples."""
        return int(self._source[example])

    def ends(self, baselines: Baselines) -> tuple[Tensor, Tensor]:
        """Where paths start and end: both (batch, *shape), in the explained dtype."""
        return self.join(self._starts(baselines)), self.explained()

    def explained(self) -> Tensor:
        """The inputs, or the layer's activations, as points: (batch, *shape)."""
        return self.join([part[self._source] for part in self._explained])

    def split(self, joint: Tensor) -> Inputs:
        """(n, *shape) back in the structure, shapes and dtypes of the explained inputs."""
        if not self._joint:
            dtype = self._explained[0].dtype
            return joint if joint.dtype == dtype else joint.to(dtype)
        sizes = [shape.numel() for shape in self._shapes]
        return tuple(
            flat.reshape(len(joint), *part.shape[1:]).to(part.dtype)
            for flat, part in zip(joint.split(sizes, dim=1), self._explained, strict=True)
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
        layer, raw = self.score.layer, self._raw
        if layer is not None and isinstance(baselines, Tensor) and (len(raw) > 1 or not fits_inputs(baselines, raw[0])):
            return [self._baseline_rows(baselines, self._explained[0])]
        given = baselines if isinstance(baselines, tuple) else (baselines,)
        if len(given) == 1 and not isinstance(given[0], Tensor):
            given = given * len(raw)  # one number for all inputs
        if len(given) != len(raw):
            raise ValueError(f"got {len(given)} baselines for {len(raw)} inputs: pass a tuple with one an input")
        starts = [self._baseline_rows(baseline, part) for baseline, part in zip(given, raw, strict=True)]
        return starts if layer is None else [self._calls.layer_outputs(layer, starts)]

    def _baseline_rows(self, baseline: float | Tensor | None, part: Tensor) -> Tensor:
        rows = flat_baseline(baseline, part, self.batch // len(part))  # (batch, *features)
        if rows.is_floating_point() and not torch.isfinite(rows).all():
            raise ValueError("baselines hold NaN or infinite values: replace them, e.g. baselines.nan_to_num()")
        return rows

    # ---- f and its gradient --------------------------------------------------------------------------------------

    def values(self, points: Tensor, examples: Tensor, *, strict: bool = True) -> Tensor:
        """f at `points` (n, *shape), each with the score of its example (n,): (n,) in the working dtype.

        A score that is NaN or infinite is an error if `strict`, else it is returned.
        """
        self.forwards_spent += np.bincount(examples.numpy(), minlength=self.batch)
        if not len(points):
            return torch.zeros(0, dtype=self.work_dtype, device=self.device)

        def chunk(rows: slice) -> Tensor:
            whole = rows.stop - rows.start == len(points)
            some, of = (points, examples) if whole else (points[rows], examples[rows])
            with torch.no_grad():
                value = self._run(some, of).detach().to(self.work_dtype)
            return self._finite(value, of) if strict else value

        values = self._calls.in_batches(chunk, len(points))
        return values[0] if len(values) == 1 else torch.cat(values)

    def gradients(self, points: Tensor, examples: Tensor, *, strict: bool = True) -> tuple[Tensor, Tensor]:
        """f (n,) and its gradient (n, *shape) at `points`, in the working dtype; `strict` as in `values`."""
        self.gradients_spent += np.bincount(examples.numpy(), minlength=self.batch)
        if not len(points):
            return points.new_zeros(0, dtype=self.work_dtype), points.to(self.work_dtype)
        if self._trial_is_due and len(points) > 1:
            self._calls.batch_size = self._fastest_batch()

        def chunk(rows: slice) -> tuple[Tensor, Tensor]:
            whole = rows.stop - rows.start == len(points)  # the usual case: nothing to cut out
            some, of = (points, examples) if whole else (points[rows], examples[rows])
            value, gradient = self._differentiated(some, of)
            return self._finite(value, of) if strict else value, gradient

        chunks = self._calls.in_batches(chunk, len(points))
        if self.after_gradients is not None:
            self.after_gradients()
        if len(chunks) == 1:
            return chunks[0]
        return torch.cat([value for value, _ in chunks]), torch.cat([gradient for _, gradient in chunks])

    def differentiable(self, points: Tensor, examples: Tensor) -> Tensor:
        """f at `points` (n, *shape) as a part of the caller's autograd graph: (n,), in one model call of any size.

        Counts as gradients if the points require one, else it is `values`.
        """
        if not (torch.is_grad_enabled() and points.requires_grad):
            return self.values(points, examples)
        self.gradients_spent += np.bincount(examples.numpy(), minlength=self.batch)
        value = self._run(points, examples)
        if self.after_gradients is not None:
            self.after_gradients()
        return value

    def classes(self, asked_by: str) -> Tensor:
        """(batch,) the class that each example's score is about; an error, for who asks, where it is about none."""
        if not isinstance(self._targets, (int, Tensor)):
            raise ValueError(
                f"{asked_by} needs a classifier and the class that is explained: give its index, Score(model, target=0)"
            )
        targets = torch.as_tensor(self._targets).cpu()
        return targets.expand(self.batch) if targets.ndim == 0 else targets[self._source]

    def outputs(self, points: Tensor, examples: Tensor) -> Tensor:
        """The model's own output at `points` (n, *shape), before output and target: (n, …). Counts as forwards."""
        self.forwards_spent += np.bincount(examples.numpy(), minlength=self.batch)

        def chunk(rows: slice) -> Tensor:
            with torch.no_grad():
                return self._whole_output(points[rows], examples[rows]).detach().to(self.work_dtype)

        return torch.cat(self._calls.in_batches(chunk, len(points)))

    def output_gradients(
        self, points: Tensor, examples: Tensor, of: Callable[[Tensor, slice], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The model's own output (n, …) at `points` (n, *shape), and the gradient (n, *shape) of a function of it.

        `of(outputs, rows)` gives one number for each of some outputs; `rows` says which of the n they are. Counts as
        gradients.
        """
        self.gradients_spent += np.bincount(examples.numpy(), minlength=self.batch)

        def chunk(rows: slice) -> tuple[Tensor, Tensor]:
            with torch.inference_mode(False), torch.enable_grad():
                leaf = ordinary(points[rows].to(self.dtype)).requires_grad_()
                output = self._whole_output(leaf, examples[rows])
                value = of(output.to(self.work_dtype), rows)
                gradient = None
                if value.requires_grad:
                    (gradient,) = torch.autograd.grad(value.sum(), leaf, allow_unused=True)
            gradient = torch.zeros_like(leaf) if gradient is None else gradient
            return output.detach().to(self.work_dtype), gradient.detach().to(self.work_dtype)

        chunks = self._calls.in_batches(chunk, len(points))
        return torch.cat([output for output, _ in chunks]), torch.cat([gradient for _, gradient in chunks])

    def _whole_output(self, points: Tensor, examples: Tensor) -> Tensor:
        output = output_tensor(self._output(points, examples))
        check_rows(output, len(points))
        return output

    def features(self, points: Tensor, examples: Tensor, metric: FeatureMetric, *, strict: bool = True) -> Tensor:
        """What a metric compares, at `points` (n ≥ 1, *shape) with the inputs of each example (n,): (n, width).

        Counts as forwards. Features that are NaN or infinite are an error if `strict`, else they are returned.
        """
        self.forwards_spent += np.bincount(examples.numpy(), minlength=self.batch)

        def chunk(rows: slice) -> Tensor:
            with torch.no_grad():
                return metric.features(self._read(points[rows], examples[rows], metric)).detach()

        found = torch.cat(self._calls.in_batches(chunk, len(points)))
        if strict and not torch.isfinite(found).all():
            bad = self.row(int(examples[int((~torch.isfinite(found)).any(1).nonzero()[0].cpu())]))
            raise ValueError(
                f"what {metric!r} compares is NaN or infinite on the path of example {bad}: drop this example, or "
                "measure with another metric, as in metric=lp.Conformal()"
            )
        return found

    def pulled_back(self, points: Tensor, examples: Tensor, metric: FeatureMetric, vectors: Tensor) -> Tensor:
        """The derivative of Σ vectors · features by the points, (n, width) -> (n, *shape). Counts as gradients."""
        self.gradients_spent += np.bincount(examples.numpy(), minlength=self.batch)

        def chunk(rows: slice) -> Tensor:
            with torch.inference_mode(False), torch.enable_grad():
                leaf = ordinary(points[rows].to(self.dtype)).requires_grad_()
                found = metric.features(self._read(leaf, examples[rows], metric))
                pulled = None
                if found.requires_grad:
                    (pulled,) = torch.autograd.grad(found, leaf, vectors[rows].to(found), allow_unused=True)
            if pulled is None:
                raise ValueError(
                    f"what {metric!r} compares does not depend on the inputs: choose a layer that comes after what is "
                    "explained, and look for torch.no_grad() or .detach() inside the model"
                )
            return pulled.to(self.work_dtype)

        pulled = self._calls.in_batches(chunk, len(points))
        return torch.cat(pulled) if pulled else points.to(self.work_dtype)

    def hessian_vector(self, points: Tensor, vectors: Tensor, examples: Tensor) -> Tensor:
        """The Hessian of f at `points` times `vectors`, (n, *shape) all three, by double back-propagation.

        Counts as two gradients a row. Zero where the gradient is piecewise constant, as in a ReLU net's logits.
        """
        self.gradients_spent += 2 * np.bincount(examples.numpy(), minlength=self.batch)

        def chunk(rows: slice) -> Tensor:
            # Only the plain kernel of attention has a second derivative.
            with torch.inference_mode(False), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
                leaf = ordinary(points[rows].to(self.dtype)).requires_grad_()
                value = self._run(leaf, examples[rows])
                (gradient,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
                along = (gradient * vectors[rows].detach().to(gradient)).sum()
                product = None
                if along.requires_grad:
                    (product,) = torch.autograd.grad(along, leaf, allow_unused=True)
            return torch.zeros_like(points[rows]) if product is None else product.detach().to(self.work_dtype)

        products = self._calls.in_batches(chunk, len(points))
        return torch.cat(products) if products else torch.zeros_like(points)

    def _fastest_batch(self) -> int:
        """The rows in one model call that take the least time a gradient; tried once for a model and a shape."""
        self._trial_is_due = False
        try:
            known = _FASTEST.setdefault(self.score.model, {})
        except TypeError:  # some callables cannot be keys
            known = {}
        key = (id(self.score.layer), *self._shapes, self.dtype, self.device, torch.get_num_threads())
        if key not in known:
            logits = self.largest_logit.copy()
            known[key] = fastest_size(self._seconds, self._calls.batch_size)
            self.largest_logit[:] = logits  # a trial leaves no trace
        return known[key]

    def _seconds(self, rows: int) -> float | None:
        """How long one gradient of a batch of `rows` takes, the better of two; None if memory runs out."""
        point, first = self.join([part[:1] for part in self._explained]), torch.zeros(rows, dtype=torch.long)
        points, taken = point.expand(rows, *point.shape[1:]).contiguous(), []
        clock = clock_of(self.device)
        for _ in range(2):
            begin = clock()
            try:
                self._differentiated(points, first)
            except (RuntimeError, MemoryError) as error:
                if is_out_of_memory(error):
                    return None
                raise
            taken.append(clock() - begin)
        return min(taken)

    def _differentiated(self, points: Tensor, examples: Tensor) -> tuple[Tensor, Tensor]:
        # A leaf made here is differentiable even if the caller is in no_grad or inference mode.
        if torch.is_inference_mode_enabled():
            with torch.inference_mode(False):
                return self._differentiated(points, examples)
        with torch.enable_grad():
            given = points if points.dtype == self.dtype else points.to(self.dtype)
            leaf = (given.clone() if given.is_inference() else given.detach()).requires_grad_()
            value = self._run(leaf, examples)
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

    def _rows(self, examples: Tensor) -> Tensor:
        """The rows of the inputs that examples (n,) belong to, where somebody looks them up."""
        return self._source[examples].to(self.device) if self._looks_up_rows else examples

    def _output(self, points: Tensor, examples: Tensor) -> Any:
        """What the model returns with `points` in the place of the examples' inputs, or of its layer's output."""
        rows = self._rows(examples)
        given = points.to(self.dtype, copy=True)  # the model may write on it
        if self.score.layer is None:
            parts = self.split(given)
            return self._calls(parts if isinstance(parts, tuple) else (parts,), rows)

        def replaced(_module: nn.Module, _inputs: Any, output: Any) -> Any:
            return (given, *output[1:]) if isinstance(output, tuple) else given

        with self.score.layer.register_forward_hook(in_this_thread(replaced)):
            return self._calls([part[rows] for part in self._raw], rows)

    def _read(self, points: Tensor, examples: Tensor, metric: FeatureMetric) -> Tensor:
        """What a metric reads: the model's output, or that of its layer, (n, …)."""
        if metric.layer is None:
            return self._whole_output(points, examples)
        if metric.layer is self.score.layer:  # its output is the point itself
            return points.to(self.dtype)
        with recorded(metric.layer) as seen:
            self._output(points, examples)
        return the_only(seen, len(points))

    def _run(self, points: Tensor, examples: Tensor) -> Tensor:
        output, rows = self._output(points, examples), self._rows(examples)
        targets = self._targets[rows] if isinstance(self._targets, Tensor) else self._targets
        if self.score.output in (
            "log_softmax",
            "logit_margin",
        ):  # differences of logits have the logits' rounding errors
            logits = output_tensor(output)
            if logits.ndim > 1 and len(logits) == len(examples):  # other outputs are refused later
                largest = logits.detach().flatten(1).abs().amax(1).double().cpu().numpy()
                np.fmax.at(self.largest_logit, examples.numpy(), largest)  # fmax ignores NaN
        return scalar_output(output, targets, self.score.output, len(points))

    def _finite(self, value: Tensor, examples: Tensor) -> Tensor:
        if not torch.isfinite(value).all():
            bad = self.row(int(examples[int((~torch.isfinite(value)).nonzero()[0].cpu())]))
            raise ValueError(
                f"the score of example {bad} is NaN or infinite along its path: explain a finite output "
                f'(output="log_softmax" rather than the logarithm of a softmax), or drop this example'
            )
        return value


@contextmanager
def recorded(layer: nn.Module) -> Iterator[list[Tensor]]:
    """What a layer returns while the model runs inside the block: one tensor for each time it runs."""
    seen: list[Tensor] = []

    def record(_module: nn.Module, _inputs: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        if not isinstance(first, Tensor):
            raise ValueError(
                f"layer returns {type(first).__name__}, expected a tensor: choose a layer with a tensor output"
            )
        seen.append(first.clone())  # what follows may write on the layer's own output

    with layer.register_forward_hook(in_this_thread(record)):
        yield seen


def the_only(seen: Sequence[Tensor], rows: int) -> Tensor:
    """The one tensor (rows, …) that a layer returned in one forward pass."""
    if len(seen) != 1:
        raise ValueError(
            f"layer ran {len(seen)} times in one forward pass: it must be a part of the model, and run exactly once"
        )
    if seen[0].ndim == 0 or len(seen[0]) != rows:
        raise ValueError(f"layer returns {tuple(seen[0].shape)} for {rows} inputs: expected (batch, …)")
    return seen[0]


def _moved(part: Tensor) -> Tensor:
    """Another input of the same kind; integers, which may be ids, stay as they are."""
    if not part.is_floating_point():
        return part
    step = torch.linspace(0.5, 1.0, part[0].numel(), dtype=part.dtype, device=part.device).reshape(part.shape[1:])
    return part + step


def _private_copy(model: Any, layer: nn.Module | None) -> tuple[Any, nn.Module | None]:
    """A model and one of its layers with the same weights but modules of their own; as they are, if that fails."""
    kept = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    try:
        return copy.deepcopy((model, layer), {id(tensor): tensor for tensor in kept})
    except Exception:  # a model may hold anything, such as an open file, and say so in any way
        return model, layer


def default_batch_size(elements: int, device: torch.device) -> int:
    """Rows in one model call, for inputs of `elements` numbers a row."""
    most = CPU_BATCH_ELEMENTS if device.type == "cpu" else DEFAULT_BATCH_ELEMENTS
    return max(1, min(DEFAULT_BATCH_CEILING, most // max(1, elements)))
