"""prepare(): against the model itself, layer by layer and as a whole. No test depends on what is fast here."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import seeded
from leastpath.score import preparation
from leastpath.score.preparation import Pointwise


@pytest.fixture(autouse=True)
def everything_helps(monkeypatch):
    """Which step is kept must not depend on the machine of the test."""
    monkeypatch.setattr(preparation, "_compare", lambda before, after, inputs: 0.5)


def statistics(net: nn.Module) -> nn.Module:
    """Running statistics and weights as after training, so that folding has something to do."""
    generator = torch.Generator().manual_seed(0)
    for module in net.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)) and module.running_mean is not None:
            for tensor in (module.running_mean, module.weight.data, module.bias.data):
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            module.running_var.copy_(torch.rand(module.running_var.shape, generator=generator) + 0.5)
    return net.eval()


class Residual(nn.Module):
    """Convolutions that are folded, and one that is read twice, which must not be."""

    def __init__(self):
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.twice, self.twice_norm = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4 * 36, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x, drop=None):
        if drop:  # torch.fx cannot trace this
            raise RuntimeError("not here")
        y = torch.tanh(self.first_norm(self.first(x)))
        z = self.twice(y)
        return self.head(torch.tanh(self.twice_norm(z)) + z)


@pytest.fixture
def net():
    torch.manual_seed(0)
    return statistics(Residual())


X = torch.rand(5, 3, 6, 6, generator=torch.Generator().manual_seed(1))


def gradient(model, x):
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(model(leaf)[:, 1].sum(), leaf)[0]


def test_outputs_and_gradients_against_the_model(net):
    ready = lp.prepare(net, X)
    new = torch.rand(2, 3, 6, 6)
    torch.testing.assert_close(ready(new), net(new), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient(ready, new), gradient(net, new), rtol=1e-3, atol=1e-5)
    assert ready.report.output_difference < 1e-5 and ready.report.gradient_difference < 1e-4


def test_only_layers_that_the_norm_alone_reads_are_folded(net):
    model = lp.prepare(net, X).model
    assert isinstance(model.first_norm, nn.Identity) and model.first.bias is not None
    assert isinstance(model.head[2], nn.Identity)
    assert isinstance(model.twice_norm, nn.BatchNorm2d)
    assert isinstance(model.twice, Pointwise)


def test_the_report_tells_each_step(net):
    ready = lp.prepare(net, X)
    assert [step.kept for step in ready.report.steps] == [True] * 4
    page = str(ready.report)
    assert "2 of 3" in page and "together: 0.50 ×" in page and "channels last" in page


def test_the_model_is_not_changed(net):
    before = copy.deepcopy(net.train().state_dict())
    ready = lp.prepare(net, X)
    assert "training mode" in ready.report.steps[0].why and not ready.training
    assert net.training and all(p.requires_grad for p in net.parameters())
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_the_original_is_not_run(net):
    calls = []
    handle = net.register_forward_hook(lambda module, *_: calls.append(module is net))
    lp.prepare(net, X)
    handle.remove()
    assert calls and not any(calls)  # hooks are copied along, and see the copy alone


def test_a_step_that_changes_the_function_is_left_out(net, monkeypatch):
    def wrong(ready, inputs):
        ready.model.head[4].weight.data.mul_(1.01)
        return "everything"

    monkeypatch.setattr(preparation, "STEPS", (("one percent more", wrong),))
    ready = lp.prepare(net, X)
    step = ready.report.steps[1]
    assert not step.kept and "more than rounding" in step.why and step.output_difference > 1e-3
    torch.testing.assert_close(ready(X), net(X), rtol=0, atol=0)


def test_a_step_that_breaks_the_model_is_left_out(net, monkeypatch):
    def broken(ready, inputs):
        ready.model.head = nn.Linear(1, 1)
        return "everything"

    monkeypatch.setattr(preparation, "STEPS", (("broken", broken),))
    ready = lp.prepare(net, X)
    assert "the model does not work with it" in ready.report.steps[1].why
    torch.testing.assert_close(ready(X), net(X), rtol=0, atol=0)


def test_a_step_that_saves_no_time_is_left_out(net, monkeypatch):
    monkeypatch.setattr(preparation, "_compare", lambda before, after, inputs: 1.2)
    ready = lp.prepare(net, X)
    assert [step.kept for step in ready.report.steps] == [True, False, False, False]
    assert "no gain" in str(ready.report) and ready.report.time == 1.0


def used_twice(layer):
    return nn.Sequential(layer, nn.BatchNorm2d(3), layer, nn.BatchNorm2d(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten()),
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 1)), nn.BatchNorm2d(4)),
        lambda: used_twice(nn.Conv2d(3, 3, 1)),
    ],
    ids=["batch statistics", "parametrised", "used twice"],
)
def test_what_cannot_be_folded_is_left(make):
    net = statistics(make())
    ready = lp.prepare(nn.Sequential(net, nn.Flatten()), X)
    assert not ready.report.steps[1].kept
    torch.testing.assert_close(ready(X), net(X).flatten(1), rtol=1e-4, atol=1e-5)


def test_attributions_against_the_model(net):
    ready = lp.prepare(net, X)
    plain, fast = (lp.attribute(lp.Score(m, 1), X, method=lp.StraightLine()).values for m in (net, ready))
    torch.testing.assert_close(fast, plain, rtol=1e-3, atol=1e-4)
    layer = lp.Score(ready, 1, layer=ready.model.head[3])
    assert lp.attribute(layer, X, method=lp.StraightLine()).values.shape == (5, 8)


def test_tokens_are_only_frozen():
    net = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 2))
    ready = lp.prepare(net, torch.randint(9, (2, 3)))
    assert [step.kept for step in ready.report.steps] == [True, False, False, False]
    assert "no floating-point inputs" in str(ready.report)
    assert not any(p.requires_grad for p in ready.parameters())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_under_any_gradient_mode(net, mode):
    with mode():
        assert lp.prepare(net, X.clone()).report.steps[1].kept


def test_random_numbers_stay_where_they_were(net):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    lp.prepare(net, X)
    assert torch.equal(torch.rand(1), expected)


def test_errors_say_what_to_do(net):
    with pytest.raises(ValueError, match=r"expected a torch\.nn\.Module"):
        lp.prepare(lambda x: x, X)
    with pytest.raises(ValueError, match=r"prepare\(model, inputs\[:4\]\)"):
        lp.prepare(net, 3)
    net.held = gradient(net, X).requires_grad_() * 2
    with pytest.raises(ValueError, match="the model cannot be copied"):
        lp.prepare(net, X)


def test_a_product_against_its_convolution():
    convolution, x = nn.Conv2d(3, 5, 1), torch.ones(2, 3, 4, 4)
    torch.testing.assert_close(Pointwise(convolution)(x), convolution(x), atol=1e-6, rtol=1e-5)


class Skipping(nn.Module):
    """Bright inputs skip the batch normalisation: what one example shows is not the whole function."""

    def __init__(self, is_dark=lambda x: x.mean() < 0.4) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Conv2d(8, 2, 6)
        self.is_dark = is_dark

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.last(self.norm(x) if self.is_dark(x) else x).flatten(1)


QUESTIONS = {
    "a tensor": lambda x: x.mean() < 0.4,
    "item": lambda x: x.mean().item() < 0.4,
    "float": lambda x: float(x.detach().mean()) < 0.4,
    "tolist": lambda x: x.mean().tolist() < 0.4,
    "numpy": lambda x: x.detach().numpy().mean() < 0.4,
    "np.asarray": lambda x: np.asarray(x.detach()).mean() < 0.4,
    "equal": lambda x: torch.equal(x.mean().clamp(max=0.4), x.mean()),
    "nonzero": lambda x: len((x > 1.5).nonzero()) == 0,
    "a mask": lambda x: len(x[x > 1.5]) == 0,
    "unique": lambda x: len(x.gt(1.5).unique()) == 1,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_way_that_depends_on_the_data_is_not_frozen(question):
    """Oracle: the model itself, on inputs that take either way, however it asks which way to take."""
    net = seeded(partial(Skipping, QUESTIONS[question])).eval()
    net.norm.running_mean.fill_(0.3)
    ready = lp.prepare(net, 0.1 * torch.rand(2, 3, 8, 8))
    assert "another way through its layers" in str(ready.report)
    for scale in (0.0, 0.1, 1.0, 5.0, -1.0):
        x = scale * torch.rand(2, 3, 8, 8)
        torch.testing.assert_close(ready(x), net(x), rtol=1e-4, atol=1e-5)
