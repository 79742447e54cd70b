"""Which images are explained, what masks show, and what is kept. Oracles: counts and colours by hand."""

import pytest
import torch

import leastpath as lp
from helpers import Interrupting
from leastpath._support.fingerprint import digest
from leastpath._support.store import Store
from leastpath.methods import METHODS
from studies.voc.config import VocConfig
from studies.voc.explaining import ColorFill, Keeping, chosen_images, masking_measures


def test_half_a_heat_map_is_not_kept(tmp_path):
    image, store = torch.rand(1, 3, 4, 4), Store(tmp_path, {})
    method = METHODS["guided_ig"]
    keeping = Keeping("guided_ig", method.defaults, method, store, {digest(image[0]): "a picture"})
    with pytest.raises(KeyboardInterrupt):
        keeping(lp.Score(Interrupting(lambda x: x.flatten(1).prod(1), at=6)), image, None, 0)
    assert not list(store)


def test_methods_that_find_their_own_start_get_no_baseline(tmp_path):
    image, method = torch.rand(1, 3, 4, 4), METHODS["mfaba"]
    keeping = Keeping("mfaba", method.defaults, method, Store(tmp_path, {}), {digest(image[0]): "a picture"})
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2)).eval()
    assert keeping(lp.Score(net, 0, "softmax"), image, torch.zeros_like(image), 0).values.shape == image.shape


def test_images_are_chosen_by_seed_and_skipped_ones_are_others():
    names = [f"{i:03d}" for i in range(30)]
    first = chosen_images(names, VocConfig(images=10))
    rest = chosen_images(names, VocConfig(images=20, skip=10))
    assert sorted(first + rest) == names
    assert first != chosen_images(names, VocConfig(images=10, seed=1))
    with pytest.raises(ValueError, match=r"more than the 30 .* --images 25"):
        chosen_images(names, VocConfig(images=26, skip=5))


def test_masking_fills_with_both_colours():
    measures = masking_measures((0.4, 0.5, 0.6))
    assert [m.name for m in measures][:2] == ["comprehensiveness grey", "log_prob_ratio grey"] and len(measures) == 6
    fill = ColorFill((0.4, 0.5, 0.6))(torch.zeros(2, 3, 4, 4))
    assert fill.shape == (2, 3, 4, 4) and fill[1, :, 2, 2].tolist() == pytest.approx([0.4, 0.5, 0.6])
