"""Score: what is explained. A model and a target become one scalar per example.

`Score.bind` joins it to a batch of inputs: a `BoundScore` is the scalar field f and its gradient over the space of the
points. Derivatives that only some callers need are functions in `derivatives.py`.
"""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from leastpath._support.checks import check_integer, check_tensor, show_value
from leastpath._support.fastest import clock_of, fastest_size
from leastpath._support.rows import flat_rows
from leastpath._support.threads import in_this_thread
from leastpath.score.arguments import Marked, has_batch_length, per_example
from leastpath.score.calls import (
    Baselines,
    CheckedTarget,
    FastestSize,
    Inputs,
    ModelCalls,
    Output,
    OutputName,
    ScoreFields,
    Target,
    check_rows,
    default_batch_size,
    is_out_of_memory,
    leave_untouched,
    modules_of,
    ordinary,
    output_tensor,
    scalar_output,
)
from leastpath.score.estimators import as_module
from leastpath.score.frozen import freeze_where_it_pays
from leastpath.score.remembered import memory_of


def flat_baseline(baseline: float | Tensor | None, inputs: Tensor, per_example: int) -> Tensor:
    """None, number, (1, …), (batch, …) or (batch, m, …) as one row per path: (batch · m, *features)."""
    n, features = len(inputs), inputs.shape[1:]
    if isinstance(baseline, Tensor):
        check_tensor("baselines", baseline)
    if not isinstance(baseline, Tensor) or baseline.ndim == 0:
        number = baseline.item() if isinstance(baseline, Tensor) else 0 if baseline is None else baseline
        given_number: object = number
        if isinstance(given_number, bool) or not isinstance(given_number, numbers.Real):
            raise ValueError(
                f"baselines must be None, a number or a tensor, got {type(number).__name__}: torch.as_tensor(baselines)"
            )
        largest = (torch.finfo if inputs.is_floating_point() else torch.iinfo)(inputs.dtype).max
        if math.isfinite(number) and abs(number) > largest:
            raise ValueError(f"baselines={number:.3g} does not fit {inputs.dtype}, whose largest is {largest:.3g}")
        if not inputs.is_floating_point() and number != int(number):
            raise ValueError(f"baselines={number} for inputs of {inputs.dtype}: pass a whole number, or activations")
        number = float(number) if inputs.is_floating_point() else int(number)
        return torch.full((n * per_example, *features), number, dtype=inputs.dtype, device=inputs.device)
    given = tuple(baseline.shape)
    baseline = ordinary(baseline).to(inputs.device, inputs.dtype)
    if baseline.ndim == inputs.ndim:
        baseline = baseline.unsqueeze(1)  # (1 or batch, 1, *features)
    fits = baseline.ndim == inputs.ndim + 1 and baseline.shape[2:] == features and len(baseline) in (1, n)
    if not fits or not per_example or baseline.shape[1] not in (1, per_example):
        several = ", ".join(map(str, (n, "m", *features)))
        raise ValueError(
            f"baselines have shape {given}, inputs {tuple(inputs.shape)}: expected a number, "
            f"{(1, *features)}, {tuple(inputs.shape)} or several per example, ({several})"
        )
    return baseline.expand(n, per_example, *features).reshape(n * per_example, *features)


def baselines_per_example(baselines: Baselines, inputs: Inputs, layer_shape: torch.Size | None = None) -> int:
    """How many baselines each example has: m of a (batch, m, …) tensor, else 1."""
    given = baselines if isinstance(baselines, tuple) else (baselines,)
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    counts = {
        b.shape[1]
        for b, x in zip(given, parts, strict=False)
        if isinstance(b, Tensor) and b.ndim == x.ndim + 1 and b.shape[1:] != layer_shape
    }
    if isinstance(baselines, Tensor) and layer_shape is not None and baselines.shape[2:] == layer_shape:
        counts = {baselines.shape[1]}  # several activations an example
    if len(counts) > 1:
        raise ValueError(f"the inputs have different numbers of baselines {sorted(counts)}: give each the same number")
    return counts.pop() if counts else 1


def fits_inputs(baseline: Tensor, inputs: Tensor) -> bool:
    """Whether a baseline has the shape and the kind of numbers of the inputs (batch, *features)."""
    shape = baseline.shape[1:] if baseline.ndim == inputs.ndim else baseline.shape[2:]
    same_kind = baseline.is_floating_point() == inputs.is_floating_point()
    return baseline.ndim >= inputs.ndim and shape == inputs.shape[1:] and same_kind


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

    def settle(self, before: Tensor, shares: Tensor) -> None:
        """What has been spent since `before` (batch,) is charged as `shares` (batch,) say.

        A segment that several examples walk is counted for one of them only. The sum stays what was counted: shares of
        an interrupted integral, which do not add up to it, change nothing.
        """
        counted = torch.as_tensor(self.gradients_spent) - before
        if abs(float(shares.sum() - counted.sum())) < 0.5:  # thirds are not exact
            self.gradients_spent[:] = (before + shares).numpy()

    # ---- f and its gradient --------------------------------------------------------------------------------------

    def values(self, points: Tensor, examples: Tensor, *, strict: bool = True) -> Tensor:
        """f at `points` (n, *shape), each with the score of its example (n,): (n,) in the working dtype.

        A score that is NaN or infinite is an error if `strict`, else it is returned.
        """
        if not len(points):
            return torch.zeros(0, dtype=self.work_dtype, device=self.device)
        seen = None if self._per_example else memory_of(self.score.model)
        if seen is not None and seen.is_safe:
            value = self._read(seen.ask(self, points, examples), examples).to(self.work_dtype)
            return _check_finite(self.space, value, examples) if strict else value
        self.count_forwards(examples)

        def chunk(some: Tensor, of: Tensor, rows: slice) -> Tensor:
            with torch.no_grad():
                value = self.evaluate(some, of).detach().to(self.work_dtype)
            return _check_finite(self.space, value, of) if strict else value

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
            return _check_finite(self.space, value, of) if strict else value, gradient

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

        return torch.cat(self.in_batches(chunk, points, examples)) if len(points) else points.new_zeros(0, 1)

    # ---- for derivatives.py: nothing here is counted, or cut to the size of a batch, by itself -----------------------

    def count_gradients(self, examples: Tensor, each: int = 1) -> None:
        """Rows of these examples (n,) are differentiated."""
        self.gradients_spent += each * np.bincount(examples.numpy(), minlength=self.batch)

    def count_forwards(self, examples: Tensor) -> None:
        """Rows of these examples (n,) are evaluated without gradient."""
        self.forwards_spent += np.bincount(examples.numpy(), minlength=self.batch)

    def in_batches(self, chunk: Callable[[Tensor, Tensor, slice], T], points: Tensor, examples: Tensor) -> list[T]:
        """`chunk(points, examples, rows)` for n rows, as many at a time as one model call may have.

        Where rows have lengths (texts), those of like length come together, and `rows` are their numbers.
        """
        if self.calls.lengths is not None and len(points) > self.calls.batch_size:
            order = self.calls.lengths.cpu()[self.space.source[examples]].argsort(stable=True)
            found = self.calls.in_batches(
                lambda cut: chunk(points[order[cut]], examples[order[cut]], cast(Any, order[cut])), len(points)
            )
            return [_in_order(found, order)]

        def of_rows(rows: slice) -> T:
            if rows.stop - rows.start == len(points):  # the usual case: nothing to cut out
                return chunk(points, examples, rows)
            return chunk(points[rows], examples[rows], rows)

        return self.calls.in_batches(of_rows, len(points))

    def evaluate(self, points: Tensor, examples: Tensor) -> Tensor:
        """f at `points` (n, *shape), as a part of the caller's autograd graph: (n,)."""
        return self._read(self.run_model(points, examples), examples)

    def _read(self, output: Any, examples: Tensor) -> Tensor:
        """f (n,) in what the model returned."""
        rows = self._rows(examples)
        targets = self._targets[rows] if isinstance(self._targets, Tensor) else self._targets
        if self.score.output in ("log_softmax", "logit_margin"):  # differences have the logits' rounding errors
            logits = output_tensor(output)
            if logits.ndim > 1 and len(logits) == len(examples):  # other outputs are refused later
                largest = logits.detach().flatten(1).abs().amax(1).cpu().double().numpy()
                np.fmax.at(self.largest_logit, examples.numpy(), largest)  # fmax ignores NaN
        return scalar_output(output, targets, self.score.output, len(examples), self.score.class_dim)

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
            with freeze_where_it_pays(leaf, self.calls.runs_step_by_step):
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


def _check_finite(space: Space, value: Tensor, examples: Tensor) -> Tensor:
    if not math.isfinite(value.sum()) and not torch.isfinite(value).all():  # a sum is quicker, and may overflow
        bad = space.row(int(examples[int((~torch.isfinite(value)).nonzero()[0].cpu())]))
        raise ValueError(
            f"the score of example {bad} is NaN or infinite along its path: explain a finite output "
            f'(output="log_softmax" rather than the logarithm of a softmax), or drop this example'
        )
    return value


def _in_order(chunks: list[T], order: Tensor) -> T:
    """Chunks of rows that were taken in an order, as one, in the order of their numbers: tensors, or tuples of them."""
    if isinstance(chunks[0], tuple):
        return cast(T, tuple(_in_order(list(parts), order) for parts in zip(*cast(Any, chunks), strict=True)))
    return cast(T, torch.cat(cast(list[Tensor], chunks))[order.argsort().to(cast(Any, chunks[0]).device)])


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
__all__ = ["Baselines", "Inputs", "Score", "Target"]


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """What is explained: one scalar per example, made from a model's output.

    A Score cannot be changed; `dataclasses.replace(score, target=2)` makes a copy with another target.

    Args:
        model: module or plain callable, `(batch, ...) -> (batch, classes)`, `(batch,)` or `(batch, 1)`. An output
            object with `.logits` (Hugging Face) is read at its logits. Linear models and networks of scikit-learn
            become modules by their weights (`leastpath.score.estimators`).
        target: class index for all examples, one per example `(batch,)`, or a callable `output -> (batch,)`.
            None where the model already returns one number per example.
        output: what happens to the model's output before the target is picked: "raw", "softmax", "log_softmax",
            "sigmoid", "logit_margin" (z_t − logsumexp of the other logits), or a callable.
        layer: explain this module's output instead of the model's input. The inputs may then be integers.
        additional_forward_args: further positional arguments of the model. `lp.per_example(t)` has one row for each
            example; `lp.shared(t)` is passed to every call unchanged. Without a mark, a tensor whose first dimension
            is the batch is split row by row if the model can only work so, or if both readings give the same answer,
            and refused otherwise; anything else is shared.
        batch_size: rows in one model call. None chooses by the size of an input; "auto" finds the fastest by a trial
            of about a second, once for this Score, its copies by `replace`, and a shape of inputs: the Score keeps what
            was found. The trial's gradients are not counted, and results change by rounding only. Halved when memory
            runs out.
        class_dim: the dimension of the model's output that "softmax" and "log_softmax" are taken over. It must be given
            where the output has more than two: -1 for a language model's (batch, length, vocabulary).

    Example:
        >>> score = Score(torch.nn.Linear(3, 2).eval(), target=1, output="log_softmax")
        >>> score(torch.zeros(4, 3)).shape
        torch.Size([4])
        >>> replace(score, target=0)
        Score(Linear, target=0, output='log_softmax')
    """

    model: Callable[..., Any]
    target: Target = None
    output: Output = "raw"
    _: KW_ONLY
    layer: nn.Module | None = None
    additional_forward_args: Any = ()
    batch_size: int | Literal["auto"] | None = None
    class_dim: int | None = None

    def __post_init__(self) -> None:
        given: object = self.model
        if not callable(given) and hasattr(given, "predict"):  # an estimator of scikit-learn
            object.__setattr__(self, "model", as_module(given))
        if not callable(self.model):
            raise ValueError(f"model must be callable, got {type(self.model).__name__}: pass the module itself")
        if not callable(self.output) and self.output not in get_args(OutputName):
            known = list(get_args(OutputName))
            raise ValueError(f"output={self.output!r} is unknown: use one of {known} or a callable")
        if self.output == "logit_margin" and (self.target is None or callable(self.target)):
            raise ValueError('output="logit_margin" compares one class with the others: give target as an index')
        if isinstance(self.batch_size, str) and self.batch_size == "auto":
            trials = self.batch_size if isinstance(self.batch_size, FastestSize) else FastestSize("auto")
            object.__setattr__(self, "batch_size", trials)  # copies by `replace` share it
        else:
            words = ', "auto" for the fastest, or None for a default by input size'
            check_integer("batch_size", self.batch_size, 1, or_none=words)
            object.__setattr__(self, "batch_size", None if self.batch_size is None else int(self.batch_size))
        if self.class_dim is not None:
            check_integer("class_dim", self.class_dim, -64)
        modules = self.model.modules() if isinstance(self.model, nn.Module) else ()
        if self.layer is not None and not any(self.layer is module for module in modules):
            raise ValueError("layer is not a part of model: pass a submodule, as in Score(…, layer=model.embedding)")
        object.__setattr__(self, "target", _check_target(self.target))
        args = () if self.additional_forward_args is None else self.additional_forward_args
        object.__setattr__(self, "additional_forward_args", args if isinstance(args, tuple) else (args,))

    def bind(self, inputs: Inputs, baselines_per_example: int = 1) -> BoundScore:
        """The score over one batch of inputs: per-example targets and arguments are fixed from here on."""
        return BoundScore(self, inputs, baselines_per_example)

    def __call__(self, inputs: Inputs) -> Tensor:
        """The score of each input, without gradients: (batch,)."""
        with leave_untouched(self.model, inputs):
            bound = self.bind(inputs)
            return bound.values(bound.space.points(), torch.arange(bound.batch))

    def outputs(self, inputs: Inputs) -> Tensor:
        """What the model itself returns, before `output` and `target`, without gradients: (batch, …).

        The inputs may be integers. Use it to choose a target.

        Example:
            >>> Score(torch.nn.Linear(3, 2)).outputs(torch.zeros(4, 3)).argmax(1).shape
            torch.Size([4])
        """
        with leave_untouched(self.model, inputs):
            return ModelCalls(self, inputs, integers_allowed=True).outputs()

    def __repr__(self) -> str:
        plain = getattr(self.model, "__name__", "callable")
        name = type(self.model).__name__ if isinstance(self.model, nn.Module) else plain
        return f"Score({name}, target={self.target if isinstance(self.target, int) else '…'}, output={self.output!r})"


def _check_target(target: Target) -> CheckedTarget:
    """The target as an int, a tensor of integers (batch,), a callable or None."""
    if target is None or callable(target):
        return target
    wanted = "must be a class index: an int, a (batch,) integer tensor or a callable"
    if isinstance(target, (bool, float, complex, str)):
        raise ValueError(f"target={target!r} {wanted}")
    if isinstance(target, (int, np.integer)):
        return int(target)
    try:
        tensor = torch.as_tensor(target)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"target={show_value(target)} {wanted}") from error
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.ndim > 1:
        got = f"dtype {tensor.dtype} and shape {tuple(tensor.shape)}"
        raise ValueError(f"target has {got}, expected integers of shape (batch,)")
    return int(tensor) if tensor.ndim == 0 else tensor.detach().long()


def bind_paths(score: Score, inputs: Inputs, baselines: Baselines) -> tuple[BoundScore, Tensor, Tensor, int]:
    """The score over a batch, where paths start and end (batch, *shape), and how many baselines each input has.

    Refuses baselines that do not fit, and models whose rows depend on each other.
    """
    bound = score.bind(inputs)
    m = baselines_per_example(baselines, inputs, bound.shape if score.layer is not None else None)
    bound = bound if m == 1 else score.bind(inputs, m)
    start, end = bound.space.ends(baselines)
    seen = memory_of(score.model)
    if seen is None or not seen.is_safe:
        check_rows_are_independent(bound, start, end)
    if seen is not None:
        seen.is_safe = not any(module.training for module in modules_of(score.model))  # dropout draws anew
    return bound, start, end, m


def with_classes(score: Score, target: Any, output: Output | None, outputs: Tensor) -> Score:
    """The score of a classifier's classes, given its outputs (batch, classes): those asked for, or the predicted ones.

    The log-softmax by default. Of a model with one output it is that output, and the target is None.
    """
    classes = choose_classes(target, outputs)
    return replace(score, target=classes, output=output or ("raw" if classes is None else "log_softmax"))


def with_marks(score: Score, inputs: Inputs) -> Score:
    """The score with a mark on each extra argument: which have one row for each of these inputs is settled."""
    if all(isinstance(arg, Marked) and arg.reading != "by length" for arg in score.additional_forward_args):
        return score
    return replace(score, additional_forward_args=ModelCalls(score, inputs, integers_allowed=True).marked_args)


def rows_of(score: Score, inputs: Inputs, baselines: Baselines, rows: Sequence[int]) -> tuple[Score, Inputs, Baselines]:
    """The problem for some of its examples. A row may come several times."""
    batch = len(inputs[0] if isinstance(inputs, tuple) else inputs)
    score = with_marks(score, inputs)

    def of(value: Any) -> Any:
        if isinstance(value, Marked):
            return per_example(value.value[list(rows)]) if value.reading == "per example" else value
        return value[list(rows)] if has_batch_length(value, batch) else value

    def of_each(values: Any) -> Any:
        return tuple(map(of, values)) if isinstance(values, tuple) else of(values)

    args = of_each(score.additional_forward_args)
    return replace(score, target=of(score.target), additional_forward_args=args), of_each(inputs), of_each(baselines)


def choose_classes(target: Any, outputs: Tensor) -> Tensor | None:
    """(rows,) the classes asked for, or those that a model's outputs (rows, classes) predict; None for one output.

    Args:
        target: a class index, one per row, or None for the predicted ones.
        outputs: (rows, classes), (rows, 1) or (rows,).
    """
    rows, n = len(outputs), 1 if outputs.ndim == 1 else outputs.shape[1]
    if target is None:
        return None if n == 1 else outputs.argmax(1)
    given = np.array(target)  # a copy: pandas' own is read-only
    if given.dtype.kind in "OUS":
        raise ValueError(f"target={target!r} is a label: expected the index of a class, 0 to {n - 1}, or one per row")
    indices = torch.as_tensor(given, device=outputs.device)
    if indices.is_floating_point() or indices.dtype == torch.bool or indices.ndim > 1:
        raise ValueError(f"target={target!r}: expected a class index, or one per row")
    if indices.ndim and len(indices) != rows:
        raise ValueError(f"got {len(indices)} targets for {rows} rows: pass one class index, or one per row")
    if n == 1 and not (indices == 0).all():
        raise ValueError(f"target={target!r} of a model with a single output: pass target=None, or 0")
    if int(indices.min()) < 0 or int(indices.max()) >= n:
        raise ValueError(f"target={target!r} is out of range: the model returns {n} classes, 0 to {n - 1}")
    return None if n == 1 else indices.long().expand(rows)
