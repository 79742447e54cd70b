"""Score: a model and a target become one scalar per example, and its gradient.

This is the only file that runs the model. Everything else sees a scalar field: `values(points, examples)` and
`gradients(points, examples)`, where row i of `points` is judged with the target and extra arguments of `examples[i]`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from leastpath._support.checks import check_whole
from leastpath.outputs import Output, OutputName, output_tensor, scalar_output

Target = int | Sequence[int] | Tensor | Callable[[Tensor], Tensor] | None
Inputs = Tensor | tuple[Tensor, ...]
Baselines = float | Tensor | tuple[float | Tensor | None, ...] | None
T = TypeVar("T")

# Elements of the inputs in one model call when the user names no batch size: 4M floats keep an ImageNet batch near 27
# images and a small table at the ceiling, where larger batches no longer gain speed.
DEFAULT_BATCH_ELEMENTS = 4_194_304
DEFAULT_BATCH_CEILING = 8_192


class Score:
    """What is explained: one scalar per example, made from a model's output.

    Args:
        model: module or plain callable, `(batch, ...) -> (batch, classes)`, `(batch,)` or `(batch, 1)`. An output
            object with `.logits` (Hugging Face) is read at its logits.
        target: class index for all examples, one per example `(batch,)`, or a callable `output -> (batch,)`.
            None where the model already returns one number per example.
        output: what happens to the model's output before the target is picked: "raw", "softmax", "log_softmax",
            "sigmoid", "logit_margin" (z_t − logsumexp of the other logits), or a callable.
        layer: explain this module's output instead of the model's input. The inputs may then be integers.
        additional_forward_args: further positional arguments of the model. A tensor whose first dimension is the
            batch goes along row by row; anything else is passed to every call as it is.
        batch_size: rows in one model call. None chooses by the size of an input. Halved when memory runs out.

    Example:
        >>> model = torch.nn.Linear(3, 2).eval()
        >>> Score(model, target=1, output="log_softmax")(torch.zeros(4, 3)).shape
        torch.Size([4])
    """

    def __init__(
        self,
        model: Callable[..., Any],
        target: Target = None,
        output: Output = "raw",
        *,
        layer: nn.Module | None = None,
        additional_forward_args: Any = (),
        batch_size: int | None = None,
    ) -> None:
        if not callable(model):
            raise ValueError(
                f"model must be callable, got {type(model).__name__}: pass the module itself, Score(model, …)"
            )
        if not callable(output) and output not in get_args(OutputName):
            raise ValueError(f"output={output!r} is unknown: use one of {list(get_args(OutputName))} or a callable")
        if output == "logit_margin" and (target is None or callable(target)):
            raise ValueError('output="logit_margin" compares one class with the others: give target as an index')
        check_whole("batch_size", batch_size, 1, or_none=", or None for a default by input size")
        if layer is not None and not (isinstance(model, nn.Module) and any(layer is m for m in model.modules())):
            raise ValueError(
                "layer is not a part of model: pass a submodule, as in Score(model, target, layer=model.embedding)"
            )
        self.model = model
        self.target = _checked_target(target)
        self.output = output
        self.layer = layer
        extra = () if additional_forward_args is None else additional_forward_args  # None is Captum's word for none
        self.additional_forward_args = extra if isinstance(extra, tuple) else (extra,)
        self.batch_size = batch_size

    def bind(self, inputs: Inputs, baselines_per_example: int = 1) -> BoundScore:
        """The score over one batch of inputs: per-example targets and arguments are fixed from here on."""
        return BoundScore(self, inputs, baselines_per_example)

    def __call__(self, inputs: Inputs) -> Tensor:
        """The score of each input, without gradients: (batch,)."""
        with untouched(self.model, device_of(inputs)):
            bound = self.bind(inputs)
            return bound.values(bound.explained(), torch.arange(bound.batch))

    def __repr__(self) -> str:
        name = (
            type(self.model).__name__
            if isinstance(self.model, nn.Module)
            else getattr(self.model, "__name__", "callable")
        )
        return f"Score({name}, target={self.target if isinstance(self.target, int) else '…'}, output={self.output!r})"


class BoundScore:
    """A score bound to a batch: the scalar field f and its gradient over the explained space.

    Points live in one space of shape `shape`: the input's features, the layer's features, or, for tuple inputs, one
    joint vector. Arithmetic is done in `work_dtype` (at least float32); the model sees its own dtype.
    """

    def __init__(self, score: Score, inputs: Inputs, baselines_per_example: int = 1) -> None:
        self.score = score
        self._raw = _checked_inputs(inputs, integers_allowed=score.layer is not None)
        self._is_tuple = isinstance(inputs, tuple)
        first = self._raw[0]
        repeats = baselines_per_example
        self._source = torch.arange(len(first)).repeat_interleave(repeats)  # (batch,) row of the raw inputs
        self.batch = len(self._source)
        self.device = first.device
        self._targets = self._bound_targets(len(first))
        self._args, self._per_example = self._bound_args(len(first))
        self._looks_up_rows = self._per_example or isinstance(self._targets, Tensor)
        activations = self._activations(self._raw) if score.layer is not None else None
        self._explained = [activations] if activations is not None else list(self._raw)
        self._shapes = [part.shape[1:] for part in self._explained]
        self.dtype = self._explained[0].dtype
        for part in self._explained[1:]:
            self.dtype = torch.promote_types(self.dtype, part.dtype)
        self.work_dtype = torch.promote_types(self.dtype, torch.float32)
        self.shape = (
            torch.Size([sum(s.numel() for s in self._shapes)])
            if self._is_tuple and activations is None
            else self._shapes[0]
        )
        self.n_features = max(1, self.shape.numel())
        raw_elements = sum(part[0].numel() for part in self._raw)  # they go through the model before a layer, too
        self.batch_size = score.batch_size or _default_batch_size(max(self.n_features, raw_elements))
        self.eps = _resolution(self.dtype, self.device)
        self.gradients_spent = np.zeros(self.batch)  # rows differentiated, for each example
        self.forwards_spent = np.zeros(self.batch)  # rows evaluated without gradient
        self.largest_logit = np.zeros(self.batch)  # met by each example, where its score is a difference of logits
        self._warned_of_memory = False

    # ---- the explained space -------------------------------------------------------------------------------------

    @property
    def groups(self) -> Tensor:
        """(batch,) examples of one group share the same f, so that what is known of f for one serves all."""
        if self._per_example:  # extra arguments, or a layer whose surroundings depend on the example
            return self._source.clone()
        if isinstance(self._targets, Tensor):
            return torch.unique(self._targets.cpu()[self._source], return_inverse=True)[1]
        return torch.zeros(self.batch, dtype=torch.long)

    @property
    def group_labels(self) -> dict[int, int]:
        """The class index of each group; -1 where the score has no index."""
        if self._per_example:
            raise ValueError("a layer or per-example arguments make every example a score of its own")
        if not isinstance(self._targets, Tensor):
            return {0: self._targets if isinstance(self._targets, int) else -1}
        return dict(enumerate(torch.unique(self._targets.cpu()).tolist()))

    def split_cost(self, examples: Tensor) -> None:
        """What has been spent on some examples (n,) was for all of them: divide it evenly. They all saw its logits."""
        for spent in (self.gradients_spent, self.forwards_spent):
            spent[examples.numpy()] = spent[examples.numpy()].mean()
        self.largest_logit[examples.numpy()] = self.largest_logit[examples.numpy()].max()

    def row(self, example: int) -> int:
        """The row of the inputs that an example is: with several baselines an example, rows come up several times."""
        return int(self._source[example])

    def ends(self, baselines: Baselines) -> tuple[Tensor, Tensor]:
        """Where paths start and end: both (batch, *shape), in the explained dtype."""
        return self.join(self._starts(baselines)), self.explained()

    def explained(self) -> Tensor:
        """The inputs, or the layer's activations, as points: (batch, *shape)."""
        return self.join([part[self._source] for part in self._explained])

    def split(self, joint: Tensor) -> Inputs:
        """(n, *shape) back in the structure, shapes and dtypes of the explained inputs."""
        if not self._is_tuple or self.score.layer is not None:
            return joint.to(self._explained[0].dtype)
        parts, at = [], 0
        for part, shape in zip(self._explained, self._shapes, strict=True):
            parts.append(joint[:, at : at + shape.numel()].reshape(len(joint), *shape).to(part.dtype))
            at += shape.numel()
        return tuple(parts)

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`: tensors shaped like the explained inputs as points, (n, *shape)."""
        if not self._is_tuple or self.score.layer is not None:
            return parts[0]
        return torch.cat([part.reshape(len(part), -1).to(self.dtype) for part in parts], dim=1)

    def _starts(self, baselines: Baselines) -> list[Tensor]:
        if self.score.layer is not None:
            return [self._layer_starts(baselines)]
        given = (
            baselines if isinstance(baselines, tuple) else (baselines,) * (len(self._raw) if baselines is None else 1)
        )
        if len(given) == 1 and self._is_tuple and not isinstance(given[0], Tensor):
            given = given * len(self._raw)
        self._check_baseline_count(given)
        return [self._expanded(b, part) for b, part in zip(given, self._raw, strict=True)]

    def _check_baseline_count(self, given: tuple[float | Tensor | None, ...]) -> None:
        if len(given) != len(self._raw):
            raise ValueError(
                f"got {len(given)} baselines for {len(self._raw)} inputs: pass a tuple with one baseline an input"
            )

    def _expanded(self, baseline: float | Tensor | None, like: Tensor) -> Tensor:
        rows = flat_baseline(baseline, like, self.batch // len(like))  # (batch, *features)
        if rows.is_floating_point() and not torch.isfinite(rows).all():
            raise ValueError("baselines hold NaN or infinite values: replace them, e.g. baselines.nan_to_num()")
        return rows

    def _layer_starts(self, baselines: Baselines) -> Tensor:
        """A tensor shaped like the layer's output is an activation; everything else is read as raw inputs."""
        layer_like, raw = self._explained[0], self._raw
        if isinstance(baselines, Tensor) and (not _fits(baselines, raw[0]) or len(raw) > 1):
            return self._expanded(baselines, layer_like)
        given = baselines if isinstance(baselines, tuple) else (baselines,) * len(raw)
        self._check_baseline_count(given)
        return self._activations([self._expanded(b, part) for b, part in zip(given, raw, strict=True)])

    # ---- f and its gradient --------------------------------------------------------------------------------------

    def values(self, points: Tensor, examples: Tensor, *, strict: bool = True) -> Tensor:
        """f at `points` (n, *shape), each judged as example `examples[i]`: (n,) in the working dtype.

        A score that is NaN or infinite is an error, unless `strict` is off: then it is returned as it is.
        """
        self.forwards_spent += np.bincount(examples.numpy(), minlength=self.batch)
        if not len(points):
            return torch.zeros(0, dtype=self.work_dtype, device=self.device)
        values = self._in_batches(partial(self._values_chunk, strict=strict), points, examples)
        return values[0] if len(values) == 1 else torch.cat(values)

    def gradients(self, points: Tensor, examples: Tensor, *, strict: bool = True) -> tuple[Tensor, Tensor]:
        """f (n,) and its gradient (n, *shape) at `points` (n, *shape), in the working dtype.

        A score that is NaN or infinite is an error, unless `strict` is off: then it is returned as it is.
        """
        self.gradients_spent += np.bincount(examples.numpy(), minlength=self.batch)
        if not len(points):
            return points.new_zeros(0, dtype=self.work_dtype), points.to(self.work_dtype)
        chunks = self._in_batches(partial(self._gradients_chunk, strict=strict), points, examples)
        if len(chunks) == 1:
            return chunks[0]
        return torch.cat([value for value, _ in chunks]), torch.cat([gradient for _, gradient in chunks])

    def differentiable(self, points: Tensor, examples: Tensor) -> Tensor:
        """f at `points` (n, *shape) as a part of the caller's autograd graph: (n,). For code that differentiates.

        Counts as gradients where the points ask for one, else it is `values`. One model call, whatever its size: what
        a graph holds cannot be freed between batches.
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

        def chunk(rows: Tensor, owners: Tensor) -> Tensor:
            return self._hessian_chunk(points[rows.to(points.device)], vectors[rows.to(points.device)], owners)

        products = self._in_batches(chunk, torch.arange(len(points)), examples)
        return torch.cat(products) if products else torch.zeros_like(points)

    def _in_batches(self, chunk: Callable[[Tensor, Tensor], T], points: Tensor, examples: Tensor) -> list[T]:
        """`chunk` of at most `batch_size` rows at a time; what did not fit in memory is tried again with half."""
        results: list[T] = []
        start = 0
        while start < len(points):
            rows = slice(start, start + self.batch_size)
            try:
                results.append(chunk(points[rows], examples[rows]))
            except (RuntimeError, MemoryError) as error:
                self._halve_or_raise(error, len(points[rows]))
                continue
            start = rows.stop
        return results

    def _values_chunk(self, points: Tensor, examples: Tensor, strict: bool) -> Tensor:
        with torch.no_grad():
            value = self._run(points, examples).detach().to(self.work_dtype)
        return self._finite(value, examples, "score") if strict else value

    def _gradients_chunk(self, points: Tensor, examples: Tensor, strict: bool) -> tuple[Tensor, Tensor]:
        # Ambient no_grad or inference mode must not reach the model: a leaf made here is differentiable again.
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
        value = value.detach().to(self.work_dtype)
        return self._finite(value, examples, "score") if strict else value, gradient.to(self.work_dtype)

    def _hessian_chunk(self, points: Tensor, vectors: Tensor, examples: Tensor) -> Tensor:
        # Of attention's kernels only the plain one has a second derivative.
        with torch.inference_mode(False), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
            leaf = ordinary(points.to(self.dtype)).requires_grad_()
            value = self._run(leaf, examples)
            (gradient,) = torch.autograd.grad(value.sum(), leaf, create_graph=True)
            along = (gradient * vectors.detach().to(gradient)).sum()
            product = None
            if along.requires_grad:
                (product,) = torch.autograd.grad(along, leaf, allow_unused=True)
        return torch.zeros_like(points) if product is None else product.detach().to(self.work_dtype)

    def _run(self, points: Tensor, examples: Tensor) -> Tensor:
        rows = self._source[examples].to(self.device) if self._looks_up_rows else examples
        args = [arg[rows] if per_row else arg for arg, per_row in self._args]
        points = points.to(self.dtype)
        if self.score.layer is not None:
            with _replaced_output(self.score.layer, points):
                output = self._called(*(part[rows] for part in self._raw), *args)
        else:
            parts = self.split(points)
            output = self._called(*parts, *args) if isinstance(parts, tuple) else self._called(parts, *args)
        targets = self._targets[rows] if isinstance(self._targets, Tensor) else self._targets
        if self.score.output in ("log_softmax", "logit_margin"):  # differences of logits, and they round like these
            self._note_logits(output_tensor(output), examples)
        return scalar_output(output, targets, self.score.output, len(points))

    def _note_logits(self, logits: Tensor, examples: Tensor) -> None:
        if logits.ndim > 1 and len(logits) == len(examples):  # other outputs are refused with a sentence of their own
            largest = logits.detach().flatten(1).abs().amax(1).double().cpu().numpy()
            # fmax: a trial point without a score counts for nothing.
            np.fmax.at(self.largest_logit, examples.numpy(), largest)

    def _called(self, *arguments: Any) -> Any:
        """What the model returns; where its error sounds like inputs that do not fit it, one that says so."""
        try:
            return self.score.model(*arguments)
        except (RuntimeError, IndexError, ValueError) as error:
            advice = _advice(self.score.model, self._raw[0], str(error))
            if advice is None or _is_out_of_memory(error):
                raise
            raise ValueError(f"{advice} The model's own words: {error}") from error

    def _finite(self, value: Tensor, examples: Tensor, what: str) -> Tensor:
        if not torch.isfinite(value).all():
            bad = self.row(int(examples[int((~torch.isfinite(value)).nonzero()[0].cpu())]))
            raise ValueError(
                f"the {what} of example {bad} is NaN or infinite along its path: explain a finite output "
                f'(output="log_softmax" rather than the logarithm of a softmax), or drop this example'
            )
        return value

    def _halve_or_raise(self, error: Exception, rows: int) -> None:
        if not _is_out_of_memory(error) or rows <= 1:
            raise error
        self.batch_size = rows // 2  # of what was tried, which may be less than a whole batch
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

    # ---- binding -------------------------------------------------------------------------------------------------

    def _bound_targets(self, n: int) -> int | Tensor | Callable[[Tensor], Tensor] | None:
        target = self.score.target
        if isinstance(target, Tensor):
            if len(target) != n:
                raise ValueError(f"got {len(target)} targets for {n} inputs: pass one int, or a tensor of shape ({n},)")
            return target.to(self.device)
        return target

    def _bound_args(self, n: int) -> tuple[list[tuple[Any, bool]], bool]:
        bound = []
        for arg in self.score.additional_forward_args:
            per_row = isinstance(arg, Tensor) and arg.ndim > 0 and len(arg) == n
            bound.append((ordinary(arg) if isinstance(arg, Tensor) and arg.is_inference() else arg, per_row))
        bound = [(arg.to(self.device) if per_row else arg, per_row) for arg, per_row in bound]
        return bound, self.score.layer is not None or any(per_row for _, per_row in bound)

    def _activations(self, raw: Sequence[Tensor]) -> Tensor:
        """The layer's output for raw inputs (rows, …): (rows, *layer features)."""
        repeats = len(raw[0]) // len(self._raw[0])
        source = torch.arange(len(self._raw[0])).repeat_interleave(repeats).to(self.device)
        size = self.score.batch_size or _default_batch_size(sum(part[0].numel() for part in raw))
        chunks = torch.arange(len(source), device=self.device).split(size)
        return torch.cat([self._activations_chunk([part[rows] for part in raw], source[rows]) for rows in chunks])

    def _activations_chunk(self, raw: Sequence[Tensor], rows: Tensor) -> Tensor:
        assert self.score.layer is not None
        seen: list[Tensor] = []

        def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
            seen.append(_tensor_of(output).detach().clone())

        handle = self.score.layer.register_forward_hook(keep)
        try:
            with torch.no_grad():
                self._called(*raw, *(arg[rows] if per_row else arg for arg, per_row in self._args))
        finally:
            handle.remove()
        if len(seen) != 1:
            raise ValueError(f"layer ran {len(seen)} times in one forward pass of the model: it must run exactly once")
        if len(seen[0]) != len(raw[0]):
            raise ValueError(
                f"layer returns {tuple(seen[0].shape)} for {len(raw[0])} inputs: its first dimension must be the batch"
            )
        return seen[0]


# ---- small checks ------------------------------------------------------------------------------------------------


def flat_baseline(baseline: float | Tensor | None, like: Tensor, per_example: int) -> Tensor:
    """None, number, (1, …), (batch, …) or (batch, m, …) as one row a path: (batch · m, *features)."""
    n, features = len(like), like.shape[1:]
    if isinstance(baseline, Tensor) and baseline.ndim == 0:
        baseline = baseline.item()
    if baseline is None or not isinstance(baseline, Tensor):
        number = 0 if baseline is None else baseline
        if not isinstance(number, (int, float)):
            raise ValueError(
                f"baselines must be None, a number or a tensor, got {type(number).__name__}: "
                "use torch.as_tensor(baselines)"
            )
        if not like.is_floating_point() and number != int(number):
            raise ValueError(
                f"baselines={number} for inputs of {like.dtype}: pass a whole number (a token id), or activations"
            )
        return torch.full((n * per_example, *features), number, dtype=like.dtype, device=like.device)
    given = tuple(baseline.shape)
    baseline = ordinary(baseline).to(like.device, like.dtype)
    if baseline.ndim == like.ndim:
        baseline = baseline.unsqueeze(1)  # (1 or batch, 1, *features)
    if (
        baseline.ndim != like.ndim + 1
        or baseline.shape[2:] != features
        or len(baseline) not in (1, n)
        or baseline.shape[1] not in (1, per_example)
        or not per_example
    ):
        several = ", ".join(map(str, (n, "m", *features)))
        raise ValueError(
            f"baselines have shape {given}, inputs {tuple(like.shape)}: expected a number, "
            f"{(1, *features)}, {tuple(like.shape)} or several an example, ({several})"
        )
    return baseline.expand(n, per_example, *features).reshape(n * per_example, *features)


def baselines_per_example(baselines: Baselines, inputs: Inputs, layer_shape: torch.Size | None = None) -> int:
    """How many baselines each example has: m of a (batch, m, …) tensor, else 1."""
    pairs = zip(
        baselines if isinstance(baselines, tuple) else (baselines,),
        inputs if isinstance(inputs, tuple) else (inputs,),
        strict=False,
    )
    counts = {
        b.shape[1]
        for b, x in pairs
        if isinstance(b, Tensor)
        and b.ndim == x.ndim + 1
        and not (layer_shape is not None and b.shape[1:] == layer_shape)
    }
    if isinstance(baselines, Tensor) and layer_shape is not None and baselines.shape[2:] == layer_shape:
        counts = {baselines.shape[1]}  # several activations an example
    if len(counts) > 1:
        raise ValueError(f"the inputs have different numbers of baselines {sorted(counts)}: give each the same number")
    return counts.pop() if counts else 1


def _fits(baseline: Tensor, raw: Tensor) -> bool:
    """Whether a baseline can be read as raw inputs."""
    shape = baseline.shape[1:] if baseline.ndim == raw.ndim else baseline.shape[2:]
    return (
        baseline.ndim >= raw.ndim and shape == raw.shape[1:] and baseline.is_floating_point() == raw.is_floating_point()
    )


def _checked_inputs(inputs: Inputs, integers_allowed: bool) -> tuple[Tensor, ...]:
    given: Any = inputs
    if isinstance(given, list) and given and all(isinstance(part, Tensor) for part in given):
        raise ValueError("inputs is a list, expected a tensor, or for several inputs a tuple: pass tuple(inputs)")
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    for i, part in enumerate(parts):
        name = f"inputs[{i}]" if isinstance(inputs, tuple) else "inputs"
        if not isinstance(part, Tensor):
            raise ValueError(f"{name} is a {type(part).__name__}, expected a tensor: use torch.as_tensor({name})")
        if part.ndim == 0 or len(part) == 0:
            raise ValueError(f"{name} has shape {tuple(part.shape)}, expected at least one example: (batch, *features)")
        if len(part) != len(parts[0]):
            raise ValueError(
                f"{name} has {len(part)} examples, inputs[0] has {len(parts[0])}: all inputs share the batch dimension"
            )
        if not part.is_floating_point():
            if not integers_allowed:
                raise ValueError(
                    f"{name} has dtype {part.dtype}, which has no gradient: pass {name}.float(), or for token ids "
                    "explain the embedding, Score(model, target, layer=model.embedding)"
                )
        elif not torch.isfinite(part).all():
            bad = (
                int((~torch.isfinite(part)).flatten(1).any(1).nonzero()[0])
                if part.ndim > 1
                else int((~torch.isfinite(part)).nonzero()[0])
            )
            raise ValueError(
                f"{name} of example {bad} holds NaN or infinite values: drop or repair it, e.g. {name}.nan_to_num()"
            )
    return tuple(ordinary(part) for part in parts)


def _checked_target(target: Target) -> int | Tensor | Callable[[Tensor], Tensor] | None:
    if target is None or callable(target):
        return target
    if isinstance(target, (bool, float, str)):
        raise ValueError(f"target={target!r} must be a class index: an int, a (batch,) integer tensor or a callable")
    if isinstance(target, (int, np.integer)):
        return int(target)
    tensor = torch.as_tensor(target)
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.ndim > 1:
        raise ValueError(
            f"target has dtype {tensor.dtype} and shape {tuple(tensor.shape)}, expected integers of shape (batch,)"
        )
    return int(tensor) if tensor.ndim == 0 else tensor.detach().long()


def _default_batch_size(elements: int) -> int:
    return max(1, min(DEFAULT_BATCH_CEILING, DEFAULT_BATCH_ELEMENTS // max(1, elements)))


def _resolution(dtype: torch.dtype, device: torch.device) -> float:
    """The rounding unit of the model's arithmetic, which under autocast is coarser than that of its inputs."""
    eps = torch.finfo(dtype).eps
    if torch.is_autocast_enabled(device.type):
        eps = max(eps, torch.finfo(torch.get_autocast_dtype(device.type)).eps)
    return eps


TYPE_WORDS = ("same dtype", "type (", "scalar type", "should be the same")
SHAPE_WORDS = (
    "cannot be multiplied", "size mismatch", "must match the size", "Dimension out of range", "D input", "(unbatched)",
    "channels, but got", "normalized_shape", "invalid for input of size",
)  # fmt: skip


def _advice(model: Any, inputs: Tensor, words: str) -> str | None:
    """What is probably wrong with the inputs, going by the words of a model's error; None where they say nothing."""
    parameters = model.parameters() if isinstance(model, nn.Module) else iter(())
    dtype = next((p.dtype for p in parameters if p.is_floating_point()), inputs.dtype)
    if inputs.is_floating_point() and dtype != inputs.dtype and any(part in words for part in TYPE_WORDS):
        return (
            f"the inputs are {inputs.dtype}, the model's parameters {dtype}: pass inputs.to({dtype}), or use "
            f"model.to({inputs.dtype})."
        )
    if any(part in words for part in SHAPE_WORDS):
        n, features = len(inputs), tuple(inputs.shape[1:])
        return (
            f"the model cannot read inputs of shape {tuple(inputs.shape)}, {n} examples of shape {features}: expected "
            "(batch, *features) as the model was trained on. For a single example pass inputs.unsqueeze(0)."
        )
    return None


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error) for words in ("out of memory", "can't allocate memory", "not enough memory")
    )


def _tensor_of(output: Any) -> Tensor:
    """A layer's output, or its first part where it returns a tuple."""
    first = output[0] if isinstance(output, tuple) else output
    if not isinstance(first, Tensor):
        raise ValueError(
            f"layer returns {type(first).__name__}, expected a tensor: choose a layer with a tensor output"
        )
    return first


@contextmanager
def _replaced_output(layer: nn.Module, points: Tensor) -> Iterator[None]:
    """While inside, the layer answers with `points`, whatever it is given."""

    def replace(_module: nn.Module, _inputs: Any, output: Any) -> Any:
        return (points, *output[1:]) if isinstance(output, tuple) else points

    handle = layer.register_forward_hook(replace)
    try:
        yield
    finally:
        handle.remove()


def device_of(inputs: Any) -> torch.device:
    """Where the inputs are, whatever they turn out to be."""
    first = inputs[0] if isinstance(inputs, tuple) and inputs else inputs
    return first.device if isinstance(first, Tensor) else torch.device("cpu")


@contextmanager
def untouched(model: Any, device: torch.device) -> Iterator[None]:
    """Whatever happens inside, the model leaves with the buffers, and the program with the random state, that it had.

    Modes, gradients and hooks are never changed in the first place; a module in training mode updates its buffers
    (BatchNorm's running statistics) merely by being run.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    saved = [(m, name, b.clone()) for m in modules if m.training for name, b in m.named_buffers(recurse=False)]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            with torch.no_grad():
                for module, name, buffer in saved:
                    getattr(module, name).copy_(buffer)


@contextmanager
def at_work(model: Any, device: torch.device) -> Iterator[None]:
    """Where paths are found and measured: the model is left untouched, and the caller's gradient mode stays outside.

    Nothing inside records a graph by itself, be it through a metric whose module can be trained; what needs
    derivatives asks for them with `torch.enable_grad()`, which works although the caller may be in inference mode.
    """
    with untouched(model, device), torch.inference_mode(False), torch.no_grad():
        yield


def ordinary(tensor: Tensor) -> Tensor:
    """The tensor without its graph; a copy, where it was made under inference mode and autograd could not use it."""
    with torch.inference_mode(False):
        return tensor.clone() if tensor.is_inference() else tensor.detach()


def warn_of_training_mode(model: Any) -> None:
    if isinstance(model, nn.Module) and model.training:
        warnings.warn(
            "the model is in training mode: dropout and batch statistics would be part of the explanation. "
            "Call model.eval() first",
            UserWarning,
            stacklevel=3,
        )


def check_rows_are_independent(score: BoundScore, start: Tensor, end: Tensor) -> None:
    """A row must score the same among others as among copies of itself: BatchNorm in training mode does not.

    Copies rather than alone: batches of one size round alike, so that a score near zero is not taken for dependent.
    """
    companions = torch.cat([end[:1], start[:1], end[1:2]])
    examples = torch.arange(len(companions)).clamp(max=1) * (torch.arange(len(companions)) > 1)  # 0, 0, 1
    try:
        together = score.values(companions, examples)[0]
        alone = score.values(companions[:1].expand_as(companions), torch.zeros_like(examples))[0]
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise ValueError(_DEPENDENT_ROWS.format(alone="an error", together="a score")) from error
    # Some kernels round differently from call to call; dependence shows orders of magnitude above that.
    allowed = max(1e-3, 64 * score.eps) * max(1e-6, float(together.abs()), float(alone.abs()))
    if float((alone - together).abs()) > allowed:
        raise ValueError(_DEPENDENT_ROWS.format(alone=f"{float(alone):.6g}", together=f"{float(together):.6g}"))
    score.largest_logit[:] = 0  # which examples have been looked at here depends on the batch


_DEPENDENT_ROWS = (
    "the model's rows are not independent: example 0 gives {alone} among copies of itself, {together} among others. "
    "Attributions would mix examples. Call model.eval() (BatchNorm, dropout), "
    "or explain one example at a time with Score(…, batch_size=1)"
)
