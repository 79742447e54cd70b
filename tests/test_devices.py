"""Everything runs on a device without float64, as Apple's are, and beside which numbers of the CPU may not stand."""

import warnings

import pytest
import torch

import leastpath as lp
from fake_device import fake_device, send
from helpers import ALL_SOLVERS, cnn, flat_points, mlp
from leastpath.methods.table import BUILT_IN

SLOW_OR_FOREIGN = {
    "gradient_shap": "Captum draws from the global generator: it failed once after other tests, and not by itself",
    "lime": "Captum's LIME imports parts of PyTorch that take minutes on a fake device",
    "geodesic_variational": "Pyro's steps take minutes on a fake device",
    "geodesic_hamiltonian": "Pyro's steps take minutes on a fake device",
}
NOT_HERE = {"variational", "hamiltonian", "built graph"}  # for the same reason; and a graph of points of the CPU
NEEDS = {"encoder": lambda x: x[:, :1], "decoder": lambda z: torch.cat([z, z.sin(), z, z], 1)}


def test_the_fake_device_refuses_what_apples_refuses():
    x = send(torch.rand(2, 3))
    with fake_device():
        assert x.device.type == (x + 1).device.type == "mps" and x.cpu().device.type == "cpu"
        with pytest.raises(TypeError, match="float64"):
            x.double()
        with pytest.raises(RuntimeError, match="same device"):
            x + torch.zeros(3)


@pytest.mark.parametrize("name", [one.name for one in BUILT_IN if one.name not in SLOW_OR_FOREIGN])
def test_methods(name):
    of_images = name.endswith("cam") or "cam_plus" in name or name in ("blur_ig", "windows_in_context")
    x = torch.rand(2, 2, 6, 6) if of_images else flat_points(2, 4)
    model, settings = (cnn() if of_images else mlp()), {}
    if "points" in lp.METHODS[name].needs or name == "lpi":
        settings["points"] = send(flat_points(30, 4, seed=1))
    if "decoder" in lp.METHODS[name].needs:
        settings |= NEEDS
    device_model, device_x = send(model), send(x)
    with fake_device(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = lp.attribute(lp.Score(device_model, 1, output="log_softmax"), device_x, method=name, **settings)
    assert result.values.device.type == "mps"
    assert "not known" not in result.status[0].value, "the test by removal ran there, too"


@pytest.mark.parametrize("case", [case for case in ALL_SOLVERS if case.id not in NOT_HERE])
@pytest.mark.filterwarnings("ignore:at::frobenius_norm")
def test_solvers(case):
    model = send(mlp(2))
    score = lp.Score(lambda x: model(x.flatten(1)), 1, output="log_softmax")
    points = send(case.shaped(flat_points(2)))
    with fake_device():
        solver = case.solver(score, lp.Conformal(), torch.float32)
        assert lp.attribute(score, points, method=solver, support=False).values.device.type == "mps"
