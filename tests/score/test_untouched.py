"""Untouched: the model is left as it was found."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Dropping, cnn, flat_points, left_untouched, mlp
from leastpath.score.untouched import WatchedDraws

X = flat_points(5, 4)


def explain(score, inputs=X, baselines=None, **settings):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), **settings)


def raises(match, score, inputs=X, baselines=None, **settings):
    with pytest.raises(ValueError, match=match):
        explain(score, inputs, baselines, **settings)


def test_training_mode_warns():
    with pytest.warns(UserWarning, match=r"the model is in training mode: .* Call model.eval\(\) first"):
        explain(lp.Score(Dropping().train(), 1))


# ---- the model is left as it was found ---------------------------------------------------------------------------


USES = {
    "attribute": explain,
    "call": lambda score, x: score(x),
    "integrate": lambda score, x: lp.integrate(score, lp.Path.straight(torch.zeros_like(x), x)),
    "outputs": lambda score, x: score.outputs(x),
    "bind a layer": lambda score, x: replace(score, layer=next(score.model.children())).bind(x),
}


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("training", [False, True])
def test_model_is_left_untouched(use, training):
    model = Dropping().train(training)
    model.net[0].eval()
    model.net[2].weight.requires_grad_(False)
    model(X).sum().backward()
    with left_untouched(model):
        use(lp.Score(model, 1), X)


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("use", ["attribute", "call", "outputs", "bind a layer"])
def test_batch_norm_in_training_keeps_its_statistics(use):
    model = cnn().train()
    with left_untouched(model):
        try:
            USES[use](lp.Score(model, 1), flat_points(3, 72).view(3, 2, 6, 6))
        except ValueError as error:
            assert "not independent" in str(error)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("layer", [False, True])
def test_ambient_gradient_mode_changes_nothing(mode, layer):
    model = mlp()
    scale = torch.tensor([[1.0, 2.0, 3.0, 4.0]])

    def values(x, scale):
        score = lp.Score(
            model if layer else lambda x, s: model(x * s),
            torch.tensor([0, 1, 2, 0, 1]),
            layer=model[1] if layer else None,
            additional_forward_args=() if layer else (scale,),
        )
        return explain(score, x).values

    expected = values(X, scale)
    with mode():
        assert torch.equal(values(X, scale), expected)
        assert torch.equal(values(X.clone(), scale.clone()), expected)  # under inference mode these are special tensors


def test_inputs_that_require_grad_are_left_alone():
    x = X.clone().requires_grad_()
    result = explain(lp.Score(mlp(), 1), x)
    assert x.grad is None and not result.values.requires_grad


class Counting(nn.Module):
    """Changes its buffers in evaluation mode too: one in place, one by another tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x):
        self.calls += 1
        self.last = x[0].detach().clone()
        return x.sum(1)


def test_buffers_that_a_model_changes_in_evaluation_mode_are_put_back():
    model = Counting().eval()
    with left_untouched(model):
        last = model.last
        explain(lp.Score(model), X)
    assert model.last is last


NORM = nn.BatchNorm1d(4).train()


def through_a_global(x):
    return NORM(x).sum(1)


@pytest.mark.parametrize(
    "behind",
    [lambda norm: lambda x: norm(x).sum(1), lambda norm: partial(call, norm), lambda norm: Held(norm).run],
    ids=["closure", "partial", "method"],
)
def test_batch_norm_behind_a_function_keeps_its_statistics(behind):
    norm = nn.BatchNorm1d(4).train()
    with left_untouched(norm):
        lp.Score(behind(norm))(X)
    with left_untouched(NORM):
        lp.Score(through_a_global)(X)


def call(norm, x):
    return norm(x).sum(1)


class Held:
    def __init__(self, norm) -> None:
        self.parts = {"norm": [norm]}

    def run(self, x):
        return self.parts["norm"][0](x).sum(1)


def test_a_model_may_write_on_what_it_is_given():
    """Against the same model without in-place steps, for inputs and for a layer."""
    plain, writing = mlp(activation=nn.ReLU), mlp(activation=partial(nn.ReLU, inplace=True))
    for layers in ((None, None), (plain[2], writing[2])):
        expected, given = (explain(lp.Score(m, 1, layer=at), X) for m, at in zip((plain, writing), layers, strict=True))
        assert torch.equal(given.values, expected.values)
    doubled = lambda x: x.mul_(2).prod(1)  # noqa: E731
    assert torch.equal(explain(lp.Score(doubled), X).values, explain(lp.Score(lambda x: (x * 2).prod(1)), X).values)


@pytest.mark.parametrize("draw", [torch.rand, torch.randperm], ids=["rand", "randperm"])
def test_watched_draws_see_the_global_generator_only(draw):
    with torch.random.fork_rng(devices=[]):
        with WatchedDraws() as own:
            draw(3, generator=torch.Generator())
        with WatchedDraws() as shared:
            draw(3)
    assert (own.drew, shared.drew) == (False, True)


def test_a_model_that_draws_is_left_as_it_was_beside_other_threads():
    release = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(release.wait)
        before = torch.get_rng_state()
        lp.Score(lambda x: x.sum(1) + 0 * torch.rand(1))(X)
        assert torch.equal(before, torch.get_rng_state())
        release.set()
        waiting.result()
