"""Rules of relevance propagation, as gradients: what flows back is relevance over activation, R = activation × flow.

In this form sums, reshapes, averages and maxima need no rule of their own, and Gradient × Input of the changed backward
pass is the relevance. The ε- and γ-rules are those of Montavon et al. 2019 (γ as generalised by Andéol et al. 2021 to
inputs of both signs), the rules of attention those of AttnLRP (Achtibat et al. 2024): products are shared evenly,
normalisations and activations pass relevance on, the softmax keeps its own gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Operation = Callable[[Tensor, Tensor, "Tensor | None"], Tensor]  # (input, weight, bias) -> output
Name = Literal["epsilon", "gamma", "flat"]


@dataclass(frozen=True)
class Rule:
    """How a linear or convolutional layer shares the relevance of its outputs among its inputs.

    "epsilon": in proportion to what each contributed. "gamma": the same, with contributions in favour counted 1 + γ
    times. "flat": evenly, whatever was contributed, which only makes sense where the inputs are what is explained.
    """

    name: Name
    gamma: float = 0.25
    epsilon: float = 1e-6

    def __call__(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, run: Operation, carrier: Tensor | None
    ) -> Tensor:
        """The layer's output, with this rule in its backward pass.

        Where there is a `carrier`, of the shape of x, it receives the relevance of the inputs itself, and x nothing.
        """
        found: Tensor = _Layer.apply(x, carrier, weight, bias, run, self)  # type: ignore[no-untyped-call]
        return found

    def share(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, run: Operation, out: Tensor, flow: Tensor
    ) -> Tensor:
        """From the flow (n, …) over outputs to that over inputs."""
        relevance = out * flow
        if self.name == "gamma":
            return self._share_gamma(x, weight, bias, run, out, relevance)
        return _pull(run, x, weight, relevance / _stabilise(out, self.epsilon))

    def relevance(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, run: Operation, out: Tensor, flow: Tensor
    ) -> Tensor:
        """From the flow over outputs to the relevance of the inputs."""
        if self.name != "flat":
            return x * self.share(x, weight, bias, run, out, flow)
        ones, even = torch.ones_like(x), torch.ones_like(weight)
        return _pull(run, x, even, out * flow / _stabilise(run(ones, even, None), self.epsilon))

    def _share_gamma(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, run: Operation, out: Tensor, relevance: Tensor
    ) -> Tensor:
        up, down = x.clamp_min(0), x.clamp_max(0)
        more, less = weight + self.gamma * weight.clamp_min(0), weight + self.gamma * weight.clamp_max(0)
        flows = []
        for wanted, same, other, limit in ((out > 0, more, less, {"min": 0}), (out < 0, less, more, {"max": 0})):
            shift = None if bias is None else bias + self.gamma * bias.clamp(**limit)
            total = run(up, same, shift)
            if bool((down < 0).any()):
                total = total + run(down, other, None)
            share = torch.where(wanted, relevance / _stabilise(total, self.epsilon), 0)
            flows.append((_pull(run, x, same, share), _pull(run, x, other, share)))
        (for_up, for_down), (against_up, against_down) = flows
        return torch.where(x >= 0, for_up + against_up, for_down + against_down)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, carrier: Tensor | None, weight: Tensor, bias: Tensor | None, run: Operation, rule: Rule
    ) -> Tensor:
        out = run(x, weight, bias)
        ctx.save_for_backward(x, weight, bias, out)
        ctx.run, ctx.rule, ctx.carried = run, rule, carrier is not None
        return out

    @staticmethod
    def backward(ctx: Any, flow: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, out = (None if part is None else part.detach() for part in ctx.saved_tensors)
        if ctx.carried:
            return None, ctx.rule.relevance(x, weight, bias, ctx.run, out, flow), None, None, None, None
        return ctx.rule.share(x, weight, bias, ctx.run, out, flow), None, None, None, None, None


def _stabilise(numbers: Tensor, epsilon: float) -> Tensor:
    """Away from zero by epsilon, zero itself upwards."""
    return numbers + torch.where(numbers < 0, -epsilon, epsilon)


def _pull(run: Operation, x: Tensor, weight: Tensor, share: Tensor) -> Tensor:
    """The transposed layer: shares of outputs back to the inputs."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        (back,) = torch.autograd.grad(run(leaf, weight, None), leaf, share)
    return back


# ---- what has no weights -----------------------------------------------------------------------------------------


def pass_on(x: Tensor, y: Tensor) -> Tensor:
    """y, an activation of x place by place, which keeps its relevance: the flow is y / x times that over y."""
    ratio = torch.where(x == 0, 0, y / torch.where(x == 0, 1, x)).detach()
    through = x * ratio
    return y.detach() + through - through.detach()


def halve_product(product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    """product(a, b) of two factors that both depend on the input: each gets half of the relevance."""
    return (product(a, b.detach()) + product(a.detach(), b)) / 2


def normalise(x: Tensor, dims: tuple[int, ...], epsilon: float) -> Tensor:
    """(x − mean) / deviation over dims, where the deviation is a constant for the relevance."""
    centred = x - x.mean(dims, keepdim=True)
    return centred * (centred.square().mean(dims, keepdim=True) + epsilon).rsqrt().detach()
