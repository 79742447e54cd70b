"""ModelCalls, the only file that runs the model, and what its outputs mean: from outputs to one number per row.

Adapters wrap a model in a module of their own, which is then the model that is run here. Methods that are Captum's get
`differentiable_values` in place of the model. Only `leastpath.captum` gives the user's model to Captum itself, for a
convergence delta, inside the same guard; `prepare` runs the copy that it makes, to compare it with what it was.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import Field
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from leastpath._support.threads import in_this_thread
from leastpath.score.arguments import Answers, Marked, per_example, readings_of, settle_readings, shared
from leastpath.score.inputs import Inputs, Target, UnfitInputs, check_inputs, explain_failure
from leastpath.score.untouched import as_user_runs_it, leave_untouched, note_draws, ordinary

OutputName = Literal["raw", "softmax", "log_softmax", "sigmoid", "logit_margin"]
Output = OutputName | Callable[[Tensor], Tensor]


class UnreadableOutput(ValueError):
    """The model returned something that has no score for each row."""


def output_tensor(model_output: Any) -> Tensor:
    """The tensor in whatever the model returned."""
    tensor = model_output if isinstance(model_output, Tensor) else getattr(model_output, "logits", None)
    if not isinstance(tensor, Tensor):
        raise UnreadableOutput(
            f"the model returned {type(model_output).__name__}, expected a tensor or an object with .logits: "
            "wrap it, as in Score(lambda x: model(x)[0], …)"
        )
    return tensor


def scalar_output(
    model_output: Any,
    target: int | Tensor | Callable[[Tensor], Tensor] | None,
    output: Output,
    rows: int,
    class_dim: int | None = None,
) -> Tensor:
    """One number per row, out of whatever the model returned: (rows,). `class_dim` is where a softmax finds classes."""
    tensor = output_tensor(model_output)
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()  # a softmax in half precision would add noise that the model does not have
    if callable(output):
        tensor = output(tensor)
    elif output == "sigmoid":
        tensor = tensor.sigmoid()
    elif output != "raw":
        dim = _find_classes(tensor, output, class_dim)
        if output == "logit_margin":
            check_rows(tensor, rows)
            return _logit_margin(tensor, _check_index(target, tensor))
        tensor = tensor.softmax(dim) if output == "softmax" else tensor.log_softmax(dim)
    return _pick_target(tensor, target, rows)


def _find_classes(tensor: Tensor, output: OutputName, class_dim: int | None) -> int:
    """The dimension of a model's output that a softmax is taken over. Where there are several, the user says which."""
    shape = tuple(tensor.shape)
    if class_dim is None and tensor.ndim > 2:
        raise ValueError(
            f'output="{output}" needs classes, and the model returned {shape}, where they may be any dimension: '
            "say which, Score(…, class_dim=-1) for (batch, length, classes), class_dim=1 for (batch, classes, …)"
        )
    dim = 1 if class_dim is None else class_dim
    if not -tensor.ndim < dim < tensor.ndim or dim == 0:
        raise ValueError(
            f"class_dim={dim} is no dimension of outputs {shape} behind the batch: use 1, or -1 for the last"
        )
    if tensor.shape[dim] < 2:
        raise ValueError(
            f'output="{output}" needs logits (batch, classes ≥ 2), the model returned {shape}: use "sigmoid" or "raw"'
        )
    return dim


def _pick_target(tensor: Tensor, target: int | Tensor | Callable[[Tensor], Tensor] | None, rows: int) -> Tensor:
    if callable(target):
        tensor = target(tensor)
        if tensor.shape == (rows, 1):
            tensor = tensor[:, 0]
        if tensor.shape != (rows,):
            raise ValueError(
                f"the target callable returned {tuple(tensor.shape)}, expected ({rows},): one number per example"
            )
        return tensor
    check_rows(tensor, rows)
    if tensor.shape == (rows,) and target is None:
        return tensor
    if target is None:
        if tensor.numel() == rows:  # one number per row, in as many dimensions as the model likes: (rows, 1, 1, 1)
            return tensor.reshape(rows)
        raise ValueError(
            f"the model returns {tuple(tensor.shape[1:])} numbers per example: say which, Score(model, target=0)"
        )
    if isinstance(target, int):
        _check_range(target, tensor)
        return tensor.select(1, target)
    return tensor.gather(1, _check_index(target, tensor))[:, 0]


def choose_classes(target: Any, outputs: Tensor) -> Tensor | None:
    """(rows,) the classes asked for, or those that a model's outputs (rows, classes) predict; None for one output.

    Args:
        target: a class index, one per row, or None for the predicted ones.
        outputs: (rows, classes), (rows, 1) or (rows,).
    """
    rows, n = len(outputs), 1 if outputs.ndim == 1 else outputs.shape[1]
    if target is None:
        return None if n == 1 else outputs.argmax(1)
    indices = torch.as_tensor(np.array(target), device=outputs.device)  # a copy: pandas' own is read-only
    if indices.is_floating_point() or indices.dtype == torch.bool or indices.ndim > 1:
        raise ValueError(f"target={target!r}: expected a class index, or one per row")
    if indices.ndim and len(indices) != rows:
        raise ValueError(f"got {len(indices)} targets for {rows} rows: pass one class index, or one per row")
    if n == 1 and not (indices == 0).all():
        raise ValueError(f"target={target!r} of a model with a single output: pass target=None, or 0")
    if int(indices.min()) < 0 or int(indices.max()) >= n:
        raise ValueError(f"target={target!r} is out of range: the model returns {n} classes, 0 to {n - 1}")
    return None if n == 1 else indices.long().expand(rows)


def check_rows(tensor: Tensor, rows: int) -> None:
    """Refuse a model's output whose first dimension is not the batch."""
    if tensor.ndim == 0 or len(tensor) != rows:
        raise UnreadableOutput(
            f"the model returned {tuple(tensor.shape)} for {rows} rows: it must keep the batch dimension first. "
            "For a single example pass inputs.unsqueeze(0)"
        )


def _logit_margin(logits: Tensor, index: Tensor) -> Tensor:
    others = logits.scatter(1, index, -torch.inf).logsumexp(1)
    return logits.gather(1, index)[:, 0] - others


def _check_index(target: Any, tensor: Tensor) -> Tensor:
    """(rows, 1) class indices, within range."""
    _check_range(target, tensor)
    return target[:, None] if isinstance(target, Tensor) else torch.full((len(tensor), 1), target, device=tensor.device)


def _check_range(target: Any, tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise ValueError(
            f"an index target needs an output (batch, classes), got {tuple(tensor.shape)}: pass target=lambda output: …"
        )
    low, high = (int(target.min()), int(target.max())) if isinstance(target, Tensor) else (target, target)
    if low < 0 or high >= tensor.shape[1]:
        raise ValueError(
            f"target {low if low < 0 else high} is out of range: "
            f"the model returns {tensor.shape[1]} classes, 0 to {tensor.shape[1] - 1}"
        )


T = TypeVar("T")

DEFAULT_BATCH_ELEMENTS = 4_194_304  # numbers of the inputs in one model call by default: 27 ImageNet images
# On a CPU: 3 of them. The memory of larger activations is given back and zeroed anew in every call, which takes longer
# than a larger batch saves.
CPU_BATCH_ELEMENTS = 524_288
DEFAULT_BATCH_CEILING = 8_192  # rows: larger batches are not faster


class FastestSize(str):
    """The word "auto" of Score(…, batch_size="auto"), which also keeps what the trials of this Score have found."""

    def __init__(self, _word: str) -> None:
        self.found: dict[Any, int] = {}


class ScoreFields(Protocol):
    """What is read of a `Score`, which stands above this file."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def model(self) -> Callable[..., Any]: ...
    @property
    def target(self) -> Target: ...
    @property
    def output(self) -> Output: ...
    @property
    def layer(self) -> nn.Module | None: ...
    @property
    def additional_forward_args(self) -> Any: ...
    @property
    def batch_size(self) -> Any: ...
    @property
    def class_dim(self) -> int | None: ...


class ModelCalls:
    """Calls of a score's model for rows of one batch of inputs.

    Extra arguments go along row by row. A call has at most `batch_size` rows, halved when memory runs out.
    """

    def __init__(self, score: ScoreFields, inputs: Inputs, integers_allowed: bool) -> None:
        self.model = score.model
        self.inputs = check_inputs(inputs, integers_allowed)
        self.n_rows = len(self.inputs[0])
        self.device = self.inputs[0].device
        by_size = default_batch_size(sum(part[0].numel() for part in self.inputs), self.device)
        chosen = score.batch_size
        self.batch_size = by_size if chosen is None or chosen == "auto" else chosen
        self._warned_of_memory = False
        self._seen: set[bool] = set()  # kinds of calls that were watched for random numbers
        self._args = self._bind_args(score)
        self.args_differ_by_row = any(by_row for _, by_row in self._args)

    def __call__(self, parts: Sequence[Tensor], rows: Tensor) -> Any:
        """The model's output for inputs (n, …) with the extra arguments of `rows` (n,); advice if inputs do not fit."""
        try:
            with as_user_runs_it(), note_draws(self.model) if self._first_of_its_kind() else nullcontext():
                return self.model(*parts, *(arg[rows] if by_row else arg for arg, by_row in self._args))
        except (RuntimeError, IndexError, ValueError) as error:
            if is_out_of_memory(error) or isinstance(error, UnfitInputs):
                raise
            args = [arg for arg, _ in self._args]
            raise UnfitInputs(explain_failure(self.model, self.inputs[0], args, self._unmarked, error)) from error

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
            with torch.no_grad(), record_layer(layer) as seen:
                self(given, source[rows])
            return only_tensor(seen, len(given[0])).detach()

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

    def _bind_args(self, score: ScoreFields) -> list[tuple[Any, bool]]:
        """Each extra argument, and whether it has one row for each row of the inputs."""
        given = score.additional_forward_args
        self._unmarked = [i for i, arg in enumerate(given) if isinstance(arg, Tensor)]
        if not given:
            return []
        values = [arg.value if isinstance(arg, Marked) else arg for arg in given]
        values = [ordinary(v) if isinstance(v, Tensor) and v.is_inference() else v for v in values]
        readings = readings_of(given, self.n_rows)
        if None in readings:
            shapes = [str(tuple(v.shape)) if isinstance(v, Tensor) else "" for v in values]
            with leave_untouched(self.model, self.inputs):  # not every caller that binds is inside the guard
                readings = list(
                    settle_readings(readings, self.n_rows, shapes, partial(self._answers, score, values), 1e-3)
                )
        return [(self._on_device(v) if by_row else v, bool(by_row)) for v, by_row in zip(values, readings, strict=True)]

    def _on_device(self, arg: Tensor) -> Tensor:
        return arg.to(self.device)

    def _answers(self, score: ScoreFields, values: list[Any], readings: list[bool]) -> Answers | None:
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
            moved = self._answer(score, [_move(part) for part in parts], args, rows)
            unreadable = [None if part is None else torch.full_like(part, torch.nan) for part in here]
            found += [here, cast(tuple[Tensor, Tensor | None], tuple(unreadable)) if moved is None else moved]
        return found

    def _answer(
        self, score: ScoreFields, parts: list[Tensor], args: list[Any], rows: Tensor
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
            return raw, scalar_output(output, target, score.output, len(rows), score.class_dim)
        except Exception:  # the score is not asked for, or wrong for both readings
            return raw, None


@contextmanager
def record_layer(layer: nn.Module) -> Iterator[list[Any]]:
    """What a layer returns while the model runs inside the block, for `only_tensor`: an entry for each time it runs."""
    seen: list[Any] = []

    def record(_module: nn.Module, _inputs: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        seen.append(first.clone() if isinstance(first, Tensor) else first)  # what follows may write on it

    with layer.register_forward_hook(in_this_thread(record)):
        yield seen


def only_tensor(seen: Sequence[Any], rows: int) -> Tensor:
    """The one tensor (rows, …) that a layer returned in one forward pass."""
    if len(seen) != 1:
        raise ValueError(
            f"layer ran {len(seen)} times in one forward pass: it must be a part of the model, and run exactly once"
        )
    found = seen[0]
    if not isinstance(found, Tensor):
        raise ValueError(f"layer returns {type(found).__name__}, expected a tensor: choose another layer")
    if found.ndim == 0 or len(found) != rows:
        raise ValueError(f"layer returns {tuple(found.shape)} for {rows} inputs: expected (batch, …)")
    return found


def _move(part: Tensor) -> Tensor:
    """Another input of the same kind; integers, which may be ids, stay as they are."""
    if not part.is_floating_point():
        return part
    step = torch.linspace(0.5, 1.0, part[0].numel(), dtype=part.dtype, device=part.device).reshape(part.shape[1:])
    return part + step


def default_batch_size(elements: int, device: torch.device) -> int:
    """Rows in one model call, for inputs of `elements` numbers per row."""
    most = CPU_BATCH_ELEMENTS if device.type == "cpu" else DEFAULT_BATCH_ELEMENTS
    return max(1, min(DEFAULT_BATCH_CEILING, most // max(1, elements)))


def is_out_of_memory(error: Exception) -> bool:
    """Whether a smaller batch might have fitted in memory. Only CUDA has a class for it; others say it in words."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    said = isinstance(error, RuntimeError) and any(part in str(error) for part in words)
    return said or isinstance(error, (MemoryError, torch.OutOfMemoryError))
