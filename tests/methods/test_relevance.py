"""LRP. Oracles: Gradient × Input where ε-LRP equals it, Captum's LRP, zennit's (where installed), attention by hand."""

import copy
import sys
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import leastpath as lp
from helpers import TextNet, flat_points, mlp, seeded
from leastpath.methods import METHODS

lrp = METHODS["lrp"]


def picture(n=2, side=12):
    return torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0))


def conv_net(activation=nn.ReLU, bias=True, norm=False):
    def make():
        layers = [nn.Conv2d(3, 6, 3, padding=1, bias=bias), nn.BatchNorm2d(6), activation(), nn.MaxPool2d(2)]
        layers += [nn.Conv2d(6, 8, 3, bias=bias), nn.BatchNorm2d(8), activation(), nn.AvgPool2d(2), nn.Flatten()]
        net = nn.Sequential(*layers, nn.Linear(32, 4, bias=bias)).eval()
        for module in net:
            if isinstance(module, nn.BatchNorm2d):
                for tensor in (module.running_mean, module.weight.data, module.bias.data):
                    tensor.normal_()
                module.running_var.uniform_(0.5, 2)
        return net

    net = seeded(make)
    return net if norm else nn.Sequential(*(m for m in net if not isinstance(m, nn.BatchNorm2d))).eval()


def test_epsilon_is_input_times_gradient_for_relu_nets():
    """Shrikumar et al. 2016, Ancona et al. 2018; without biases it adds up to the logit."""
    net, x = conv_net(bias=False), picture()
    result = lrp(lp.Score(net, 2), x, rule="epsilon", epsilon=1e-9)
    torch.testing.assert_close(
        result.values, METHODS["input_x_gradient"](lp.Score(net, 2), x).values, atol=1e-6, rtol=1e-3
    )
    torch.testing.assert_close(result.values.sum((1, 2, 3)), net(x)[:, 2].detach(), atol=1e-5, rtol=1e-4)


def test_every_rule_conserves_the_logit_without_biases():
    net, x = conv_net(bias=False).double(), picture().double()
    for rule in ("composite", "epsilon", "gamma"):
        total = lrp(lp.Score(net, 2), x, rule=rule).values.sum((1, 2, 3))
        torch.testing.assert_close(total, net(x)[:, 2].detach(), atol=1e-6, rtol=1e-3)


@pytest.mark.filterwarnings("ignore:Input Tensor")
@pytest.mark.parametrize("rule", ["epsilon", "gamma"])
def test_against_captum(rule):
    captum = pytest.importorskip("captum.attr")
    from captum.attr._utils.lrp_rules import EpsilonRule, GammaRule

    net, x = conv_net(bias=rule == "epsilon").double(), picture().double()  # Captum's γ leaves biases as they are
    theirs = copy.deepcopy(net)
    for module in theirs:
        gamma = rule == "gamma" and isinstance(module, (nn.Conv2d, nn.Linear))
        module.rule = GammaRule(gamma=0.25) if gamma else EpsilonRule(epsilon=1e-12)
    target = int(net(x).sum(0).argmax())  # Captum's γ knows outputs above zero only
    expected = captum.LRP(theirs).attribute(x.clone(), target=target).detach()
    found = lrp(lp.Score(net, target), x, rule=rule, epsilon=1e-12).values
    torch.testing.assert_close(found, expected, atol=float(expected.abs().max()) * 1e-4, rtol=0)


@pytest.fixture
def zennit(monkeypatch):
    """zennit's public interface; `pip install --no-deps zennit` is enough: of torchvision it only names two classes."""
    if find_spec("torchvision") is None:
        models, resnet = ModuleType("torchvision.models"), ModuleType("torchvision.models.resnet")
        resnet.Bottleneck, resnet.BasicBlock = type("Bottleneck", (nn.Module,), {}), type("Block", (nn.Module,), {})
        for name, module in (("torchvision", ModuleType("torchvision")), (models.__name__, models)):
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setitem(sys.modules, resnet.__name__, resnet)
    return pytest.importorskip("zennit", reason="zennit (LGPL) is an oracle where it is installed")


@pytest.mark.parametrize("activation", [nn.ReLU, nn.ReLU6, nn.SiLU, nn.GELU])
def test_the_composite_against_zennit(activation, zennit):
    from zennit.attribution import Gradient
    from zennit.canonizers import SequentialMergeBatchNorm
    from zennit.composites import SpecialFirstLayerMapComposite
    from zennit.rules import Epsilon, Flat, Gamma, Norm, Pass
    from zennit.types import AvgPool, Convolution

    net, x = conv_net(activation, norm=True), picture()
    rules = [(Convolution, Gamma(0.25)), (nn.Linear, Epsilon(1e-6)), (AvgPool, Norm()), (activation, Pass())]
    composite = SpecialFirstLayerMapComposite(rules, [(Convolution, Flat())], canonizers=[SequentialMergeBatchNorm()])
    with torch.no_grad():
        logits = net(x)
    found = lrp(lp.Score(net, 2), x).values
    with Gradient(net, composite) as theirs:
        _, expected = theirs(x.clone(), torch.eye(4)[[2, 2]] * logits)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.ReLU6, nn.SiLU, nn.GELU])
def test_batch_normalisation_is_folded_into_the_layer_before_it(activation):
    net, x = conv_net(activation, norm=True), picture()
    fused = nn.Sequential(
        torch.nn.utils.fuse_conv_bn_eval(net[0], net[1]), *net[2:4],
        torch.nn.utils.fuse_conv_bn_eval(net[4], net[5]), *net[6:],
    ).eval()  # fmt: skip
    ours, theirs = (lrp(lp.Score(model, 2), x).values for model in (net, fused))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-3)


def test_what_the_model_does_with_the_pixels_before_its_first_layer_does_not_matter():
    net, x = conv_net(), picture()

    def scale(x):
        return F.pad((x * 255 - 127) / 128, (1, 1, 1, 1))

    def score(x):
        return net[:5](x).mean((2, 3)) @ torch.ones(8)

    inside, outside = lrp(lp.Score(lambda x: score(scale(x))), x), lrp(lp.Score(score), scale(x))
    torch.testing.assert_close(inside.values, outside.values[..., 1:-1, 1:-1], atol=1e-5, rtol=1e-3)


# ---- transformers ---------------------


def attention_by_hand(query, key, value):
    """AttnLRP for one head of o = softmax(q kᵀ / √d) v with R_o = o: relevances of query, key and value."""
    scores = query @ key.T * query.shape[1] ** -0.5
    weights = scores.softmax(-1)
    of_weights, of_value = torch.zeros_like(weights), torch.zeros_like(value)
    for j in range(len(weights)):
        for i in range(len(value)):
            for p in range(value.shape[1]):  # R = a v / (2 o) · R_o, and R_o = o
                of_weights[j, i] += weights[j, i] * value[i, p] / 2
                of_value[i, p] += weights[j, i] * value[i, p] / 2
    of_scores = scores * (of_weights - weights * of_weights.sum(-1, keepdim=True))
    flow = of_scores / scores  # R over activation
    of_query, of_key = torch.zeros_like(query), torch.zeros_like(key)
    for j in range(len(query)):
        for i in range(len(key)):
            part = query[j] * key[i] * query.shape[1] ** -0.5 * flow[j, i] / 2
            of_query[j] += part
            of_key[i] += part
    return of_query, of_key, of_value


def test_attention_against_the_published_rules_by_hand():
    parts = [flat_points(3, 4, seed, torch.float64) for seed in (1, 2, 3)]
    score = lp.Score(lambda q, k, v: F.scaled_dot_product_attention(q, k, v).sum((1, 2)))
    found = lrp(score, tuple(part[None] for part in parts)).values
    for ours, expected in zip(found, attention_by_hand(*parts), strict=True):
        torch.testing.assert_close(ours[0], expected)


class Block(nn.Module):
    def __init__(self, by_module: bool) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 3)
        self.norm, self.by_module = nn.LayerNorm(8), by_module

    def forward(self, x):
        own = self.attention
        if self.by_module:
            mixed, _ = own(x, x, x, need_weights=False)
        else:
            q, k, v = F.linear(x, own.in_proj_weight, own.in_proj_bias).chunk(3, -1)
            heads = [part.unflatten(-1, (2, 4)).transpose(1, 2) for part in (q, k, v)]
            mixed = own.out_proj(F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        return self.head(self.norm(x + mixed).mean(1))


def test_attention_of_a_module_is_that_of_its_functions():
    nets = [seeded(lambda by=by: Block(by)).eval() for by in (True, False)]
    x = flat_points(2, 24, 1).view(2, 3, 8)
    torch.testing.assert_close(nets[0](x), nets[1](x))
    ours, other = (lrp(lp.Score(net, 1), x).values for net in nets)
    torch.testing.assert_close(ours, other, atol=1e-5, rtol=1e-3)


def test_a_gate_gets_nothing_and_the_signal_all():
    x = flat_points(2, 6, 1)
    score = lp.Score(lambda x: (x[:, :3] * torch.sigmoid(x[:, 3:])).sum(1))
    values = lrp(score, x).values
    torch.testing.assert_close(values[:, :3], x[:, :3] * torch.sigmoid(x[:, 3:]))
    assert not values[:, 3:].any()


def test_tokens_of_a_layer():
    net = seeded(TextNet).eval()
    assert lrp(lp.Score(net, 1, layer=net.embedding), torch.tensor([[1, 2, 3]])).values.shape == (1, 3, 4)


def test_the_logit_is_explained_whatever_the_output():
    x = flat_points(3, 4, 1)
    of_logit, of_softmax = (lrp(lp.Score(mlp(), 1, output), x) for output in ("raw", "softmax"))
    assert torch.equal(of_logit.values, of_softmax.values)
    assert "that of the logit, not of its softmax" in of_softmax.status[0].value


def test_wrong_settings_are_refused():
    wrong = {"rule": "alpha", "first": "box", "gamma": -1.0, "epsilon": 0.0}
    for name, given in wrong.items():
        with pytest.raises(ValueError, match=f"lrp: {name}="):
            lrp(lp.Score(mlp(), 0), flat_points(1, 4), **{name: given})
