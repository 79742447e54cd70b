"""The adapter in Captum's own company. Behaviour that Captum's test-suite asks of IntegratedGradients is asked here of
StraightLine; where the two differ on purpose, the test says so."""

import runpy
import sys

import pytest
import torch
from captum.attr import IntegratedGradients, LayerIntegratedGradients, NoiseTunnel
from captum.metrics import infidelity, sensitivity_max
from torch import nn

import leastpath as lp
import leastpath.captum as door
from helpers import Dropping, Polyline, TextNet, cnn, flat_points, left_untouched, mlp, seeded
from leastpath.captum import GeodesicIntegratedGradients, LayerGeodesicIntegratedGradients
from leastpath.removal.verdict import TESTED

NET, IMAGE_NET, PLANE = mlp(), cnn(), mlp(2, 2)
METHODS = ["gausslegendre", "riemann_middle", "riemann_trapezoid"]


def straight(forward_func, multiply_by_inputs=True, tolerance=None):
    return GeodesicIntegratedGradients(forward_func, multiply_by_inputs, solver=lp.StraightLine(), tolerance=tolerance)


class Grid(nn.Module):
    """(batch, 4) to (batch, 2, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp(4, 6)

    def forward(self, x):
        return self.inner(x).unflatten(1, (2, 3))


# ---- the same numbers as Captum ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gausslegendre", "riemann_middle"])
@pytest.mark.parametrize("multiply_by_inputs", [True, False])
def test_against_captum(method, multiply_by_inputs):
    inputs = flat_points(3, 4)
    call = {"baselines": 0.2, "target": 1, "n_steps": 9, "method": method, "return_convergence_delta": True}
    ours = straight(NET, multiply_by_inputs).attribute(inputs, **call)
    theirs = IntegratedGradients(NET, multiply_by_inputs).attribute(inputs, **call)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:the model is in training mode")
@pytest.mark.parametrize("multiply_by_inputs", [True, False])
def test_a_model_in_training_mode_is_left_as_it_was(multiply_by_inputs):
    model = Dropping().train()
    with left_untouched(model):
        straight(model, multiply_by_inputs).attribute(flat_points(3, 4), target=1, return_convergence_delta=True)


def test_trapezoid_weights_sum_to_one_where_captums_do_not():
    """A linear model: the trapezoid is exact, Captum's is (n − 1) / n of it."""
    inputs, weight = torch.tensor([[1.0, 2.0]]), torch.tensor([3.0, -1.0])
    call = {"n_steps": 5, "method": "riemann_trapezoid"}
    ours = straight(lambda x: x @ weight).attribute(inputs, **call)
    theirs = IntegratedGradients(lambda x: x @ weight).attribute(inputs, **call)
    torch.testing.assert_close(ours, inputs * weight)
    torch.testing.assert_close(theirs, inputs * weight * 4 / 5)


@pytest.mark.parametrize(
    "target",
    [(1, 2), [(1, 2), (0, 1), (1, 0)], [(1, 2), (1, 2), (0, 0)]],
    ids=["tuple", "list of tuples", "list of tuples, one twice"],
)
def test_targets_of_outputs_with_more_dimensions_against_captum(target):
    inputs = flat_points(3, 4)
    ours = straight(Grid().eval()).attribute(inputs, target=target)
    theirs = IntegratedGradients(Grid().eval()).attribute(inputs, target=target)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "target",
    [2, (2,), torch.tensor(2), torch.tensor([2]), [2, 0, 1], torch.tensor([2, 0, 1])],
    ids=["int", "tuple", "scalar tensor", "tensor of one", "list", "tensor"],
)
def test_targets_of_classes_against_captum(target):
    inputs = flat_points(3, 4)
    ours = straight(NET).attribute(inputs, target=target)
    theirs = IntegratedGradients(NET).attribute(inputs, target=target)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_one_number_in_several_dimensions_needs_no_target():
    def grid(x):
        return mlp(4, 1)(x)[:, :, None, None]  # (batch, 1, 1, 1)

    inputs = flat_points(3, 4)
    ours, theirs = (
        explainer.attribute(inputs, n_steps=20) for explainer in (straight(grid), IntegratedGradients(grid))
    )
    torch.testing.assert_close(ours, theirs.float(), rtol=1e-4, atol=1e-5)


def test_attribute_future_is_refused_as_in_captum():
    for explainer in (straight(NET), IntegratedGradients(NET)):
        with pytest.raises(NotImplementedError, match="attribute_future is not implemented for"):
            explainer.attribute_future()


def test_arguments_of_every_kind_against_captum():
    """Tuple inputs, of which one is an image, a per-example tensor argument, a list and a number."""
    image, row = torch.randn(2, 2, 6, 6), flat_points(2, 3)

    def model(image, row, scale, powers, number):
        return IMAGE_NET(image) * scale + (row ** powers[0]).sum(1, keepdim=True) * number

    call = {"baselines": (0, torch.full((1, 3), 0.5)), "target": [0, 2]}
    call["additional_forward_args"] = (torch.tensor([[1.0], [-2.0]]), [2, 3], 0.5)
    ours = straight(model).attribute((image, row), **call)
    theirs = IntegratedGradients(model).attribute((image, row), **call)
    assert isinstance(ours, tuple)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_internal_batch_size_bounds_the_calls_and_changes_nothing():
    """Captum asks for at least one row an example; here any size will do."""
    largest = 0

    def model(x):
        nonlocal largest
        largest = max(largest, len(x))
        return NET(x)

    whole, small = (straight(model).attribute(flat_points(3, 4), target=0, internal_batch_size=n) for n in (None, 2))
    torch.testing.assert_close(whole, small)
    largest = 0
    straight(model).attribute(flat_points(3, 4), target=0, internal_batch_size=2)
    assert largest == 2


# ---- what Captum's own tests ask of IntegratedGradients ----------------------------------------------------------


def test_two_scalar_inputs_and_implementation_invariance():
    """relu(relu(x − 1) − relu(y)), 0 → (3, 1), in two implementations: 1.5 and −0.5 for both."""
    x, y = torch.tensor([3.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)

    def plain(x, y):
        return (torch.relu(x - 1) - torch.relu(y)).relu()

    def nested(x, y):
        return (torch.relu(x - 1) - torch.relu(y) + torch.relu(x) - torch.relu(x)).relu()

    first, second = (straight(f, tolerance=1e-3).attribute((x, y), (0.0, torch.zeros(1))) for f in (plain, nested))
    torch.testing.assert_close(torch.cat(first), torch.tensor([1.5, -0.5]), atol=0.01, rtol=0)
    torch.testing.assert_close(first, second, atol=2e-3, rtol=0)


@pytest.mark.parametrize("value", [1.0, 0.0, -1.0])
def test_one_scalar_input_is_complete(value):
    """1 − relu(1 − x): the attribution is the change of the score, and a path of length zero gives zero."""
    x = torch.tensor([value])
    values, delta = straight(lambda x: 1 - torch.relu(1 - x), 1e-3).attribute(x, return_convergence_delta=True)
    torch.testing.assert_close(values, 1 - torch.relu(1 - x), atol=1e-3, rtol=0)
    torch.testing.assert_close(delta, torch.zeros(1), atol=1e-3, rtol=0)


@pytest.mark.parametrize("method", METHODS)
def test_batch_equals_loop_and_delta_is_one_number_an_example(method):
    inputs = (flat_points(3, 2), flat_points(3, 2, seed=1))
    explainer = straight(lambda a, b: NET(torch.cat([a, b], 1)))
    call = {"target": 0, "method": method, "n_steps": 40, "return_convergence_delta": True}
    values, delta = explainer.attribute(inputs, **call)
    assert delta.shape == (3,)
    for i in range(3):
        one, one_delta = explainer.attribute(tuple(part[i : i + 1] for part in inputs), **call)
        torch.testing.assert_close(one, tuple(v[i : i + 1] for v in values), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(one_delta, delta[i : i + 1], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_softmax_classifier_is_complete_and_delta_is_captums(method):
    """Large inputs into a saturating net: 200 steps leave the gap that Captum computes from the same attributions."""
    model = nn.Sequential(mlp(40, 10), nn.Softmax(1)).eval()
    inputs, baseline = torch.arange(120.0).reshape(3, 40) / 40, torch.zeros(1, 40)
    explainer, target = straight(model), torch.tensor([5, 5, 2])
    call = {"n_steps": 200, "method": method, "return_convergence_delta": True}
    values, delta = explainer.attribute(inputs, baseline, target, **call)
    assert delta.abs().max() < 0.005
    torch.testing.assert_close(
        delta, explainer.compute_convergence_delta(values, baseline, inputs, target), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("kind", ["smoothgrad", "smoothgrad_sq", "vargrad"])
def test_in_a_noise_tunnel_against_captum(kind):
    inputs = (flat_points(2, 4), flat_points(2, 4, seed=1))

    def model(a, b):
        return NET(a * b)

    call = {"nt_type": kind, "nt_samples": 4, "stdevs": 0.02, "baselines": (0.1, 0.0), "target": torch.tensor([0, 2])}
    tunnels = NoiseTunnel(straight(model)), NoiseTunnel(IntegratedGradients(model))
    ours, theirs = (
        seeded(lambda tunnel=tunnel: tunnel.attribute(inputs, return_convergence_delta=True, **call))
        for tunnel in tunnels
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours[1].shape == (8,)


def test_per_sample_batches_of_a_noise_tunnel():
    tunnel = NoiseTunnel(GeodesicIntegratedGradients(mlp(30), solver=lp.Descent(60)))
    values = tunnel.attribute(flat_points(2, 30), nt_samples=4, nt_samples_batch_size=2, stdevs=0.1, target=1)
    assert values.shape == (2, 30)


# ---- with paths that are not straight ----------------------------------------------------------------------------


def test_a_bent_path_is_complete_at_the_default_tolerance():
    explainer = GeodesicIntegratedGradients(NET, solver=Polyline())
    inputs = flat_points(4, 4)
    values, delta = explainer.attribute(inputs, target=1, return_convergence_delta=True)
    change = NET(inputs)[:, 1] - NET(torch.zeros(1, 4))[:, 1]
    torch.testing.assert_close(values.sum(1) - change.detach(), delta, atol=1e-5, rtol=0)
    assert (delta.abs() <= 0.01 * change.abs() + 1e-3).all()


def test_explain_gives_what_attribute_gives_with_the_certificates():
    solver = lp.NeighborGraph(flat_points(30, 2, seed=4), n_neighbors=5)
    result = GeodesicIntegratedGradients(PLANE, solver=solver).explain(flat_points(3), target=[0, 1, 1])
    direct = lp.attribute(lp.Score(PLANE, [0, 1, 1]), flat_points(3), method=solver, n_steps=50)
    torch.testing.assert_close(result.values, direct.values)
    assert (result.certificate >= 1).all()


def test_captum_metrics_accept_the_explainer():
    model, inputs = NET, flat_points(3, 4)
    explainer = GeodesicIntegratedGradients(model, solver=lp.Descent(40))
    values = explainer.attribute(inputs, target=[0, 1, 2])

    def perturb(x):
        noise = 0.1 * torch.randn_like(x)
        return noise, x - noise

    lost = infidelity(model, perturb, inputs, values, target=[0, 1, 2], n_perturb_samples=4)
    moved = sensitivity_max(explainer.attribute, inputs, target=[0, 1, 2], n_perturb_samples=3)
    assert lost.shape == moved.shape == (3,)
    assert torch.isfinite(lost).all() and torch.isfinite(moved).all()


def test_captum_draws_the_attributions():
    plt = pytest.importorskip("matplotlib.pyplot")
    from captum.attr import visualization

    image = torch.rand(1, 2, 6, 6)
    values = GeodesicIntegratedGradients(cnn(), solver=lp.Descent(60)).attribute(image, target=0)
    figure, _ = visualization.visualize_image_attr(
        values[0].permute(1, 2, 0).numpy(), image[0, :1].permute(1, 2, 0).expand(-1, -1, 3).numpy(),
        method="blended_heat_map", sign="all", use_pyplot=False,
    )  # fmt: skip
    assert figure.axes[0].images
    plt.close("all")


# ---- layers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("multiply_by_inputs", [True, False])
@pytest.mark.parametrize("as_function", [False, True])
def test_embedding_against_captum(multiply_by_inputs, as_function):
    """Token ids, a mask that goes along, baselines of token ids: a module, or a method of one."""
    model = seeded(TextNet).eval()
    forward = model.forward if as_function else model
    ids, mask = torch.tensor([[2, 5, 1, 9], [3, 1, 1, 4]]), torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]])
    call = {"baselines": torch.zeros(1, 4, dtype=torch.long), "target": [1, 2], "additional_forward_args": mask}
    ours = LayerGeodesicIntegratedGradients(
        forward, model.embedding, None, multiply_by_inputs, solver=lp.StraightLine(), tolerance=None
    ).attribute(ids, **call)
    theirs = LayerIntegratedGradients(forward, model.embedding, None, multiply_by_inputs).attribute(ids, **call)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("to_input", [False, True])
def test_output_and_input_of_an_inner_layer_against_captum(to_input):
    model, inputs = cnn(), torch.randn(2, 2, 6, 6)
    call = {"target": 1, "return_convergence_delta": True, "attribute_to_layer_input": to_input}
    ours = LayerGeodesicIntegratedGradients(model, model[3], solver=lp.StraightLine(), tolerance=None).attribute(
        inputs, **call
    )
    theirs = LayerIntegratedGradients(model, model[3]).attribute(inputs, **call)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert not model[3]._forward_pre_hooks and not model[3]._forward_hooks


def test_a_layer_is_complete_along_a_bent_path():
    model = seeded(TextNet).eval()
    explainer = LayerGeodesicIntegratedGradients(model, model.embedding, solver=lp.Descent(100))
    values, delta = explainer.attribute(torch.tensor([[2, 5, 1, 9]]), target=1, return_convergence_delta=True)
    assert values.shape == (1, 4, 4)
    assert float(delta.abs()) < 0.01
    assert explainer.explain(torch.tensor([[2, 5, 1, 9]]), target=1).status[0].ok is not False


# ---- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["riemann_left", "riemann_right", "simpson"])
def test_methods_that_are_not_offered(method):
    with pytest.raises(ValueError, match='take "riemann_middle"'):
        straight(NET).attribute(flat_points(1, 4), target=0, method=method)


def test_mean_gradients_need_the_straight_line():
    with pytest.raises(ValueError, match=r"use leastpath\.captum"):
        GeodesicIntegratedGradients(NET, multiply_by_inputs=False)


@pytest.mark.parametrize("target", [(1, 2, 0), [(1,), (0,)]])
def test_targets_of_the_wrong_length(target):
    with pytest.raises(ValueError, match="one for each dimension after the batch"):
        straight(Grid().eval()).attribute(flat_points(2, 4), target=target)


def test_list_of_targets_of_the_wrong_length():
    with pytest.raises(ValueError, match="one tuple per example"):
        straight(Grid().eval()).attribute(flat_points(2, 4), target=[(1, 2), (0, 0), (0, 1)])


def test_several_layers_and_devices_are_refused():
    model = NET
    with pytest.raises(ValueError, match="explain several layers in turn"):
        LayerGeodesicIntegratedGradients(model, [model[0], model[2]])
    with pytest.raises(ValueError, match="pass the module that it wraps"):
        LayerGeodesicIntegratedGradients(model, model[0], device_ids=[0, 1])


def test_without_captum_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr._utils.attribution", None)
    with pytest.raises(ImportError, match=r"leastpath\[captum\]"):
        runpy.run_path(sys.modules["leastpath.captum"].__file__)


def test_each_name_takes_the_path_that_it_says():
    """Also above 20 features, where `attribute` would take the line."""
    inputs, net = torch.rand(1, 30), mlp(30)
    line = door.IntegratedGradients(net).explain(inputs, target=0)
    bent = GeodesicIntegratedGradients(net, max_gradients=60).explain(inputs, target=0)
    assert line.method == "StraightLine()" and bent.method.startswith("ElasticBand(")
    assert line.status[0].outcomes[0] in TESTED
    exact = door.IntegratedGradients(net, tolerance=None).attribute(inputs, target=0, method="riemann_middle")
    theirs = IntegratedGradients(net).attribute(inputs, target=0, method="riemann_middle")
    torch.testing.assert_close(exact, theirs, atol=1e-5, rtol=1e-4)
