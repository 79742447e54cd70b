"""ModelCalls, the only file that runs the model, and what its outputs mean: from outputs to one number per row.

The model is left as it was: its buffers, the program's random state, the caller's gradient mode.

Adapters wrap a model in a module of their own, which is then the model that is run here. Methods that are Captum's get
`differentiable_values` in place of the model. Only `leastpath.captum` gives the user's model to Captum itself, for a
convergence delta, inside the same guard; `prepare` runs the copy that it makes, to compare it with what it was.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import Field
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.backends import cudnn
from torch.utils._python_dispatch import TorchDispatchMode

from leastpath._support.checks import check_tensor
from leastpath._support.rows import flat_rows
from leastpath._support.threads import finish, in_this_thread
from leastpath.score.arguments import Answers, Marked, per_example, readings_of, settle_readings, shared
from leastpath.score.failures import UnfitInputs, explain_failure

EMPTY_CELL = types.CellType()  # of a function that is not yet defined to its end
PLAIN = (Tensor, np.ndarray, str, bytes, int, float, type, types.NoneType)  # what holds no modules


def warn_of_training_mode(*models: Any) -> None:
    """Warn where dropout and batch statistics would be explained together with a model."""
    if any(isinstance(model, nn.Module) and model.training for model in models):
        why = "dropout and batch statistics would be part of the explanation"
        warnings.warn(f"the model is in training mode: {why}. Call model.eval() first", UserWarning, stacklevel=3)


def device_of(inputs: Any) -> torch.device:
    """The device of the inputs; the CPU where they are not tensors."""
    first = inputs[0] if isinstance(inputs, tuple) and inputs else inputs
    return first.device if isinstance(first, Tensor) else torch.device("cpu")


@contextmanager
def leave_untouched(model: Any, inputs: Any, *parts: Any) -> Iterator[None]:
    """Around everything that runs a model. Afterwards the model has the buffers, and the program the random state, that
    they had before.

    BatchNorm in training mode updates its running statistics whenever it runs, some models count their calls in a
    buffer, and dropout draws random numbers. Modes, gradients and hooks are never changed.

    No graph is recorded inside, whatever the caller's mode. Code that needs derivatives asks for them with
    `torch.enable_grad()`, which works even if the caller is in inference mode.

    Args:
        model: a module or callable. Inside a block for the same model there is nothing more to keep.
        inputs: what it is run on, a tensor or a tuple: they say on which device.
        parts: what else may run a model of the user's: a method, its settings, a metric.
    """
    with torch.inference_mode(False), torch.no_grad():
        if any(model is guarded for guarded in _GUARDED.models) and not modules_of(parts):
            yield
            return
        modules = modules_of(model) + modules_of(parts)
        may_draw = any(module.training for module in modules)
        try:  # nothing stands between the two lines: Ctrl-C there would leave a model that only seems guarded
            _GUARDED.models.append(model)
            with _keep_buffers(modules), _keep_random_state(device_of(inputs), may_draw), cpu_by_default():
                yield
        finally:
            _GUARDED.models.pop()
            if not _GUARDED.models:
                _GUARDED.checked.clear()


def has_recurrent_parts(model: Any) -> bool:
    """Whether an LSTM, a GRU or a plain recurrent net is a part of the model, in evaluation mode."""
    return any(isinstance(module, nn.RNNBase) and not module.training for module in modules_of(model))


def modules_of(model: Any) -> list[nn.Module]:
    """All modules that a model is made of, also those behind a function: in its closure, its globals, its arguments."""
    found: dict[int, nn.Module] = {}
    _collect_modules(model, found, depth=5)
    return list(found.values())


def _collect_modules(thing: Any, found: dict[int, nn.Module], depth: int) -> None:
    if isinstance(thing, nn.Module):
        if id(thing) not in found:
            found.update((id(module), module) for module in thing.modules())
        return
    if depth == 0 or isinstance(thing, PLAIN):
        return
    for part in _behind(thing):
        _collect_modules(part, found, depth - 1)


def _behind(thing: Any) -> list[Any]:
    """What a callable, or a container, holds that may be a module."""
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if inspect.ismethod(thing):
        return [thing.__self__, thing.__func__]
    if inspect.isfunction(thing):
        cells = [cell.cell_contents for cell in thing.__closure__ or () if cell != EMPTY_CELL]
        named = [thing.__globals__[name] for name in thing.__code__.co_names if name in thing.__globals__]
        return [*cells, *(part for part in named if isinstance(part, nn.Module) or inspect.isfunction(part))]
    if isinstance(thing, (list, tuple)):
        return list(thing[:1000])
    if isinstance(thing, dict):
        return list(thing.values())
    return [] if isinstance(thing, types.ModuleType) else list(getattr(thing, "__dict__", {}).values())


@contextmanager
def _keep_buffers(modules: Sequence[nn.Module]) -> Iterator[None]:
    saved = [(m, name, buffer, buffer.clone()) for m in modules for name, buffer in m.named_buffers(recurse=False)]

    def put_back() -> None:
        with torch.inference_mode():  # writes to buffers of every kind, and records nothing
            for module, name, buffer, copy in saved:
                if getattr(module, name) is not buffer and not isinstance(module, torch.jit.ScriptModule):
                    module._buffers[name] = buffer  # the model has put another tensor in its place
                _put_back(buffer, copy)

    try:
        yield
    finally:
        finish(put_back)


def _put_back(buffer: Tensor, copy: Tensor) -> None:
    if buffer.shape != copy.shape or not torch.equal(buffer, copy):
        buffer.resize_(copy.shape).copy_(copy)


class _Guarded(threading.local):
    """For each thread: which models are guarded, parts of which `run_part` knows that their rows are independent,
    whether a model was seen to draw random numbers in each guarded block, and the device that
    `torch.set_default_device` was given."""

    def __init__(self) -> None:
        self.models: list[Any] = []
        self.checked: set[int] = set()
        self.drew: list[bool] = []
        self.device: torch.device | None = None  # the user's default, where it is not the CPU


_GUARDED = _Guarded()


@contextmanager
def _keep_random_state(device: torch.device, may_draw: bool) -> Iterator[None]:
    """Put the global random state back if the model drew from it.

    Another thread may draw from it at the same time, and would draw its numbers again if the state were put back
    without need. So where there are other threads, the state is put back only for a model in training mode, or one
    that was seen to draw (`_note_draws`).
    """
    alone, on_gpu = _is_alone(), device.type == "cuda"
    state = torch.get_rng_state()
    gpu_state = torch.cuda.get_rng_state(device) if on_gpu else None

    def put_back() -> None:
        if (alone and _is_alone()) or may_draw or _GUARDED.drew[-1]:
            if not torch.equal(state, torch.get_rng_state()):
                torch.set_rng_state(state)
            if gpu_state is not None:
                torch.cuda.set_rng_state(gpu_state, device)

    try:
        _GUARDED.drew.append(False)
        yield
    finally:
        try:
            finish(put_back)
        finally:
            _GUARDED.drew.pop()


@contextmanager
def cpu_by_default() -> Iterator[None]:
    """New tensors are made on the CPU, where our own code expects them, whatever `torch.set_default_device` says."""
    default = torch.get_default_device()
    if default.type == "cpu":
        yield
        return
    outer, _GUARDED.device = _GUARDED.device, default
    try:
        with torch.device("cpu"):
            yield
    finally:
        _GUARDED.device = outer


@contextmanager
def _as_user_runs_it() -> Iterator[None]:
    """Around a call of the model, which gets the default device that its user chose."""
    if _GUARDED.device is None:
        yield
        return
    with _GUARDED.device:
        yield


def _is_compiled(model: Any) -> bool:
    """Whether the model's steps do not run one by one, so that nothing can look at each."""
    compiled = getattr(model, "_compiled_call_impl", None) is not None  # by model.compile()
    return isinstance(model, torch.jit.ScriptModule) or hasattr(model, "_orig_mod") or compiled


class WatchedDraws(TorchDispatchMode):
    """Notices whether this thread, inside, drew from a global generator: `drew`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.drew = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and kwargs.get("generator") is None:
            self.drew = True
        return func(*args, **kwargs)


def _is_alone() -> bool:
    """Whether no other thread of this program may draw random numbers: tqdm's, which watches bars, draws none."""
    return threading.active_count() == 1 or all(t.name in ("MainThread", "tqdm_monitor") for t in threading.enumerate())


@contextmanager
def _note_draws(model: Any) -> Iterator[None]:
    """Around a call of the model: notes for the guard whether it draws random numbers. Does nothing in a program of
    one thread, which needs no note."""
    if _is_alone() or not _GUARDED.drew or _is_compiled(model):
        yield
        return
    with WatchedDraws() as watched:
        yield
    _GUARDED.drew[-1] |= watched.drew


def run_part(name: str, part: Callable[[Tensor], Any], rows: Tensor) -> Tensor:
    """What a user's own part, such as an encoder, makes of rows (n, …), in its dtype: numbers (n, …), a VAE's mean.

    Refused are other things than a row of numbers for each row, and rows that depend on each other.
    """
    weights = part.parameters() if isinstance(part, nn.Module) else iter(())
    given = rows.to(next((weight.dtype for weight in weights if weight.is_floating_point()), rows.dtype))
    found = part(given)
    found = found[0] if isinstance(found, tuple) and found else found
    got = (tuple(found.shape), found.dtype) if isinstance(found, Tensor) else type(found).__name__
    if not isinstance(found, Tensor) or found.ndim < 2 or len(found) != len(rows) or not found.is_floating_point():
        raise ValueError(
            f"the {name} returned {got} for points {tuple(rows.shape)}, expected floating-point numbers "
            f"({len(rows)}, …): wrap it, as in {name}=lambda x: vae.{name[:-1]}(x)[0]"
        )
    if _GUARDED.models and id(part) not in _GUARDED.checked and len(rows) > 1:
        _GUARDED.checked.add(id(part))
        alone = run_part(name, part, rows[:1].expand_as(rows))[0].detach()
        apart, largest = (alone - found[0].detach()).abs().max(), alone.abs().max().clamp_min(1e-6)
        if float(apart) > max(1e-3, 64 * torch.finfo(found.dtype).eps) * float(largest):
            raise ValueError(
                f"the {name}'s rows are not independent: a row gives other numbers among copies of itself than among "
                f"others. Call {name}.eval() (BatchNorm, dropout)"
            )
    return found


def ordinary(tensor: Tensor) -> Tensor:
    """The tensor without its graph; a copy, where it was made under inference mode and autograd could not use it."""
    with torch.inference_mode(False):
        return tensor.clone() if tensor.is_inference() else tensor.detach()


Target = int | Sequence[int] | Tensor | Callable[[Tensor], Tensor] | None
CheckedTarget = int | Tensor | Callable[[Tensor], Tensor] | None
Inputs = Tensor | tuple[Tensor, ...]
Baselines = float | Tensor | tuple[float | Tensor | None, ...] | None


def check_inputs(inputs: Inputs, integers_allowed: bool) -> tuple[Tensor, ...]:
    """The inputs as a tuple of tensors (batch, *features) without graphs: finite numbers of at least one row."""
    given: Any = inputs
    if isinstance(given, list) and given and all(isinstance(part, Tensor) for part in given):
        raise ValueError("inputs is a list, expected a tensor, or for several inputs a tuple: pass tuple(inputs)")
    parts = inputs if isinstance(inputs, tuple) else (inputs,)
    if not parts:
        raise ValueError("inputs is an empty tuple, expected a tensor, or a tuple with one tensor per input")
    for i, part in enumerate(parts):
        name = f"inputs[{i}]" if isinstance(inputs, tuple) else "inputs"
        check_tensor(name, part)
        if part.ndim == 0 or not part.numel():
            words = "expected at least one example, with at least one feature: (batch, *features)"
            raise ValueError(f"{name} has shape {tuple(part.shape)}, {words}")
        if len(part) != len(parts[0]):
            raise ValueError(f"{name} has {len(part)} examples, inputs[0] has {len(parts[0])}: expected one batch size")
        if not part.is_floating_point():
            if not integers_allowed:
                raise ValueError(
                    f"{name} has dtype {part.dtype}, which has no gradient: pass {name}.float(), or for token ids "
                    "explain the embedding, Score(model, target, layer=model.embedding)"
                )
        elif not torch.isfinite(part).all():
            bad = int((~torch.isfinite(flat_rows(part))).any(1).nonzero()[0])
            remedy = f"drop or repair it, e.g. {name}.nan_to_num()"
            raise ValueError(f"{name} of example {bad} holds NaN or infinite values: {remedy}")
    return tuple(ordinary(part) for part in parts)


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
    model_output: Any, target: CheckedTarget, output: Output, rows: int, class_dim: int | None = None
) -> Tensor:
    """One number per row, out of whatever the model returned: (rows,). `class_dim` is where a softmax finds classes."""
    tensor = output_tensor(model_output)
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()  # a softmax in half precision would add noise that the model does not have
    if callable(output):
        tensor = _check_answer("output", output(tensor), rows)
    elif output == "sigmoid":
        tensor = tensor.sigmoid()
    elif output != "raw":
        dim = _find_classes(tensor, output, class_dim)
        if output == "logit_margin":
            check_rows(tensor, rows)
            return _logit_margin(tensor, _check_index(target, tensor))
        tensor = tensor.softmax(dim) if output == "softmax" else tensor.log_softmax(dim)
    return _pick_target(tensor, target, rows)


def class_scores(tensor: Tensor, output: Output) -> Tensor:
    """The score of every class (rows, classes), of a model's output (rows, classes)."""
    if tensor.ndim != 2:
        raise ValueError(f"every class needs an output (batch, classes), got {tuple(tensor.shape)}: give output=…")
    if callable(output):
        return _check_answer("output", output(tensor), len(tensor))
    if output == "logit_margin":
        share = tensor.log_softmax(1)
        return share - (-torch.expm1(share)).log()
    named = {"raw": tensor.clone, "sigmoid": tensor.sigmoid}
    return named[output]() if output in named else getattr(tensor, output)(1)


def _check_answer(what: str, answer: Any, rows: int) -> Tensor:
    """Refuse what a user's function made of the model's output if it is no tensor of numbers."""
    if not isinstance(answer, Tensor) or answer.is_complex():
        got = answer.dtype if isinstance(answer, Tensor) else f"a {type(answer).__name__}"
        raise ValueError(f"the {what} callable returned {got}, expected a tensor ({rows}, …) of real numbers")
    return answer


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


def _pick_target(tensor: Tensor, target: CheckedTarget, rows: int) -> Tensor:
    if callable(target):
        tensor = _check_answer("target", target(tensor), rows)
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
        # Recurrent nets of cuDNN have no backward in evaluation mode; PyTorch's own have one.
        self._avoids_cudnn = self.device.type == "cuda" and has_recurrent_parts(self.model)
        self.runs_step_by_step = not any(map(_is_compiled, (self.model, *modules_of(self.model))))
        self._seen: set[bool] = set()  # kinds of calls that were watched for random numbers
        self._args = self._bind_args(score)
        self.args_differ_by_row = any(by_row for _, by_row in self._args)
        lengths = getattr(self.model, "row_lengths", None) if self.args_differ_by_row else None
        self.lengths = lengths(*self.inputs, *(arg for arg, _ in self._args)) if callable(lengths) else None

    def __call__(self, parts: Sequence[Tensor], rows: Tensor) -> Any:
        """The model's output for inputs (n, …) with the extra arguments of `rows` (n,); advice if inputs do not fit."""
        try:
            watch = _note_draws(self.model) if self._first_of_its_kind() else nullcontext()
            with _as_user_runs_it(), watch, cudnn.flags(enabled=False) if self._avoids_cudnn else nullcontext():
                return self.model(*parts, *(arg[rows] if by_row else arg for arg, by_row in self._args))
        except (RuntimeError, IndexError, ValueError) as error:
            if is_out_of_memory(error) or isinstance(error, UnfitInputs):
                raise
            args = [arg for arg, _ in self._args]
            modules = modules_of(self.model)
            said = explain_failure(self.model, modules, self.inputs[0], args, self._unmarked, error)
            raise UnfitInputs(said) from error

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
