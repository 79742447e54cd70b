"""Pictures read from files. Oracle: pictures whose pixels were planted."""

import numpy as np
import pytest
import torch

from leastpath.images import read_image, square_crop

Image = pytest.importorskip("PIL.Image")


def test_the_middle_of_a_wide_picture_is_read(tmp_path):
    pixels = np.zeros((32, 64, 3), np.uint8)
    pixels[:, 16:48, 1] = 255  # green between two black margins
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    found = read_image(tmp_path / "wide.png", 16)
    assert found.shape == (1, 3, 16, 16) and found.dtype == torch.float32
    assert found[0, 1].min() == 1 and found[0, [0, 2]].max() == 0


def test_masks_are_cut_like_the_pictures_they_belong_to():
    mask = Image.fromarray(np.repeat(np.arange(64, dtype=np.uint8)[None], 64, 0))
    cut = np.asarray(square_crop(mask, 56, Image.Resampling.NEAREST))  # 56 / 0.875 = 64: cut, not scaled
    assert cut.shape == (56, 56) and cut[0].tolist() == list(range(4, 60))


def test_what_is_no_picture_is_refused(tmp_path):
    (tmp_path / "words.jpg").write_text("words")
    with pytest.raises(ValueError, match=r"words\.jpg cannot be read as a picture"):
        read_image(tmp_path / "words.jpg", 16)
