"""Class activation maps: Grad-CAM (Selvaraju et al. 2017) and its relatives, over what Captum reads of a layer.

Grad-CAM++ (Chattopadhay et al. 2018), XGrad-CAM (Fu et al. 2020), HiRes-CAM (Draelos & Carin 2020), Layer-CAM (Jiang et
al. 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from leastpath._support.threads import finish, in_this_thread
from leastpath.methods.captum_peers import explain_chunks, import_captum
from leastpath.methods.method import Explained, Problem, method
from leastpath.score.derivatives import differentiable_values
from leastpath.score.score import BoundScore


def _name_of(layer: nn.Module | None) -> str:
    return "auto" if layer is None else type(layer).__name__


@method(
    "Grad-CAM", "The last convolution's maps, weighted by their mean gradients.", extra="captum",
    fits=("image",), unitless=True, cost=(1, 1),
)  # fmt: skip
def grad_cam(problem: Problem, *, layer: nn.Module | None = None, relu: bool = True) -> Explained:
    """Grad-CAM: the last convolution's maps, weighted by their mean gradients, on the input's pixels.

    One gradient per example. All channels of a pixel share its value evenly.

    Args:
        layer: module whose output (batch, channels, height, width) is read. None: the last that has one of more than a
            pixel.
        relu: whether only what speaks for the class is kept.
    """
    hooked, chosen = _on_private_copy(problem, layer, "grad_cam")
    peer = import_captum("grad_cam").LayerGradCam(partial(differentiable_values, hooked), chosen)

    def chunk(x: Tensor, _: Tensor, rows: Tensor) -> Tensor:
        leaf = x.clone().requires_grad_()
        return _on_pixels(peer.attribute(leaf, additional_forward_args=(rows,), relu_attributions=relu), x)

    return Explained(explain_chunks(problem, chunk))


@method(
    "Grad-CAM++", "The last convolution's maps, weighted by positive gradients.", extra="captum",
    fits=("image",), unitless=True, cost=(2, 1),
)  # fmt: skip
def grad_cam_plus_plus(problem: Problem, *, layer: nn.Module | None = None) -> Explained:
    """Grad-CAM++: positive gradients weighted place by place, for several objects of one class.

    With g the gradient of the score and A the maps, places weigh g² / (2 g² + g³ ΣA). A gradient and a forward an
    example: Captum gives activations and gradients in separate calls.

    Args:
        layer: as for `grad_cam`.
    """

    def combine(maps: Tensor, g: Tensor) -> Tensor:
        below = 2 * g**2 + g**3 * maps.sum((2, 3), keepdim=True)
        share = torch.where(below != 0, g**2 / torch.where(below != 0, below, 1), 0)
        return (share * g.relu()).sum((2, 3), keepdim=True) * maps

    return _of_maps(problem, layer, "grad_cam_plus_plus", combine)


@method(
    "XGrad-CAM", "The last convolution's maps, weighted by gradients where they are active.", extra="captum",
    fits=("image",), unitless=True, cost=(2, 1),
)  # fmt: skip
def xgrad_cam(problem: Problem, *, layer: nn.Module | None = None, relu: bool = True) -> Explained:
    """XGrad-CAM: Grad-CAM with gradients averaged where the map is active, Σ(g A) / ΣA.

    Where the score is linear in maps that are not negative, all maps together add up to it. A gradient and a forward.

    Args:
        layer: as for `grad_cam`.
        relu: as for `grad_cam`.
    """

    def combine(maps: Tensor, g: Tensor) -> Tensor:
        mass = maps.sum((2, 3), keepdim=True)
        return (g * maps).sum((2, 3), keepdim=True) / torch.where(mass != 0, mass, 1) * maps

    return _of_maps(problem, layer, "xgrad_cam", combine, relu)


@method(
    "HiRes-CAM", "Gradient times activation, place by place, of the last convolution.", extra="captum",
    fits=("image",), unitless=True, cost=(2, 1),
)  # fmt: skip
def hires_cam(problem: Problem, *, layer: nn.Module | None = None, relu: bool = True) -> Explained:
    """HiRes-CAM: gradient × activation at each place. No average blurs where the gradient points.

    Where the layers above are linear, it adds up to the score without their bias. A gradient and a forward.

    Args:
        layer: as for `grad_cam`.
        relu: as for `grad_cam`.
    """
    return _of_maps(problem, layer, "hires_cam", torch.mul, relu)


@method(
    "Layer-CAM", "Positive gradient times activation, place by place, of any convolution.", extra="captum",
    fits=("image",), unitless=True, cost=(2, 1),
)  # fmt: skip
def layer_cam(problem: Problem, *, layer: nn.Module | None = None) -> Explained:
    """Layer-CAM: positive gradient × activation at each place, which serves earlier layers, too.

    A gradient and a forward.

    Args:
        layer: as for `grad_cam`.
    """
    return _of_maps(problem, layer, "layer_cam", lambda maps, g: g.relu() * maps)


def _of_maps(
    problem: Problem, layer: nn.Module | None, name: str, combine: Callable[[Tensor, Tensor], Tensor], relu: bool = True
) -> Explained:
    """Maps of a layer and their gradients, both (n, channels, h, w), combine and added up over the channels."""
    hooked, chosen = _on_private_copy(problem, layer, name)
    captum = import_captum(name)
    activation = captum.LayerActivation(partial(differentiable_values, hooked), chosen)
    gradient = captum.LayerGradientXActivation(partial(differentiable_values, hooked), chosen, multiply_by_inputs=False)

    def chunk(x: Tensor, _: Tensor, rows: Tensor) -> Tensor:
        maps, g = (
            peer.attribute(x.clone().requires_grad_(), additional_forward_args=(rows,)).detach()
            for peer in (activation, gradient)
        )
        total = combine(maps, g).sum(1, keepdim=True)
        return _on_pixels(total.relu() if relu else total, x)

    return Explained(explain_chunks(problem, chunk))


def _on_pixels(maps: Tensor, images: Tensor) -> Tensor:
    """Maps (n, 1, h, w) enlarged to images (n, channels, height, width), each pixel's value shared by its channels."""
    precise = maps.to(torch.promote_types(maps.dtype, torch.float32))  # not all devices enlarge half precision
    large = nn.functional.interpolate(precise, images.shape[-2:], mode="bilinear", align_corners=False)
    return (large / images.shape[1]).expand(images.shape)


def _on_private_copy(problem: Problem, layer: nn.Module | None, name: str) -> tuple[BoundScore, nn.Module]:
    """The score over a copy of the model, and its layer: other threads may run the model while hooks are on it."""
    chosen = _choose_layer(problem, layer, name)
    hooked = problem.bound.on_private_copy()
    model, copy = problem.bound.score.model, hooked.score.model
    assert isinstance(model, nn.Module) and isinstance(copy, nn.Module)  # `_chosen` saw to it
    path = next(path for path, module in model.named_modules() if module is chosen)
    return hooked, copy.get_submodule(path)


def _choose_layer(problem: Problem, layer: nn.Module | None, name: str) -> nn.Module:
    bound = problem.bound
    if len(bound.shape) != 3 or bound.score.layer is not None:
        raise ValueError(f"{name} needs images (batch, channels, height, width), got {(len(problem), *bound.shape)}")
    model = bound.score.model
    if not isinstance(model, nn.Module):
        raise ValueError(f"{name} reads a layer of a module, and the model is a plain {type(model).__name__}")
    if layer is not None:
        if not any(layer is module for module in model.modules()):
            raise ValueError(f"layer is not a part of the model: pass a submodule, as in {name}(…, layer=model.conv)")
        return layer
    found = last_maps(bound, model, problem.end[:1])
    if found is None:
        raise ValueError(f"{name} found no layer with maps (batch, channels, height, width): pass layer=model.conv")
    return found


def last_maps(bound: BoundScore, model: nn.Module, image: Tensor) -> nn.Module | None:
    """The last module without children whose output has maps of more than a pixel: one forward. None: there is none."""
    seen: list[nn.Module] = []

    def record(module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim == 4 and output.shape[-2:].numel() > 1:
            seen.append(module)

    leaves = [module for module in model.modules() if not any(module.children())]
    handles: list[Any] = []
    try:
        handles.extend(module.register_forward_hook(in_this_thread(record)) for module in leaves)
        bound.values(image, torch.tensor([0]))
    finally:
        finish(lambda: [handle.remove() for handle in handles])
    return seen[-1] if seen else None
