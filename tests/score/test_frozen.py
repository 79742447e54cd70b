"""Parameters are constants for the length of a call: the same gradients, less kept, and a model that nobody touched."""

from __future__ import annotations

import threading
import weakref
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import leastpath as lp
from helpers import seeded
from leastpath.score import frozen as room
from leastpath.score.frozen import FrozenParameters


class Attention(nn.Module):
    """Embeddings of tokens (batch, length, 8) to three classes, by attention and a parametrised layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.utils.parametrizations.weight_norm(nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x).mean(1))


class Recurrent(nn.Module):
    """Series (batch, steps, 8) to three classes."""

    def __init__(self) -> None:
        super().__init__()
        self.steps, self.head = nn.LSTM(8, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.steps(x)[0][:, -1])


def convolutional() -> nn.Module:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, 3, padding="same", groups=2), nn.BatchNorm2d(8, affine=False),
        nn.Hardswish(), nn.ConvTranspose2d(8, 4, 2, 2), nn.GroupNorm(2, 4), nn.GELU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3),
    )  # fmt: skip
    for module in net:
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
    return net


class Gated(nn.Module):
    """The two layers of a language model: one is the other's gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(2):
            x = x + F.silu(self.gate(x)) * self.up(x) @ self.up.weight
        return self.down(F.silu(self.gate(x)) * 2.0).mean(1)


NETS = {
    "gated": (Gated, (5, 8)),
    "convolutional": (convolutional, (3, 12, 12)),
    "channels last": (lambda: convolutional().to(memory_format=torch.channels_last), (3, 12, 12)),
    "attention": (Attention, (5, 8)),
    "recurrent": (Recurrent, (5, 8)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NETS)
def test_gradients_are_those_of_the_model_as_it_is(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch):
    """Oracle: the same gradient with nothing frozen."""
    torch.manual_seed(0)
    make, shape = NETS[name]
    model, inputs = make().eval().to(dtype), torch.randn(4, *shape, dtype=dtype)
    bound = lp.Score(model, 1, "log_softmax").bind(inputs)
    monkeypatch.setattr(room, "WORTH_FREEZING", 10**9)
    value, gradient = bound.gradients(inputs, torch.arange(4))
    monkeypatch.setattr(room, "WORTH_FREEZING", 0)
    frozen_value, frozen = bound.gradients(inputs, torch.arange(4))
    torch.testing.assert_close(frozen_value, value, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(frozen, gradient, rtol=1e-4, atol=1e-6)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


def test_batch_statistics_are_made_as_ever():
    """In training mode a batch normalisation needs its inputs. Oracle: the gradient without the mode."""
    net, x = nn.BatchNorm1d(3).train(), torch.randn(6, 3, requires_grad=True)
    (plain,) = torch.autograd.grad((net(x) ** 3).sum(), x)
    with FrozenParameters():
        y = net(x)
    torch.testing.assert_close(torch.autograd.grad((y**3).sum(), x)[0], plain)


@pytest.mark.parametrize("second", [nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.Linear(16, 2)])
def test_inputs_of_layers_are_not_kept(second: nn.Module):
    """Oracle: weak references to what the second layer was given, while the graph of its output is alive."""
    first, second, seen = nn.Conv2d(3, 3, 1), second.eval(), []
    first.register_forward_hook(lambda _layer, _given, output: seen.append(weakref.ref(output)))
    x = torch.randn(1, 3, 16, 16, requires_grad=True)
    plain = second(first(x))
    with FrozenParameters():
        frozen = second(first(x))
    assert [reference() is None for reference in seen] == [False, True]
    assert plain.requires_grad and frozen.requires_grad


def test_a_user_of_torch_func_inside_the_model():
    """Oracle: the same model without the mode. `vmap` stands several tensors in for one."""
    convolution = nn.Conv1d(2, 3, 2)

    def model(x: Tensor) -> Tensor:
        return torch.func.vmap(lambda one: convolution(one[None])[0])(x).flatten(1).sum(1)

    x = torch.randn(4, 2, 5, requires_grad=True)
    (plain,) = torch.autograd.grad(model(x).sum(), x)
    with FrozenParameters():
        y = model(x)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], plain)


@pytest.mark.parametrize("net", [nn.Sequential(nn.Conv1d(5, 3, 2), nn.BatchNorm1d(3), nn.Tanh()), Gated()])
def test_second_derivatives(net: nn.Module):
    """Oracle: the Hessian times a vector without the mode."""
    net, x = net.eval(), torch.randn(2, 5, 8)

    def product() -> Tensor:
        leaf = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(net(leaf).sum(), leaf, create_graph=True)
        return torch.autograd.grad((first * x).sum(), leaf)[0]

    plain = product()
    with FrozenParameters():
        torch.testing.assert_close(product(), plain)


def test_weights_train_in_another_thread_meanwhile():
    """Oracle: a weight's gradient, asked for in another thread while this one is inside the mode."""
    layer, found = nn.Linear(3, 1), []

    def train() -> None:
        F.mse_loss(layer(torch.ones(2, 3)), torch.zeros(2, 1)).backward()
        found.append(layer.weight.grad)

    with FrozenParameters():
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    assert found[0] is not None and bool(found[0].any())


def test_what_was_compiled_does_not_run_in_steps():
    """Neither as a whole nor in a part; binding runs nothing."""
    net, inputs = convolutional().eval(), torch.randn(1, 3, 12, 12)
    assert lp.Score(net, 1).bind(inputs).calls.runs_step_by_step
    assert not lp.Score(torch.compile(net, backend="eager"), 1).bind(inputs).calls.runs_step_by_step
    net[0].compile(backend="eager")
    assert not lp.Score(net, 1).bind(inputs).calls.runs_step_by_step


@pytest.mark.parametrize("how", ["hooks", "autocast"])
def test_models_that_are_hooked_or_mixed(how: str, monkeypatch: pytest.MonkeyPatch):
    """Oracle: the same model with nothing frozen."""
    monkeypatch.setattr(room, "WORTH_FREEZING", 0)
    net, inputs = seeded(lambda: convolutional().eval()), seeded(lambda: torch.randn(3, 3, 12, 12))
    seen, context = [], nullcontext()
    if how == "hooks":
        net[0].register_forward_hook(lambda *_: seen.append("forward"))
        net[0].register_full_backward_hook(lambda *_: seen.append("backward"))
    else:
        context = torch.autocast("cpu", torch.bfloat16)
    with context:
        found = lp.Score(net, 1).bind(inputs).gradients(inputs, torch.arange(3))[1]
        leaf = inputs.clone().requires_grad_()
        (plain,) = torch.autograd.grad(net(leaf)[:, 1].float().sum(), leaf)
    torch.testing.assert_close(found, plain, rtol=1e-3, atol=2e-2 if how == "autocast" else 1e-6)
    assert how != "hooks" or {"forward", "backward"} == set(seen)
