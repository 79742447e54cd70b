"""Backbones: features, weights from files, and torchvision beside a torch that it was not built for."""

import sys
import types
from urllib.error import URLError

import pytest
import torch
from safetensors.torch import save_file
from tiny_voc import tiny_backbone
from torch import nn

from leastpath.commands.model_files import read_state
from studies.voc import backbones
from studies.voc.backbones import Backbone, load_backbone


class Net(nn.Module):
    """Shaped like torchvision's classifiers: features, then a last linear layer."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 10))

    def forward(self, x):
        return self.classifier(self.body(x))


@pytest.fixture
def torchvision(monkeypatch):
    """A stand-in for torchvision, whose models take no download."""

    def get_model(name, weights):
        if weights is not None:
            raise URLError("no network")
        return Net()

    module = types.ModuleType("torchvision")
    module.models = types.SimpleNamespace(get_model=get_model)
    monkeypatch.setitem(sys.modules, "torchvision", module)


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_weights_from_a_file_give_what_the_last_layer_saw(torchvision, tmp_path, suffix):
    net, file = Net().eval(), tmp_path / f"net.{suffix}"
    save_file(net.state_dict(), file) if suffix == "safetensors" else torch.save(net.state_dict(), file)
    backbone = load_backbone("resnet50", file)
    images = torch.rand(2, 3, 12, 12)
    mean, std = (torch.tensor(n).view(1, 3, 1, 1) for n in (backbones.IMAGENET_MEAN, backbones.IMAGENET_STD))
    assert backbone.n_features == 5
    torch.testing.assert_close(backbone(images), net.body((images - mean) / std))
    assert not backbone.training and not any(p.requires_grad for p in backbone.parameters())


def test_weights_of_another_net_are_refused(torchvision, tmp_path):
    torch.save(nn.Linear(2, 2).state_dict(), tmp_path / "other.pth")
    with pytest.raises(ValueError, match="holds no weights of resnet50"):
        load_backbone("resnet50", tmp_path / "other.pth")


def test_without_network_the_default_is_named(torchvision):
    with pytest.raises(ValueError, match=r"could not be fetched .no network.*efficientnet_lite0"):
        load_backbone("convnext_tiny")


def test_without_torchvision_the_default_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ImportError, match="pip install torchvision, or use --backbone efficientnet_lite0"):
        load_backbone("vit_b_16")


def torchvision_that_needs(op, folder, monkeypatch):
    """A torchvision whose import fails as the real one does unless an op is declared."""
    package = folder / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("from torchvision import _meta_registrations\n")
    (package / "_meta_registrations.py").write_text(
        f"import torch\nif not hasattr(torch.ops.torchvision, {op!r}):\n"
        f"    raise RuntimeError('operator torchvision::{op} does not exist')\n"
    )
    monkeypatch.syspath_prepend(folder)
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    return package


@pytest.mark.parametrize("op", ["nms_of_a_test", "qnms_of_a_test"])
def test_torchvision_built_for_another_torch_is_imported_with_its_ops_declared(monkeypatch, tmp_path, op):
    package = torchvision_that_needs(op, tmp_path, monkeypatch)
    monkeypatch.setattr(backbones, "OPS_AT_IMPORT", (op,))
    assert backbones.imported_torchvision().__file__ == str(package / "__init__.py")
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]


def test_torchvision_that_needs_more_ops_names_the_build_to_install(monkeypatch, tmp_path):
    torchvision_that_needs("op_of_tomorrow", tmp_path, monkeypatch)
    monkeypatch.setattr(backbones, "OPS_AT_IMPORT", ())
    with pytest.raises(ImportError, match=r"op_of_tomorrow does not exist\): install the build for this one"):
        backbones.imported_torchvision()


def test_errors_name_what_was_given(tmp_path):
    with pytest.raises(ValueError, match="'alexnet' is unknown: use one of efficientnet_lite0"):
        load_backbone("alexnet")
    with pytest.raises(ValueError, match="is no file: pass the weights of resnet50"):
        load_backbone("resnet50", tmp_path / "nowhere.pth")
    (tmp_path / "w.pth").touch()
    with pytest.raises(ValueError, match="brings its weights along"):
        load_backbone("efficientnet_lite0", tmp_path / "w.pth")


class _Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('ran code')",)


@pytest.mark.parametrize("content", [_Evil(), {"weight": _Evil()}, nn.Linear(2, 2)])
def test_a_pickle_of_more_than_tensors_is_never_run(tmp_path, content):
    torch.save(content, tmp_path / "evil.pth")
    with pytest.raises(ValueError, match="can run any code when it is opened"):
        read_state(tmp_path / "evil.pth")


def test_files_that_are_no_state_dict_are_refused(tmp_path):
    torch.save([torch.ones(2)], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="holds a list, expected a state dict"):
        read_state(tmp_path / "list.pth")
    (tmp_path / "broken.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(ValueError, match="cannot be read as safetensors"):
        read_state(tmp_path / "broken.safetensors")


def test_fingerprint_follows_the_weights():
    one, same, other = tiny_backbone(), tiny_backbone(), tiny_backbone()
    with torch.no_grad():
        other.net[0].weight[0] += 1
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_features_must_be_one_row_an_image():
    with pytest.raises(ValueError, match=r"have shape \(1, 3, 64, 64\), expected \(batch, features\)"):
        Backbone("maps", lambda images: images, nn.Identity(), torch.full((3,), 0.5))
