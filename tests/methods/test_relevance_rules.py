"""Rules of LRP. Oracles: their definitions as loops over single contributions."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from helpers import flat_points
from leastpath.methods.relevance_rules import Rule, halve_product, normalise, pass_on


def relevance_by_loops(x, weight, bias, out, name, gamma=0.25):
    """R_i = Σ_j c_ij / Σ_i c_ij · R_j with R_j = z_j, contributions x_i w_ij counted as the rule says."""
    found = torch.zeros_like(x)
    for j in range(len(weight)):
        contributions, shift = x * weight[j], bias[j]
        if name == "gamma":
            for_it = torch.sign(out[j])
            contributions = contributions + gamma * torch.where(contributions * for_it > 0, contributions, 0)
            shift = shift + gamma * (shift if shift * for_it > 0 else 0)
        if name == "flat":
            contributions, shift = torch.ones_like(x), 0
        found += contributions / (contributions.sum() + shift) * out[j]
    return found


@pytest.mark.parametrize("name", ["epsilon", "gamma", "flat"])
def test_a_layer_against_its_definition(name):
    x, weight, bias = (flat_points(*shape, dtype=torch.float64) for shape in ((1, 5, 1), (4, 5, 2), (1, 4, 3)))
    x, bias = x[0], bias[0]
    carrier = torch.zeros(1, 5, dtype=torch.float64, requires_grad=True)
    out = Rule(name, epsilon=1e-12)(x[None].requires_grad_(), weight, bias, F.linear, carrier)
    torch.testing.assert_close(out, F.linear(x[None], weight, bias))
    (found,) = torch.autograd.grad(out.sum(), carrier)
    torch.testing.assert_close(found[0], relevance_by_loops(x.detach(), weight, bias, out[0].detach(), name))


def test_without_a_carrier_the_flow_times_the_input_is_the_relevance():
    conv = nn.Conv2d(2, 3, 3, stride=2, padding=1, groups=1)
    x = flat_points(1, 72, 1).view(1, 2, 6, 6).requires_grad_()
    run = lambda x, w, b: F.conv2d(x, w, b, 2, 1)  # noqa: E731
    carrier = torch.zeros_like(x, requires_grad=True)
    (flow,) = torch.autograd.grad(Rule("gamma")(x, conv.weight, conv.bias, run, None).sum(), x)
    (carried,) = torch.autograd.grad(Rule("gamma")(x, conv.weight, conv.bias, run, carrier).sum(), carrier)
    torch.testing.assert_close(x.detach() * flow, carried)


def test_activations_products_and_norms_conserve_relevance():
    x = flat_points(2, 6, 1, torch.float64).requires_grad_()
    for activation in (F.relu, F.relu6, F.silu, F.gelu, torch.tanh):
        out = pass_on(x, activation(x))
        (flow,) = torch.autograd.grad(out.sum(), x)
        torch.testing.assert_close(x * flow, activation(x))
    y = flat_points(2, 6, 2, torch.float64).requires_grad_()
    product = halve_product(torch.mul, x, y)
    flows = torch.autograd.grad(product.sum(), (x, y))
    for factor, flow in zip((x, y), flows, strict=True):
        torch.testing.assert_close(factor * flow, x * y / 2)
    torch.testing.assert_close(normalise(x, (-1,), 1e-5), F.layer_norm(x, (6,)))
    (flow,) = torch.autograd.grad((normalise(x, (-1,), 1e-5) * y.detach()).sum(), x)
    torch.testing.assert_close((x * flow).sum(), (F.layer_norm(x, (6,)) * y).sum())
