"""Captum's methods through the score: against Captum called directly, and against closed forms."""

import captum.attr
import pytest
import torch
from torch import Tensor, nn

import leastpath as lp
from helpers import Counted, TextNet, flat_points, mlp, seeded
from leastpath.methods import METHODS

TARGETS = torch.tensor([0, 2, 1])


def log_softmax(model: nn.Module):
    return lambda x: model(x).log_softmax(1)


def scored(model: nn.Module) -> lp.Score:
    return lp.Score(model, TARGETS, "log_softmax")


def image_net() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 3))).eval()


def test_input_x_gradient_against_captum():
    model, x = mlp(), flat_points(3, 4)
    direct = captum.attr.InputXGradient(log_softmax(model)).attribute(x.requires_grad_(), target=TARGETS)
    torch.testing.assert_close(METHODS["input_x_gradient"](scored(model), x.detach()).values, direct.detach())


def test_saliency_against_captum():
    model, x = mlp(), flat_points(3, 4)
    direct = captum.attr.Saliency(log_softmax(model)).attribute(x.requires_grad_(), target=TARGETS)
    found = METHODS["saliency"](scored(model), x.detach())
    torch.testing.assert_close(found.values, direct.detach())
    assert (found.values >= 0).all() and found.n_gradients.tolist() == [1, 1, 1]


def test_integrated_gradients_against_captum():
    model, x, baselines = mlp().double(), flat_points(3, 4, 1, torch.float64), flat_points(3, 4, 2, torch.float64)
    direct = captum.attr.IntegratedGradients(log_softmax(model)).attribute(x, baselines, TARGETS, n_steps=400)
    ours = METHODS["integrated_gradients"](scored(model), x, baselines, tolerance=1e-6)
    torch.testing.assert_close(ours.values, direct, rtol=0, atol=1e-6)
    fixed = METHODS["integrated_gradients"](scored(model), x, baselines, tolerance=None, n_steps=20)
    same_rule = captum.attr.IntegratedGradients(log_softmax(model)).attribute(x, baselines, TARGETS, n_steps=20)
    torch.testing.assert_close(fixed.values, same_rule, rtol=0, atol=1e-8)  # Captum keeps its weights in float32


def test_deep_lift_against_captum_and_its_summation_to_delta():
    model, x, baselines = mlp(activation=nn.ReLU), flat_points(3, 4, 1), flat_points(3, 4, 2)
    with pytest.warns(UserWarning, match="Setting forward, backward hooks"):
        direct = captum.attr.DeepLift(model).attribute(x.clone().requires_grad_(), baselines, TARGETS)
    result = METHODS["deep_lift"](lp.Score(model, TARGETS), x, baselines)
    torch.testing.assert_close(result.values, direct.detach())
    assert result.completeness_gap.abs().max() < 1e-5
    assert result.n_gradients.tolist() == [2, 2, 2]


def test_deep_lift_says_where_it_misses_the_change_and_why():
    result = METHODS["deep_lift"](scored(mlp()), 3 * flat_points(3, 4, 1))
    missed = result.completeness_gap.abs() > 0.01 * result.score_change.abs() + 1e-6
    assert missed.any()
    said = ["no rule for log_softmax, whose gradient is used" in status.value for status in result.status]
    assert said == missed.tolist()
    relu6 = METHODS["deep_lift"](lp.Score(mlp(activation=nn.ReLU6), TARGETS), 9 * flat_points(3, 4, 1))
    assert any("no rule for ReLU6" in status.value for status in relu6.status)
    relu = METHODS["deep_lift"](lp.Score(mlp(activation=nn.ReLU), TARGETS), 9 * flat_points(3, 4, 1))
    assert not any("adds up to" in status.value for status in relu.status)


def test_deep_lift_refuses_plain_callables():
    with pytest.raises(ValueError, match=r"the model is a plain function: pass an nn\.Module"):
        METHODS["deep_lift"](lp.Score(lambda x: x.sum(1)), flat_points(3, 4))


def test_deep_lift_counts_the_rows_it_runs():
    rows = []  # not on the model: DeepLift runs a copy of it

    class CountedModule(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp()

        def forward(self, x: Tensor) -> Tensor:
            rows.append(len(x))
            return self.inner(x)

    model = CountedModule().eval()
    result = METHODS["deep_lift"](lp.Score(model, TARGETS), flat_points(3, 4))
    assert sum(rows) == int(result.n_gradients.sum() + result.n_forwards.sum())


def test_gradient_shap_draws_from_an_examples_own_baselines_and_tends_to_ig():
    model, x = mlp().double(), flat_points(3, 4, 1, torch.float64)
    baselines = flat_points(6, 4, 2, torch.float64).view(3, 2, 4)
    expected = METHODS["integrated_gradients"](scored(model), x, baselines, tolerance=1e-5).values
    result = METHODS["gradient_shap"](scored(model), x, baselines, n_samples=4000)
    assert float((result.values - expected).abs().max()) < 0.05 * float(expected.abs().max())
    assert result.baseline_spread is None and result.n_gradients.tolist() == [4000] * 3


def test_gradient_shap_keeps_to_the_batch_size():
    counted = Counted(mlp())
    METHODS["gradient_shap"](lp.Score(counted, TARGETS, batch_size=8), flat_points(3, 4), n_samples=20)
    assert counted.largest <= 8


def shapley(f, x: Tensor, baseline: Tensor) -> Tensor:
    """By enumeration of all orders' prefixes: x, baseline (k,)."""
    from itertools import permutations

    orders, values = list(permutations(range(len(x)))), torch.zeros_like(x)
    for order in orders:
        point = baseline.clone()
        for i in order:
            before = f(point)
            point[i] = x[i]
            values[i] += (f(point) - before) / len(orders)
    return values


def test_kernel_shap_against_enumerated_shapley_values():
    model, x, baselines = mlp().double(), flat_points(1, 4, 1, torch.float64), flat_points(1, 4, 2, torch.float64)
    score = lp.Score(model, 2, "log_softmax")
    exact = shapley(lambda p: score(p[None])[0], x[0], baselines[0])
    result = METHODS["kernel_shap"](score, x, baselines, n_samples=800)
    torch.testing.assert_close(result.values[0], exact, rtol=0, atol=0.02 * float(exact.abs().max()))


def test_kernel_shap_of_images_uses_superpixels_and_says_how_many():
    x = flat_points(2, 3 * 16 * 16).view(2, 3, 16, 16)
    score = lp.Score(image_net(), TARGETS[:2])
    result = METHODS["kernel_shap"](score, x, groups=9)
    groups = result.stats["n_groups"]
    assert int(groups.min()) >= 2 and int(groups.max()) <= 18
    assert torch.equal(result.stats["n_samples"], (10 * groups).clamp_min(50))
    assert torch.equal(result.values[:, 0], result.values[:, 2])
    assert "groups of features" in result.status[0].value
    assert result.completeness_gap.abs().max() < 1e-3 * result.score_change.abs().max()
    halves = torch.zeros(16, 16, dtype=torch.long)
    halves[:, 8:] = 7
    given = METHODS["kernel_shap"](score, x, groups=halves)
    assert given.stats["n_groups"].tolist() == [2, 2]
    assert all(len(given.values[b].unique()) == 2 for b in range(2))


def test_groups_of_another_shape_or_type_are_refused():
    x = flat_points(2, 3 * 16 * 16).view(2, 3, 16, 16)
    score = lp.Score(image_net(), 0)
    with pytest.raises(ValueError, match=r"groups have shape \(4, 4\)"):
        METHODS["lime"](score, x, groups=torch.zeros(4, 4, dtype=torch.long))
    with pytest.raises(ValueError, match="expected integers"):
        METHODS["lime"](score, x, groups=torch.zeros(16, 16))
    with pytest.raises(ValueError, match="groups=0 must be at least 1"):
        METHODS["lime"](score, x, groups=0)
    with pytest.raises(ValueError, match="n_samples=0 must be at least 1"):
        METHODS["kernel_shap"](score, x, n_samples=0)


def test_a_single_group_takes_the_whole_change():
    x = flat_points(2, 1, 1)
    result = METHODS["kernel_shap"](lp.Score(lambda x: x[:, 0] ** 2), x)
    torch.testing.assert_close(result.values, x**2)


def test_lime_is_equivariant_and_signs_a_linear_model_right():
    weight, x = torch.tensor([3.0, -2.0, 0.0]), torch.ones(1, 3)
    small, large = (
        METHODS["lime"](lp.Score(lambda x, scale=scale: scale * (x * weight).sum(1)), x, n_samples=200).values
        for scale in (1e-3, 1.0)
    )
    torch.testing.assert_close(1000 * small, large, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(large[0], weight, rtol=0, atol=0.2)


@pytest.mark.parametrize("name", ["occlusion", "kernel_shap", "lime", "gradient_shap", "deep_lift", "input_x_gradient"])
def test_layers_are_explained_with_their_own_arguments(name):
    model = seeded(TextNet).eval()
    ids, mask = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), torch.tensor([[1.0, 1, 1, 0], [1, 1, 0, 0]])
    score = lp.Score(model, torch.tensor([0, 2]), layer=model.embedding, additional_forward_args=mask)
    result = METHODS[name](score, ids)
    assert result.values.shape == (2, 4, 4)
    masked = torch.cat([result.values[0, 3:], result.values[1, 2:]])
    assert masked.abs().max() < 1e-6 < result.values.abs().max()  # what is masked is worth nothing
    if name in ("occlusion", "kernel_shap", "lime"):  # a token is hidden as a whole
        assert torch.equal(result.values[..., 0], result.values[..., 3])


def test_what_hiding_a_token_costs_is_shared_by_its_numbers():
    model = seeded(TextNet).eval()
    ids, mask = torch.tensor([[1, 2, 3, 4]]), torch.ones(1, 4)
    result = METHODS["occlusion"](lp.Score(model, 0, layer=model.embedding, additional_forward_args=mask), ids)
    for token in range(4):

        def hide(_module, _given, vectors, token=token):  # its baseline is what the ids 0 give
            return torch.where(torch.arange(4)[:, None] == token, model.embedding.weight[0], vectors)

        whole = model(ids, mask)[0, 0]
        with model.embedding.register_forward_hook(hide):
            fall = whole - model(ids, mask)[0, 0]
        torch.testing.assert_close(result.values[0, token].sum(), fall, atol=1e-5, rtol=1e-4)


def test_the_methods_say_so_when_captum_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(ImportError, match=r"lime is Captum's: pip install 'leastpath\[captum\]'"):
        METHODS["lime"](scored(mlp()), flat_points(3, 4))


def test_the_unit_of_a_feature_plays_no_part_in_lime():
    x, unit = flat_points(2, 4), torch.tensor([1.0, 1000.0, 0.001, 7.0])
    model = mlp()
    metres = lp.METHODS["lime"](lp.Score(model, 1), x).values
    feet = lp.METHODS["lime"](lp.Score(lambda x: model(x / unit), 1), x * unit).values
    torch.testing.assert_close(feet, metres, rtol=1e-4, atol=1e-5)
