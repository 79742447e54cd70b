"""Captum's calling convention: a script changes its import, and has error control, a test and a verdict.

from captum.attr import IntegratedGradients  ->  from leastpath.captum import IntegratedGradients

`GeodesicIntegratedGradients` is the same along a bent path, that of `ElasticBand` unless another solver is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.checks import check_kind, show_value
from leastpath._support.threads import in_this_thread
from leastpath.attribution import attribute
from leastpath.geometry.metric import Metric
from leastpath.result.attribution import Attribution
from leastpath.score.arguments import by_length
from leastpath.score.calls import Baselines, Inputs, leave_untouched, output_tensor
from leastpath.score.score import Score
from leastpath.solvers.elastic.solver import ElasticBand
from leastpath.solvers.solution import Solver
from leastpath.solvers.straight import StraightLine

try:
    from captum.attr._utils.attribution import GradientAttribution, LayerAttribution
    from captum.log import log_usage  # NoiseTunnel calls what this wraps
except ImportError as error:
    raise ImportError("leastpath.captum needs Captum: pip install 'leastpath[captum]'") from error

CaptumTarget = int | tuple[int, ...] | Tensor | Sequence[int] | Sequence[tuple[int, ...]] | None

# Captum's one-sided sums are left out: at the same cost they are one order less accurate than the midpoint.
RULES_BY_METHOD = {"gausslegendre": "gauss_legendre", "riemann_middle": "midpoint", "riemann_trapezoid": "trapezoid"}


class GeodesicIntegratedGradients(GradientAttribution):  # type: ignore[misc] # Captum publishes no types
    """Geodesic Integrated Gradients with the interface of `captum.attr.IntegratedGradients`.

    Works wherever Captum takes a gradient attribution: in `NoiseTunnel`, `captum.metrics`, its visualisation.

    Args:
        forward_func: as in Captum: the model, or a function around it. What it returns at `target` is explained; to
            explain a log-probability pass `lambda x: model(x).log_softmax(1)`.
        multiply_by_inputs: False gives the mean gradient along the line. Only `StraightLine()` has one.
        solver: what finds the path. None: `ElasticBand()`, about 200 gradients per example, whatever the number of
            features. On the straight line it is `IntegratedGradients`.
        metric: what makes a path short. Conformal by default.

    Rarely needed:
        tolerance: the error that the integral must reach; refinement then starts at `n_steps`. None: exactly `n_steps`,
            as in Captum. On a bent path a fixed number of steps has no known error.
        max_gradients: budget per example, solver and integral together.
        seed: of everything random in the solver.
        progress: show progress bars.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(30, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
        >>> explainer = GeodesicIntegratedGradients(model, max_gradients=60)
        >>> values, delta = explainer.attribute(torch.rand(2, 30), target=1, return_convergence_delta=True)
        >>> values.shape, delta.shape
        (torch.Size([2, 30]), torch.Size([2]))
    """

    layer: nn.Module | None = None
    usual_solver: type[Solver] = ElasticBand

    def __init__(
        self,
        forward_func: Callable[..., Any],
        multiply_by_inputs: bool = True,
        *,
        solver: Solver | None = None,
        metric: Metric | None = None,
        tolerance: float | None = 0.01,
        max_gradients: int | None = None,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        solver = self.usual_solver() if solver is None else solver
        if not multiply_by_inputs and not isinstance(solver, StraightLine):
            raise ValueError(
                "multiply_by_inputs=False needs the straight line: use leastpath.captum.IntegratedGradients"
            )
        GradientAttribution.__init__(self, forward_func)
        self._multiplies = multiply_by_inputs
        self._settings: dict[str, Any] = {
            "method": solver, "metric": metric, "tolerance": tolerance if multiply_by_inputs else None,
            "weighting": None if multiply_by_inputs else _MeanGradient(), "max_gradients": max_gradients, "seed": seed,
            "progress": progress,
        }  # fmt: skip

    def has_convergence_delta(self) -> bool:
        """Yes: the completeness gap."""
        return True

    @property
    def multiplies_by_inputs(self) -> bool:
        """Whether values are attributions (True) or mean gradients."""
        return self._multiplies

    @log_usage()  # type: ignore[untyped-decorator]
    def attribute(
        self,
        inputs: Inputs,
        baselines: Baselines = None,
        target: CaptumTarget = None,
        additional_forward_args: Any = None,
        n_steps: int = 50,
        method: str = "gausslegendre",
        internal_batch_size: int | None = None,
        return_convergence_delta: bool = False,
        attribute_to_layer_input: bool = False,
    ) -> Any:
        """Attributions shaped like the inputs, and with `return_convergence_delta` also the completeness gap (batch,).

        Args:
            inputs: (batch, …), or a tuple of such.
            baselines: None (zeros), a number, (1, …) or (batch, …); a tuple of these for a tuple of inputs.
            target: Captum's: an index; a tuple of indices for outputs of more dimensions; a list with one of either for
                each example; or a tensor of indices.
            additional_forward_args: further arguments of the model; tensors of batch length are split row by row.
            n_steps: where refinement starts, or all steps there are: see `tolerance`.
            method: "gausslegendre", "riemann_middle" or "riemann_trapezoid".
            internal_batch_size: rows in one model call; None chooses by the size of an input.
            return_convergence_delta: return `(attributions, delta)`.
            attribute_to_layer_input: of `LayerGeodesicIntegratedGradients` only: explain the layer's input.
        """
        args = (inputs, baselines, target, additional_forward_args, n_steps, method, internal_batch_size)
        result = self._explain(*args, attribute_to_layer_input, support=False)
        if not return_convergence_delta:
            return result.values
        if self._multiplies or self.layer is not None:
            return result.values, result.completeness_gap
        with leave_untouched(self.forward_func, inputs):
            delta = self.compute_convergence_delta(result.values, baselines, inputs, target, additional_forward_args)
        return result.values, delta

    def attribute_future(self) -> None:
        """Captum's asynchronous call, which its own `IntegratedGradients` does not offer either."""
        raise NotImplementedError(
            f"attribute_future is not implemented for {type(self).__name__}: call attribute, or explain"
        )

    def explain(self, inputs: Inputs, *arguments: Any, **more: Any) -> Attribution:
        """As `attribute`, but with all that is known: lengths, certificates, the test by removal, a status for each.

        The arguments are those of `attribute`, without `return_convergence_delta`.
        """
        return self._explain(inputs, *arguments, support=self._multiplies, **more)

    def _explain(
        self, inputs: Inputs, baselines: Baselines = None, target: CaptumTarget = None,
        additional_forward_args: Any = None, n_steps: int = 50, method: str = "gausslegendre",
        internal_batch_size: int | None = None, attribute_to_layer_input: bool = False, *, support: bool,
    ) -> Attribution:  # fmt: skip
        if method not in RULES_BY_METHOD:
            known = f'{list(RULES_BY_METHOD)}; for one-sided sums take "riemann_middle"'
            raise ValueError(f"method={method!r} is not offered, use one of {known}")
        with _input_of(self.layer) if attribute_to_layer_input else nullcontext(self.layer) as explained:
            batch = len(inputs[0] if isinstance(inputs, tuple) else inputs)
            score = _score(self.forward_func, target, batch, additional_forward_args, internal_batch_size, explained)
            settings = {**self._settings, "n_steps": n_steps, "rule": RULES_BY_METHOD[method]}
            return attribute(score, inputs, baselines, support=support, **settings)


class LayerGeodesicIntegratedGradients(LayerAttribution, GeodesicIntegratedGradients):  # type: ignore[misc] # no types
    """Geodesic Integrated Gradients of a layer's output or input, e.g. of an embedding, as in Captum's layer methods.

    Attributions are shaped like the layer's output (or input). Baselines are raw inputs, as in Captum (token ids for an
    embedding), or activations shaped like the layer's.

    Args:
        forward_func: the model, or a function around it.
        layer: the module whose output (or input) is explained. One module; of a tuple output, the first tensor.
        device_ids: Captum's, for DataParallel, which is not supported: leave it None.
        multiply_by_inputs: as in `GeodesicIntegratedGradients`.
        settings: solver, metric, tolerance, max_gradients, seed, progress: as in `GeodesicIntegratedGradients`.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Embedding(9, 6), torch.nn.Flatten(), torch.nn.Linear(24, 2)).eval()
        >>> explainer = LayerGeodesicIntegratedGradients(model, model[0], max_gradients=60)
        >>> explainer.attribute(torch.tensor([[1, 5, 2, 8]]), baselines=0, target=1).shape
        torch.Size([1, 4, 6])
    """

    def __init__(
        self,
        forward_func: Callable[..., Any],
        layer: nn.Module,
        device_ids: list[int] | None = None,
        multiply_by_inputs: bool = True,
        **settings: Any,
    ) -> None:
        check_kind("layer", layer, nn.Module, "one module: explain several layers in turn")
        if device_ids:
            raise ValueError(f"device_ids={device_ids}: DataParallel is not supported, pass the module that it wraps")
        LayerAttribution.__init__(self, forward_func, layer, device_ids)
        GeodesicIntegratedGradients.__init__(self, forward_func, multiply_by_inputs, **settings)


class IntegratedGradients(GeodesicIntegratedGradients):
    """Captum's `IntegratedGradients` with error control; `explain` adds the test by removal and a status.

    The path is the straight line. Arguments are those of `GeodesicIntegratedGradients`.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(30, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
        >>> IntegratedGradients(model).explain(torch.rand(2, 30), target=1).method
        'StraightLine()'
    """

    usual_solver = StraightLine


class LayerIntegratedGradients(LayerGeodesicIntegratedGradients):
    """Captum's `LayerIntegratedGradients` with error control: as `IntegratedGradients`, of a layer's output or input.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Embedding(9, 6), torch.nn.Flatten(), torch.nn.Linear(24, 2)).eval()
        >>> LayerIntegratedGradients(model, model[0]).attribute(torch.tensor([[1, 5, 2, 8]]), target=1).shape
        torch.Size([1, 4, 6])
    """

    usual_solver = StraightLine


@dataclass(frozen=True)
class _MeanGradient:
    """The mean gradient on a segment, not multiplied by its step: a weighting for a path of one segment."""

    complete: bool = False

    def weigh(self, gradient: Tensor, step: Tensor) -> Tensor:
        return gradient

    def finish(self, total: Tensor, step: Tensor) -> Tensor:
        return total


def _score(
    forward_func: Callable[..., Any],
    target: Any,
    batch: int,
    additional_forward_args: Any,
    batch_size: int | None,
    layer: nn.Module | None,
) -> Score:
    extra = () if additional_forward_args is None else additional_forward_args
    extra = extra if isinstance(extra, tuple) else (extra,)
    one = target if isinstance(target, tuple) else target.reshape(-1).tolist() if isinstance(target, Tensor) else ()
    if len(one) == 1:
        target = int(one[0])
    elif isinstance(target, tuple):
        target = [target] * batch
    picks = isinstance(target, list) and len(target) > 0 and isinstance(target[0], (list, tuple))
    model = _Wrapped(forward_func, layer, picks) if picks or layer is not None else forward_func
    if picks:  # the indices of each row are passed as an argument
        if any(len(one) != len(target[0]) or not all(isinstance(i, int) for i in one) for one in target):
            raise ValueError(f"target={show_value(target)} must be tuples of class indices, as many for each example")
        extra, target = (*extra, torch.as_tensor(target)), None
    marked = tuple(map(by_length, extra))  # Captum knows no marks
    return Score(model, target, layer=layer, additional_forward_args=marked, batch_size=batch_size)


class _Wrapped(nn.Module):
    """A forward function as a module that owns the explained layer. The function may be a method or a closure."""

    def __init__(self, forward_func: Callable[..., Any], layer: nn.Module | None, picks: bool) -> None:
        super().__init__()
        owner = forward_func if isinstance(forward_func, nn.Module) else getattr(forward_func, "__self__", None)
        self.owner = owner if isinstance(owner, nn.Module) else None
        self.layer, self.forward_func, self.picks = layer, forward_func, picks
        known = [m for m in (self.owner, layer) if m is not None]
        self.training = bool(known) and known[0].training  # the mode of the model, never a default

    def forward(self, *args: Any) -> Any:
        if not self.picks:
            return self.forward_func(*args)
        index: Tensor = args[-1]  # (rows, output dimensions)
        output = output_tensor(self.forward_func(*args[:-1]))
        if len(index) != len(output):
            raise ValueError("the list of targets is not as long as the batch: pass one tuple per example")
        if index.shape[1] != output.ndim - 1:
            raise ValueError(
                f"target has {index.shape[1]} indices per example, but the output is {tuple(output.shape)}: "
                f"expected {output.ndim - 1}, one for each dimension after the batch"
            )
        sizes = torch.tensor(output.shape[1:], device=index.device)
        if bool(((index < 0) | (index >= sizes)).any()):
            raise ValueError(f"target has indices up to {int(index.max())}, beyond an output {tuple(output.shape)}")
        return output[(torch.arange(len(output), device=output.device), *index.unbind(1))]


@contextmanager
def _input_of(layer: nn.Module | None) -> Iterator[nn.Module]:
    """A module whose output is the layer's first input: explaining it explains that input."""
    if layer is None:
        raise ValueError("attribute_to_layer_input needs a layer: use LayerGeodesicIntegratedGradients(model, layer)")
    probe = nn.Identity().train(layer.training)

    def reroute(_module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if not args:
            raise ValueError("the layer is called with keyword arguments only: explain the layer before it instead")
        return probe(args[0]), *args[1:]

    with layer.register_forward_pre_hook(in_this_thread(reroute)):
        yield probe
