"""BoundScore: a score over one batch, as a scalar field f and its gradient. The only file that runs the model.

Adapters wrap a model in a module of their own, which is then the model that is run here. The methods that are Captum's
get `BoundScore.differentiable` in place of the model. Only `leastpath.captum` gives the user's model to Captum itself,
for a convergence delta, inside the same guard.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from leastpath._support.rows import flat_rows
from leastpath._support.threads import in_this_thread
from leastpath.guards import (
    Baselines,
    CheckedTarget,
    Inputs,
    advice_on,
    as_the_user_runs_it,
    checked_inputs,
    fits_inputs,
    flat_baseline,
    is_out_of_memory,
    ordinary,
    seen_drawing,
    untouched,
)
from leastpath.outputs import check_rows, output_tensor, scalar_output

if TYPE_CHECKING:
    from leastpath.score import Score

T = TypeVar("T")

DEFAULT_BATCH_ELEMENTS = 4_194_304  # numbers of the inputs in one model call by default: 27 ImageNet images
DEFAULT_BATCH_CEILING = 8_192  # rows: larger batches are not faster


class ModelCalls:
    """Calls of a score's model for rows of one batch of inputs.

    Extra arguments go along row by row. A call has at most `batch_size` rows, halved when memory runs out.
    """

    def __init__(self, score: Score, inputs: Inputs, integers_allowed: bool) -> None:
        self.model = score.model
        self.inputs = checked_inputs(inputs, integers_allowed)
        self.n_rows = len(self.inputs[0])
        self.device = self.inputs[0].device
        self._args = [self._bound_arg(arg) for arg in score.additional_forward_args]
        self.args_differ_by_row = any(by_row for _, by_row in self._args)
        self.batch_size = score.batch_size or default_batch_size(sum(part[0].numel() for part in self.inputs))
        self._warned_of_memory = False
        self._seen: set[bool] = set()  # kinds of calls that were watched for random numbers

    def __call__(self, parts: Sequence[Tensor], rows: Tensor) -> Any:
        """The model's output for inputs (n, …) with the extra arguments of `rows` (n,); advice if inputs do not fit."""
        try:
            with as_the_user_runs_it(), seen_drawing(self.model) if self._first_of_its_kind() else nullcontext():
                return self.model(*parts, *(arg[rows] if by_row else arg for arg, by_row in self._args))
        except (RuntimeError, IndexError, ValueError) as error:
            advice = advice_on(self.model, self.inputs[0], error, [arg for arg, _ in self._args])
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
            given, seen = [part[rows] for part in parts], []

            def record(_module: nn.Module, _inputs: Any, output: Any) -> None:
                first = output[0] if isinstance(output, tuple) else output
                if not isinstance(first, Tensor):
                    raise ValueError(
                        f"layer returns {type(first).__name__}, expected a tensor: choose a layer with a tensor output"
                    )
                seen.append(first.detach().clone())

            with torch.no_grad(), layer.register_forward_hook(in_this_thread(record)):
                self(given, source[rows])
            if len(seen) != 1:
                raise ValueError(f"layer ran {len(seen)} times in one forward pass: it must run exactly once")
            if len(seen[0]) != len(given[0]):
                raise ValueError(
                    f"layer returns {tuple(seen[0].shape)} for {len(given[0])} inputs: expected (batch, …)"
                )
            return seen[0]

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

    def _bound_arg(self, arg: Any) -> tuple[Any, bool]:
        """An extra argument, and whether it has one row for each row of the inputs."""
        if not isinstance(arg, Tensor):
            return arg, False
        arg = ordinary(arg) if arg.is_inference() else arg
        by_row = arg.ndim > 0 and len(arg) == self.n_rows
        return (arg.to(self.device) if by_row else arg), by_row


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
        if score.batch_size is None:  # a layer may be larger than the inputs
            self._calls.batch_size = min(self._calls.batch_size, default_batch_size(self.n_features))
        self.eps = torch.finfo(self.dtype).eps  # the rounding unit of the model's arithmetic, coarser under autocast
        if torch.is_autocast_enabled(self.device.type):
            self.eps = max(self.eps, torch.finfo(torch.get_autocast_dtype(self.device.type)).eps)
        self.gradients_spent = np.zeros(self.batch)  # rows differentiated, for each example
        self.forwards_spent = np.zeros(self.batch)  # rows evaluated without gradient
        self.largest_logit = np.zeros(self.batch)  # met by each example, where its score is a difference of logits

    @property
    def batch_size(self) -> int:
        """Rows in one model call; smaller than at first once memory has run out."""
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
            return joint.to(self._explained[0].dtype)
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
            with torch.no_grad():
                value = self._run(points[rows], examples[rows]).detach().to(self.work_dtype)
            return self._finite(value, examples[rows]) if strict else value

        values = self._calls.in_batches(chunk, len(points))
        return values[0] if len(values) == 1 else torch.cat(values)

    def gradients(self, points: Tensor, examples: Tensor, *, strict: bool = True) -> tuple[Tensor, Tensor]:
        """f (n,) and its gradient (n, *shape) at `points`, in the working dtype; `strict` as in `values`."""
        self.gradients_spent += np.bincount(examples.numpy(), minlength=self.batch)
        if not len(points):
            return points.new_zeros(0, dtype=self.work_dtype), points.to(self.work_dtype)

        def chunk(rows: slice) -> tuple[Tensor, Tensor]:
            value, gradient = self._differentiated(points[rows], examples[rows])
            return self._finite(value, examples[rows]) if strict else value, gradient

        chunks = self._calls.in_batches(chunk, len(points))
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
        return self._run(points, examples)

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

    def _differentiated(self, points: Tensor, examples: Tensor) -> tuple[Tensor, Tensor]:
        # A leaf made here is differentiable even if the caller is in no_grad or inference mode.
        with torch.inference_mode(False), torch.enable_grad():
            leaf = ordinary(points.to(self.dtype)).requires_grad_()
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
        return value.detach().to(self.work_dtype), gradient.to(self.work_dtype)

    def _run(self, points: Tensor, examples: Tensor) -> Tensor:
        rows = self._source[examples].to(self.device) if self._looks_up_rows else examples
        given = points.to(self.dtype, copy=True)  # the model may write on it
        if self.score.layer is not None:

            def replaced(_module: nn.Module, _inputs: Any, output: Any) -> Any:
                return (given, *output[1:]) if isinstance(output, tuple) else given

            with self.score.layer.register_forward_hook(in_this_thread(replaced)):
                output = self._calls([part[rows] for part in self._raw], rows)
        else:
            parts = self.split(given)
            output = self._calls(parts if isinstance(parts, tuple) else (parts,), rows)
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


def _private_copy(model: Any, layer: nn.Module | None) -> tuple[Any, nn.Module | None]:
    """A model and one of its layers with the same weights but modules of their own; as they are, if that fails."""
    kept = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    try:
        return copy.deepcopy((model, layer), {id(tensor): tensor for tensor in kept})
    except Exception:  # a model may hold anything, such as an open file, and say so in any way
        return model, layer


def default_batch_size(elements: int) -> int:
    """Rows in one model call, for inputs of `elements` numbers a row."""
    return max(1, min(DEFAULT_BATCH_CEILING, DEFAULT_BATCH_ELEMENTS // max(1, elements)))
