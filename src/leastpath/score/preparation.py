"""prepare(): a copy of a model that is made ready for input gradients, where this helps on this machine.

Only the copy is run, and only to compare it with what it was. Explanations are made by `calls.py`.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from torch.nn.utils.parametrize import is_parametrized
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from leastpath._support.checks import check_kind
from leastpath._support.fastest import clock_of
from leastpath._support.files import reason_of
from leastpath.score.calls import Inputs, cpu_by_default, device_of, ordinary, output_tensor

# For a single precision model, of the largest output, and of the gradients' norm: rounding can carry a unit over the
# kink of its ReLU; measured on four nets: up to 3e-3.
TOLERANCES = (1e-4, 1e-2)
WORTH_KEEPING = 0.98  # a step must save at least 2 % of the time
TRIAL_SECONDS = 1.0  # for each comparison
TRIAL_ROUNDS = range(3, 16)  # at least and at most
FOLDED: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
    nn.Linear: nn.BatchNorm1d,
}


@dataclass(frozen=True)
class Step:
    """One thing that was tried."""

    name: str
    kept: bool
    why: str
    """In words."""
    time: float = math.nan
    """Seconds of an input gradient with this step, over those without it. NaN where it was not timed."""
    output_difference: float = math.nan
    """Largest difference of an output, over the largest output."""
    gradient_difference: float = math.nan
    """Norm of the difference of the gradients, over the norm of the gradients."""


@dataclass(frozen=True)
class Preparation:
    """What `prepare` did and what it left out; `print` shows it."""

    steps: tuple[Step, ...]
    time: float
    """Seconds of an input gradient, over those of the model before."""
    output_difference: float
    """Largest difference of an output from the model's, over the largest output."""
    gradient_difference: float
    """Norm of the difference of the gradients from the model's, over the norm of the gradients."""

    def __str__(self) -> str:
        lines = [f"{'kept' if step.kept else 'left out':8s}  {step.name}: {step.why}" for step in self.steps]
        if not math.isnan(self.time):
            lines.append(
                f"together: {self.time:.2f} × the time of an input gradient, outputs differ by "
                f"{self.output_difference:.0e}, gradients by {self.gradient_difference:.0e}"
            )
        return "\n".join(lines)


class Prepared(nn.Module):
    """A model made ready for input gradients. Called like the model; made by `prepare`."""

    report: Preparation
    """What was done, what was left out, and why."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.channels_last = False

    def forward(self, *args: Any, **more: Any) -> Any:
        """What the model returns."""
        if self.channels_last:
            args = tuple(_channels_last(arg) for arg in args)
        return self.model(*args, **more)


def prepare(model: nn.Module, example: Inputs) -> Prepared:
    """A copy of a model, made ready for input gradients: the same function, and less time per gradient.

    The copy is in evaluation mode with frozen parameters. Then three steps are tried, and each is kept only where it
    saves time on this machine: batch normalisations are folded into the layer before them, memory is arranged with
    channels last, 1 × 1 convolutions become matrix products. Each is also left out if outputs or input gradients on
    the example differ by more than rounding explains. `report` says what was done.

    Args:
        model: a module. It is not changed, and it is not run.
        example: some inputs, as you will explain them: a tensor (batch, *features), or a tuple with all that the model
            is called with. A few rows are enough. Use as many as one model call will have.

    Returns:
        A module that is called like the model. The copy is its `model`, as in `Score(ready, layer=ready.model.layer4)`.

    Example:
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2))
        >>> ready = prepare(net.eval(), torch.rand(4, 3, 8, 8))
        >>> [step.name for step in ready.report.steps][:2]
        ['evaluation mode, frozen parameters', 'batch normalisations folded']
        >>> torch.allclose(ready(torch.ones(1, 3, 8, 8)), net(torch.ones(1, 3, 8, 8)), atol=1e-4)
        True
    """
    inputs = _check(model, example)
    with torch.inference_mode(False), cpu_by_default():  # weights of inference mode could not be used for gradients
        ready = Prepared(_copy(model)).eval().requires_grad_(False)
    mode = "the model was in training mode: its dropout and batch statistics are off in the copy"
    first = Step("evaluation mode, frozen parameters", True, mode if model.training else "always")
    if not any(map(_is_float, inputs)):
        nothing = "the example has no floating-point inputs, so there is no input gradient to try it on"
        skipped = (Step(name, False, nothing) for name, _ in STEPS)
        ready.report = Preparation((first, *skipped), math.nan, math.nan, math.nan)
        return ready
    with _trial(inputs):
        plain, truth, steps = ready, _ask(ready, inputs), [first]
        for name, apply in STEPS:
            ready, step = _try_step(name, apply, ready, truth, inputs)
            steps.append(step)
        taken = 1.0 if ready is plain else _compare(plain, ready, inputs)
        ready.report = Preparation(tuple(steps), taken, *_differences(_ask(ready, inputs), truth))
    return ready


prepared = prepare  # its name in version 0.2


def _try_step(
    name: str, apply: Callable[[Prepared, tuple[Any, ...]], str], before: Prepared, truth: _Answer,
    inputs: tuple[Any, ...],
) -> tuple[Prepared, Step]:  # fmt: skip
    """The copy with one more step, or as it was, and what became of the step."""
    after = copy.deepcopy(before)
    try:
        why = apply(after, inputs)
        if not why:
            return before, Step(name, False, "there is nothing to do it on")
        apart = _differences(_ask(after, inputs), truth)
    except Exception as error:  # a model may refuse a part that it did not expect, in any way
        return before, Step(name, False, f"the model does not work with it ({reason_of(error)})")
    coarse = max(torch.finfo(x.dtype).eps for x in inputs if _is_float(x)) / torch.finfo(torch.float32).eps
    if not all(d <= single * max(1.0, coarse) for d, single in zip(apart, TOLERANCES, strict=True)):
        different = (
            f"outputs would differ by {apart[0]:.0e} and gradients by {apart[1]:.0e}, which is more than rounding"
        )
        return before, Step(name, False, different, math.nan, *apart)
    taken = _compare(before, after, inputs)
    kept, gain = taken <= WORTH_KEEPING, "" if taken <= WORTH_KEEPING else ", which is no gain"
    return after if kept else before, Step(name, kept, f"{why}; {taken:.2f} × the time{gain}", taken, *apart)


# ---- steps: each changes the copy in place and says what it did, or nothing where there was nothing to do -----------


def _fold(ready: Prepared, inputs: tuple[Any, ...]) -> str:
    """Fold batch normalisations into the convolution or linear layer that alone feeds them."""
    pairs = _neighbors(ready, inputs)
    for layer, norm in pairs:
        is_linear = isinstance(layer, nn.Linear)
        fused = fuse_linear_bn_eval(layer, norm) if is_linear else fuse_conv_bn_eval(layer, norm)
        _replace(ready, layer, fused.requires_grad_(False))
        _replace(ready, norm, nn.Identity())
    n = sum(isinstance(module, tuple(FOLDED.values())) for module in ready.modules()) + len(pairs)
    return f"{len(pairs)} of {n}" if pairs else ""


def _arrange(ready: Prepared, inputs: tuple[Any, ...]) -> str:
    """Channels last in memory, for weights and inputs."""
    pictures = any(_is_float(x) and x.ndim == 4 for x in inputs)
    n = sum(isinstance(module, nn.Conv2d) for module in ready.modules())
    if not (pictures and n):
        return ""
    ready.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    ready.channels_last = True
    return f"{n} convolutions"


def _multiply(ready: Prepared, inputs: tuple[Any, ...]) -> str:
    """1 × 1 convolutions as matrix products."""
    pointwise = [module for module in ready.modules() if Pointwise.fits(module) and _is_plain(module)]
    for convolution in pointwise:
        _replace(ready, convolution, Pointwise(convolution))  # type: ignore[arg-type]
    return f"{len(pointwise)} convolutions" if pointwise else ""


STEPS: tuple[tuple[str, Callable[[Prepared, tuple[Any, ...]], str]], ...] = (
    ("batch normalisations folded", _fold),
    ("channels last", _arrange),
    ("1 × 1 convolutions as matrix products", _multiply),
)


class Pointwise(nn.Module):
    """A 1 × 1 convolution as a matrix product, which is faster over channels-last memory."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.weight = nn.Parameter(convolution.weight[:, :, 0, 0].detach().clone(), requires_grad=False)
        self.bias = convolution.bias

    @staticmethod
    def fits(module: nn.Module) -> bool:
        """Whether a module is a convolution that only mixes channels. A subclass may do more, so it is not one."""
        if type(module) is not nn.Conv2d:
            return False
        return (module.kernel_size, module.stride, module.padding, module.groups) == ((1, 1), (1, 1), (0, 0), 1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) -> the same with other channels."""
        return nn.functional.linear(x.permute(0, 2, 3, 1), self.weight, self.bias).permute(0, 3, 1, 2)


# ---- which layer feeds which ---------------------------------------------------------------------------------------


def _neighbors(ready: Prepared, inputs: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """Layers with the batch normalisation that alone reads their output, found by running the example.

    Any model can be looked at in this way, also where `torch.fx` cannot trace it. What reads an output is what points
    at it in the graph of gradients.
    """
    calls: list[tuple[nn.Module, Tensor, Tensor]] = []
    watched = [m for m in ready.modules() if isinstance(m, (*FOLDED, *FOLDED.values())) and _is_plain(m)]
    hooks = [m.register_forward_hook(lambda m, given, out: calls.append((m, given[0], out))) for m in watched]
    try:
        with _WatchedReads() as read, _WatchedExports() as exported:  # type: ignore[no-untyped-call]
            output = output_tensor(ready(*_leaves(inputs)))
    finally:
        for hook in hooks:
            hook.remove()
    if read.seen or exported.seen:
        raise ValueError("it reads numbers while it runs, so other inputs may take another way through its layers")
    runs = Counter(id(module) for module, _, _ in calls)
    readers = _readers(output)
    made = {id(out): (module, out) for module, _, out in calls if runs[id(module)] == 1}
    pairs = []
    for norm, given, _ in calls:
        layer, out = made.get(id(given), (norm, given))
        if runs[id(norm)] == 1 and readers[out.grad_fn] == 1 and _can_fold(layer, norm, out):
            pairs.append((layer, norm))
    return pairs


class _WatchedReads(TorchDispatchMode):
    """Notices whether a model asks for a number as Python's, as a branch that depends on the data does: `seen`."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags))
        return func(*args, **(kwargs or {}))


class _WatchedExports(TorchFunctionMode):
    """The same for what takes numbers out of the memory of a tensor, which is no operation."""

    names = ("tolist", "numpy", "__array__", "__dlpack__", "data_ptr", "untyped_storage", "storage")
    seen = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= getattr(func, "__name__", "") in self.names
        return func(*args, **(kwargs or {}))


def _can_fold(layer: nn.Module, norm: nn.Module, out: Tensor) -> bool:
    """Whether this kind of layer can take the batch normalisation of its output into its weights."""
    kind = next((norm_kind for kind, norm_kind in FOLDED.items() if isinstance(layer, kind)), None)
    if kind is None or type(norm) is not kind or norm.running_mean is None:
        return False
    return out.ndim == 2 if isinstance(layer, nn.Linear) else True  # of more dimensions, the second is not the features


def _readers(output: Tensor) -> Counter[Any]:
    """How many operations read the result of each operation, by its node in the graph of gradients."""
    count: Counter[Any] = Counter()
    waiting = [output.grad_fn]
    while waiting:
        node = waiting.pop()
        for before, _ in node.next_functions if node is not None else ():
            if before not in count:
                waiting.append(before)
            count[before] += 1
    return count


def _is_plain(module: nn.Module) -> bool:
    """Whether a module's weights are all there is to it: no hooks, no parametrisation."""
    return not (module._forward_hooks or module._forward_pre_hooks or is_parametrized(module))


def _replace(ready: Prepared, old: nn.Module, new: nn.Module) -> None:
    """Put another module in all places of one."""
    for parent in list(ready.modules()):
        for name, child in list(parent.named_children()):
            if child is old:
                setattr(parent, name, new)


# ---- trials --------------------------------------------------------------------------------------------------------


_Answer = tuple[Tensor, ...]
"""What a model says of the example and of the way to it: outputs, then gradients of the floating-point inputs."""


def _ask(ready: Prepared, inputs: tuple[Any, ...], scales: Sequence[float] = (1.0, 0.5)) -> _Answer:
    """Outputs, and input gradients of a fixed mixture of them, at the example and half way from zero."""
    outputs: list[Tensor] = []
    gradients: list[Tensor] = []
    for scale in scales:
        leaves = _leaves(inputs, scale)
        output = output_tensor(ready(*leaves))
        mixture = torch.randn(output.shape[1:], generator=torch.Generator().manual_seed(0)).to(output)
        wanted = [x for x in leaves if _is_float(x)]
        gradients += torch.autograd.grad((output * mixture).sum(), wanted, materialize_grads=True)
        outputs.append(output.detach())
    return torch.cat(outputs), *gradients


def _differences(answer: _Answer, truth: _Answer) -> tuple[float, float]:
    """Of outputs, relative to the largest, and of gradients, relative to their norm."""
    tiny = torch.finfo(torch.float64).tiny
    apart = [(found - true).double() for found, true in zip(answer, truth, strict=True)]
    norm, error = (math.hypot(*(float(x.double().norm()) for x in some[1:])) for some in (truth, apart))
    return float(apart[0].abs().max() / truth[0].double().abs().max().clamp_min(tiny)), error / max(norm, tiny**0.5)


def _compare(before: Prepared, after: Prepared, inputs: tuple[Any, ...]) -> float:
    """Time of an input gradient after a change over that before. They take turns, and the fastest of each counts."""
    clock, best = clock_of(device_of(inputs)), [math.inf, math.inf]
    begin = clock()
    for done in range(TRIAL_ROUNDS.stop):
        for i, ready in enumerate((before, after)):
            first = clock()
            _ask(ready, inputs, scales=(1.0,))
            best[i] = min(best[i], clock() - first)
        if done + 1 >= TRIAL_ROUNDS.start and clock() - begin > TRIAL_SECONDS:
            break
    return best[1] / best[0]


@contextmanager
def _trial(inputs: tuple[Any, ...]) -> Iterator[None]:
    """Gradients are recorded whatever the caller's mode, and the program's random numbers stay where they were."""
    device = device_of(inputs)
    with (
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
        torch.inference_mode(False),
        torch.enable_grad(),
        cpu_by_default(),
    ):
        yield


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _leaves(inputs: tuple[Any, ...], scale: float = 1.0) -> list[Any]:
    """The inputs, those of floating point as leaves that require a gradient."""
    return [(ordinary(x) * scale).requires_grad_() if _is_float(x) else x for x in inputs]


def _channels_last(arg: Any) -> Any:
    is_picture = isinstance(arg, Tensor) and arg.ndim == 4
    return arg.contiguous(memory_format=torch.channels_last) if is_picture else arg


def _check(model: Any, example: Any) -> tuple[Any, ...]:
    check_kind("model", model, nn.Module, "a torch.nn.Module: a function cannot be prepared")
    inputs = example if isinstance(example, tuple) else (example,)
    if not inputs or not isinstance(inputs[0], Tensor) or inputs[0].ndim == 0 or not len(inputs[0]):
        raise ValueError(
            "example must be some inputs as the model takes them, a tensor (batch, *features) or a tuple: "
            "prepare(model, inputs[:4])"
        )
    return inputs


def _copy(model: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(model)
    except Exception as error:  # modules may hold anything
        raise ValueError(f"the model cannot be copied ({error}): explain it as it is, Score(model, target)") from error
