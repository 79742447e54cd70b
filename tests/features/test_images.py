"""Pictures read from files. Oracle: pictures whose pixels were planted."""

import numpy as np
import pytest
import torch

from leastpath.features.images import read_image, read_picture, square_crop

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


def test_of_a_long_strip_the_middle_is_cut():
    strip = Image.fromarray(np.repeat(np.arange(200, dtype=np.uint8)[None], 2, 0))
    cut = np.asarray(square_crop(strip, 56, Image.Resampling.BICUBIC))
    assert cut.shape == (56, 56) and cut.min() >= 98 and cut.max() <= 101


def test_what_is_no_picture_is_refused(tmp_path):
    (tmp_path / "words.jpg").write_text("words")
    with pytest.raises(ValueError, match=r"words\.jpg cannot be read as a picture"):
        read_image(tmp_path / "words.jpg", 16)


QUADRANTS = np.kron(np.array([[0, 64], [128, 255]], np.uint8), np.ones((16, 16), np.uint8))  # grey, upright


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_as_their_camera_says(tmp_path, orientation):
    """Against the upright picture: stored as each camera stores it, all eight ways are read alike."""
    turns = {
        1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud,
        5: lambda a: a.T, 6: lambda a: np.rot90(a, 1), 7: lambda a: np.rot90(a, 2).T, 8: lambda a: np.rot90(a, -1),
    }  # fmt: skip
    stored = Image.fromarray(np.ascontiguousarray(turns[orientation](QUADRANTS)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "photo.png", exif=exif)
    assert np.array_equal(np.asarray(read_picture(tmp_path / "photo.png"))[..., 0], QUADRANTS)


def test_grey_of_sixteen_bits_against_eight(tmp_path):
    Image.fromarray(QUADRANTS.astype(np.uint16) * 257).save(tmp_path / "deep.png")
    Image.fromarray(QUADRANTS).save(tmp_path / "plain.png")
    assert torch.equal(read_image(tmp_path / "deep.png", 16), read_image(tmp_path / "plain.png", 16))


def test_grey_without_a_known_white_is_refused(tmp_path):
    Image.fromarray(np.full((4, 4), 7.5, np.float32)).save(tmp_path / "float.tiff")
    Image.fromarray(np.full((4, 4), 2**20, np.int32)).save(tmp_path / "deep.tiff")
    for name, sentence in (("float.tiff", "expected 0 to 1"), ("deep.tiff", "expected 0 to 65535")):
        with pytest.raises(ValueError, match=f"{name} cannot be read as a picture: its grey goes .* {sentence}"):
            read_picture(tmp_path / name)
    Image.fromarray(np.full((4, 4), 0.4, np.float32)).save(tmp_path / "share.tiff")
    assert np.asarray(read_picture(tmp_path / "share.tiff")).min() == 102


def test_what_is_transparent_shows_white(tmp_path):
    half = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    half.putpixel((0, 0), (255, 0, 0, 255))
    half.save(tmp_path / "alpha.png")
    Image.new("LA", (4, 4), (0, 0)).save(tmp_path / "grey.png")
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 255, 0, 255, 0])
    palette.save(tmp_path / "palette.png", transparency=1)
    palette.save(tmp_path / "opaque.png")
    assert read_picture(tmp_path / "alpha.png").getpixel((0, 0)) == (255, 0, 0)
    for name in ("alpha.png", "grey.png", "palette.png"):
        assert read_picture(tmp_path / name).getpixel((3, 3)) == (255, 255, 255)
    assert read_picture(tmp_path / "opaque.png").getpixel((3, 3)) == (0, 255, 0)


def test_an_animation_gives_its_first_picture_and_says_so(tmp_path):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    with pytest.warns(UserWarning, match=r"film\.gif is an animation: its first picture is used"):
        assert read_picture(tmp_path / "film.gif").getpixel((0, 0)) == (255, 0, 0)


def test_bombs_and_broken_files_are_refused(tmp_path, monkeypatch):
    file = tmp_path / "large.png"
    Image.fromarray(QUADRANTS).save(file)
    file.with_name("cut.png").write_bytes(file.read_bytes()[:60])
    with pytest.raises(ValueError, match=r"cut\.png cannot be read as a picture"):
        read_picture(tmp_path / "cut.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match=r"large\.png claims to have too many pixels to be a picture"):
        read_image(file, 16)
    with pytest.raises(ValueError, match="size=0 must be at least 1"):
        read_image(file, 0)
