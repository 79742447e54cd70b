"""LRP: layer-wise relevance propagation (Bach et al. 2015), for modules and functions alike.

While the model runs, every call of a torch function is looked up here: layers get a rule by their kind, and what has
none keeps its gradient. No module is hooked, replaced or copied, so models written with functions work too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from leastpath._support.checks import NotNegative, Positive
from leastpath.methods.method import Explained, Problem, method
from leastpath.methods.relevance_rules import Name, Operation, Rule, halve_product, normalise, pass_on

Choice = Literal["composite", "epsilon", "gamma"]


@method("LRP", "Relevance of the logit, passed back layer by layer.", unitless=True, cost=(10, 0))
def lrp(
    problem: Problem,
    *,
    rule: Choice = "composite",
    gamma: NotNegative = 0.25,
    epsilon: Positive = 1e-6,
    first: Name = "flat",
) -> Explained:
    """LRP: the logit is passed back from layer to layer, each sharing what it gets among what it was made from.

    Convolutions and fully connected layers have rules; batch normalisation is folded into the layer before it;
    activations (ReLU, ReLU6, SiLU, GELU, …) and layer normalisation pass relevance on; attention follows AttnLRP;
    gates, `x * sigmoid(…)`, get none. The logit is explained whatever the output of the score is, as its softmax has
    no rule. Values add up to the logit without what biases take; baselines play no part. It counts as one
    gradient and takes the time of about ten.

    LRP is said to be patented for commercial use: ask the patent's holders (Fraunhofer) before you sell it.

    Args:
        rule: "composite": γ for convolutions, ε for everything else, and `first` for a convolution that sees the input.
            "epsilon" and "gamma": that rule everywhere.
        gamma: how much more contributions in favour count; larger is smoother.
        epsilon: keeps denominators from zero.
        first: of the composite's first convolution: "flat" shares evenly over what it sees, "gamma", "epsilon".

    Example:
        >>> import leastpath as lp
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> _ = torch.nn.init.ones_(model.weight)
        >>> lrp(lp.Score(model, 0), torch.tensor([[2.0, 3.0]])).values
        tensor([[2., 3.]])
    """
    rules = _choose_rules(rule, gamma, epsilon, first)
    score, bound = problem.score, problem.bound
    if isinstance(score.output, str) and score.output != "raw":
        bound = replace(score, output="raw").bind(problem.inputs, problem.m)
    rows = torch.arange(0, len(problem), problem.m)
    problem.bound.count_gradients(rows)
    found = bound.in_batches(partial(_propagate, bound, rules), problem.end[:: problem.m], rows)
    problem.bar.advance(len(problem))
    values = torch.cat(found).to(problem.bound.work_dtype).repeat_interleave(problem.m, 0)
    said = "" if bound is problem.bound else f"relevance is that of the logit, not of its {score.output}"
    return Explained(values, remarks=[said] * len(values), uses_all_baselines=True)


def _choose_rules(rule: Any, gamma: Any, epsilon: Any, first: Any) -> Mapping[str, Rule]:
    names: dict[str, Name] = dict.fromkeys(
        ("convolution", "linear", "first"), "gamma" if rule == "gamma" else "epsilon"
    )
    if rule == "composite":
        names |= {"convolution": "gamma", "first": first}
    return {layer: Rule(name, gamma, epsilon) for layer, name in names.items()}


def _propagate(bound: Any, rules: Mapping[str, Rule], points: Tensor, rows: Tensor, _: slice) -> Tensor:
    """The relevance (n, *shape) of some points."""
    with torch.inference_mode(False), torch.enable_grad():
        leaf = points.to(bound.dtype).detach().clone().requires_grad_()
        carrier = torch.zeros_like(leaf).requires_grad_()
        with Propagation(rules, leaf, carrier):
            value = bound.evaluate(leaf, rows)
        if not value.requires_grad:
            raise ValueError("the score does not depend on the inputs: no relevance flows back to them")
        flow, carried = torch.autograd.grad(value.sum(), (leaf, carrier), allow_unused=True, materialize_grads=True)
    return leaf.detach() * flow + carried


# ---- every call of a torch function -------------------------------------------------------------------------------


@dataclass
class _Tag:
    """What is known of a tensor that depends on the input."""

    carrier: Tensor | None = None  # receives the relevance of this tensor, which is the input up to shape and scale
    gate: bool = False  # between 0 and 1, and made to multiply something
    layer: tuple[Operation, Tensor, Tensor, Tensor | None, str] | None = None  # that gave it


class Propagation(TorchFunctionMode):
    """While it is active, torch functions are run with the rules of LRP in their backward pass."""

    def __init__(self, rules: Mapping[str, Rule], leaf: Tensor, carrier: Tensor) -> None:
        super().__init__()
        self.rules = rules
        _mark(leaf, _Tag(carrier))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tags = [tag for tag in map(tag_of, _tensors(args, kwargs)) if tag is not None]
        if not tags:
            return func(*args, **kwargs)
        if func in _HANDLERS:
            out = _HANDLERS[func](self, func, *args, **kwargs)
        else:
            out = func(*args, **kwargs)
        self._follow(func, args, kwargs, tags, out)
        return out

    def _follow(self, func: Any, args: Any, kwargs: Any, tags: list[_Tag], out: Any) -> None:
        """What is made of a tensor that depends on the input depends on it, too."""
        for tensor in _tensors((out,), {}):
            if tensor.is_floating_point() and tensor.requires_grad and tag_of(tensor) is None:
                _mark(tensor, _Tag(_carry(func, args, kwargs, tags, tensor)))

    def run_layer(self, kind: str, run: Operation, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """A layer with the rule of its kind; the first convolution, and the first layer of all, carry relevance."""
        tag = tag_of(x)
        carrier = None if tag is None else tag.carrier
        is_first = carrier is not None and carrier.shape == x.shape
        rule = self.rules["first" if is_first and kind == "convolution" else kind]
        out = rule(x, weight, bias, run, carrier if is_first else None)
        _mark(out, _Tag(layer=(run, x, weight, bias, kind)))
        return out


def tag_of(tensor: Tensor) -> _Tag | None:
    """What is known of a tensor, None where it does not depend on the input."""
    return getattr(tensor, "_relevance", None)


def _mark(tensor: Tensor, tag: _Tag) -> None:
    tensor._relevance = tag  # type: ignore[attr-defined]


def _tensors(args: Any, kwargs: Any) -> list[Tensor]:
    found = []
    for given in (*args, *kwargs.values()):
        if isinstance(given, Tensor):
            found.append(given)
        elif isinstance(given, (tuple, list)):
            found += [each for each in given if isinstance(each, Tensor)]
    return found


_RESHAPES = {F.pad, Tensor.reshape, Tensor.view, Tensor.permute, Tensor.transpose, Tensor.unsqueeze, Tensor.flatten}
_SCALES = {
    Tensor.mul, Tensor.__mul__, Tensor.__rmul__, torch.mul, Tensor.add, Tensor.__add__, Tensor.__radd__, torch.add,
    Tensor.sub, Tensor.__sub__, torch.sub, Tensor.div, Tensor.__truediv__, torch.div, Tensor.to, Tensor.clone,
    Tensor.contiguous, Tensor.float, Tensor.mul_, Tensor.add_, Tensor.sub_, Tensor.div_, F.batch_norm,
}  # fmt: skip


def _carry(func: Any, args: Any, kwargs: Any, tags: list[_Tag], out: Tensor) -> Tensor | None:
    """The carrier of what is still the input, scaled or in another shape."""
    if len(tags) != 1 or tags[0].carrier is None or not isinstance(args[0], Tensor):
        return None
    carrier = tags[0].carrier
    if func in _RESHAPES and tag_of(args[0]) is tags[0]:
        moved: Tensor = func(carrier, *args[1:], **({} if func is F.pad and "value" in kwargs else kwargs))
        return moved
    return carrier if func in _SCALES and out.shape == carrier.shape else None


# ---- rules by function -------------------------------------------------------------------------------------------


def _run_layer(kind: str, mode: Propagation, func: Any, x: Tensor, weight: Tensor, *rest: Any, **more: Any) -> Tensor:
    bias = more.pop("bias", rest[0] if rest else None)

    def run(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        out: Tensor = func(x, weight, bias, *rest[1:], **more)
        return out

    if tag_of(x) is None or tag_of(weight) is not None:
        return run(x, weight, bias)
    return mode.run_layer(kind, run, x, weight, bias)


def _fold(
    mode: Propagation, func: Any, x: Tensor, mean: Tensor | None, variance: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Batch normalisation as a part of the layer before it; where there is none it is a linear layer by itself."""
    tag = tag_of(x)
    if training or mean is None or variance is None or tag is None or tag.layer is None:
        out: Tensor = func(x, mean, variance, weight, bias, training, momentum, eps)
        return out
    run, before, kernel, shift, kind = tag.layer
    scale = (variance + eps).rsqrt() * (1 if weight is None else weight)
    folded = (0 if bias is None else bias) - mean * scale + (0 if shift is None else shift * scale)
    return mode.run_layer(kind, run, before, kernel * scale.reshape(-1, *[1] * (kernel.ndim - 1)), folded)


def _activate(mode: Propagation, func: Any, x: Tensor, *rest: Any, **more: Any) -> Tensor:
    more.pop("inplace", None)
    if func in (F.relu, F.silu, F.hardswish, F.mish, F.relu6, F.hardsigmoid, F.selu) and rest:
        rest = ()  # in place
    out = pass_on(x, func(x, *rest, **more))
    _mark(out, _Tag(gate=func in _GATES))
    return out


def _multiply(mode: Propagation, func: Any, a: Any, b: Any, *rest: Any, **more: Any) -> Tensor:
    tags = tuple(tag_of(each) if isinstance(each, Tensor) else None for each in (a, b))
    if tags[0] is None or tags[1] is None:
        plain: Tensor = func(a, b, *rest, **more)
        return plain
    if tags[0].gate != tags[1].gate:  # the signal takes all
        gated: Tensor = func(a.detach(), b) if tags[0].gate else func(a, b.detach())
        return gated
    return halve_product(_out_of_place(func), a, b)


def _divide(mode: Propagation, func: Any, a: Any, b: Any, *rest: Any, **more: Any) -> Tensor:
    constant = b.detach() if isinstance(b, Tensor) and isinstance(a, Tensor) and tag_of(a) is not None else b
    out: Tensor = func(a, constant, *rest, **more)
    return out


def _keep_constant(mode: Propagation, func: Any, *args: Any, **more: Any) -> Tensor:
    out: Tensor = func(*args, **more).detach()
    return out


def _normalise_layer(
    mode: Propagation, func: Any, x: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    out = normalise(x, tuple(range(-len(shape), 0)), eps) * (1 if weight is None else weight)
    return out if bias is None else out + bias


def _attend(
    mode: Propagation, func: Any, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Attention in its parts: two products, and the softmax between them with its own gradient."""
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = halve_product(torch.matmul, query, key.transpose(-2, -1)) * (scale or query.shape[-1] ** -0.5)
    if is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores[..., :, :], dtype=torch.bool).tril(), -torch.inf)
    if attn_mask is not None:
        is_bool = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if is_bool else scores + attn_mask
    return halve_product(torch.matmul, scores.softmax(-1), value)


def _attend_by_heads(
    mode: Propagation, func: Any, query: Tensor, key: Tensor, value: Tensor, width: int, heads: int, in_weight: Any,
    in_bias: Any, bias_k: Any, bias_v: Any, add_zero_attn: bool, dropout_p: float, out_weight: Any, out_bias: Any,
    **more: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """nn.MultiheadAttention, (length, batch, width), where it projects its inputs together."""
    masks = [more.get(name) for name in ("key_padding_mask", "attn_mask")]
    if in_weight is None or bias_k is not None or add_zero_attn or any(mask is not None for mask in masks):
        raise ValueError(
            "lrp has no rule for nn.MultiheadAttention with masks, other widths of key and value, or added keys: "
            "write the attention with F.scaled_dot_product_attention, or use another method"
        )
    with mode:
        biases = (None,) * 3 if in_bias is None else in_bias.chunk(3)
        parts = [
            F.linear(x, weight, bias).unflatten(-1, (heads, width // heads)).permute(1, 2, 0, 3)
            for x, weight, bias in zip((query, key, value), in_weight.chunk(3), biases, strict=True)
        ]
        mixed = F.scaled_dot_product_attention(*parts).permute(2, 0, 1, 3).flatten(-2)
        return F.linear(mixed, out_weight, out_bias), None


def _out_of_place(func: Any) -> Callable[[Tensor, Tensor], Tensor]:
    return torch.mul if func is Tensor.mul_ else func


_GATES = {F.sigmoid, torch.sigmoid, Tensor.sigmoid, F.hardsigmoid}
_HANDLERS: dict[Any, Callable[..., Any]] = {
    F.linear: partial(_run_layer, "linear"),
    **dict.fromkeys((F.conv1d, F.conv2d, F.conv3d), partial(_run_layer, "convolution")),
    F.batch_norm: _fold,
    **dict.fromkeys(
        (F.relu, torch.relu, Tensor.relu, F.relu6, F.hardtanh, F.silu, F.gelu, F.elu, F.selu, F.mish, F.softplus,
         F.leaky_relu, F.hardswish, F.tanh, torch.tanh, Tensor.tanh, *_GATES),
        _activate,
    ),
    **dict.fromkeys((torch.mul, Tensor.mul, Tensor.mul_, Tensor.__mul__, Tensor.__rmul__), _multiply),
    **dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm), _multiply),
    **dict.fromkeys((torch.div, Tensor.div, Tensor.__truediv__), _divide),
    **dict.fromkeys(
        (torch.sqrt, Tensor.sqrt, torch.rsqrt, Tensor.rsqrt, torch.std, Tensor.std, torch.norm, Tensor.norm,
         torch.linalg.vector_norm),
        _keep_constant,
    ),
    F.layer_norm: _normalise_layer,
    F.scaled_dot_product_attention: _attend,
    F.multi_head_attention_forward: _attend_by_heads,
}  # fmt: skip
