"""Files of users: read where they are what they should be, refused with a sentence where not."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from leastpath.explorer import uploads
from leastpath.explorer.uploads import keep_together, picture_from, table_from, text_from
from leastpath.features.images import read_image


def png(width: int = 30, height: int = 20, mode: str = "RGB") -> bytes:
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3)).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, "PNG")
    return file.getvalue()


def test_a_picture_is_read_as_read_image_reads_it(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    assert torch.equal(picture_from("a.png", png(), (3, 16, 16)), read_image(tmp_path / "a.png", 16))


def test_a_picture_is_turned_as_its_camera_says_and_shown_on_white(tmp_path):
    exif = Image.Exif()
    exif[274] = 6  # a quarter turn
    pixels = np.random.default_rng(0).integers(0, 255, (20, 30, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "turned.jpg", exif=exif)
    Image.new("LA", (9, 9)).save(tmp_path / "clear.png")
    for name in ("turned.jpg", "clear.png"):
        mine = picture_from(name, (tmp_path / name).read_bytes(), (3, 16, 16))
        assert torch.equal(mine, read_image(tmp_path / name, 16))


@pytest.mark.parametrize(("shape", "mode"), [((1, 8, 8), "RGBA"), ((3, 6, 9), "L")])
def test_channels_and_sizes_follow_the_model(shape, mode):
    assert picture_from("a.png", png(mode=mode), shape).shape == (1, *shape)


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"<svg/>", png()[:60], b"\0" * 100])
def test_what_is_no_picture_is_refused(content):
    with pytest.raises(ValueError, match=r"evil<b>\.png cannot be read|empty"):
        picture_from("evil<b>.png", content, (3, 8, 8))


def test_a_picture_that_unpacks_to_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(uploads, "MOST_PIXELS", 100)
    with pytest.raises(ValueError, match="too many"):
        picture_from("a.png", png(), (3, 8, 8))


def test_a_strip_takes_no_more_than_a_picture(monkeypatch):
    """Oracle: the sizes that pictures are brought to. 138 bytes of a strip took 4.6 GB."""
    sizes, resize = [], Image.Image.resize

    def seen(image, size, *given, **more):
        sizes.append(size)
        return resize(image, size, *given, **more)

    monkeypatch.setattr(Image.Image, "resize", seen)
    for width, height in ((1, 15_000), (15_000, 1)):
        assert picture_from("a.png", png(width, height), (3, 224, 224)).shape == (1, 3, 224, 224)
    assert max(w * h for w, h in sizes) <= 10 * 256**2
    with pytest.raises(ValueError, match="too many"):
        picture_from("a.png", png(1, 60_000), (3, 8, 8))


def test_at_most_so_many_samples_are_kept(monkeypatch):
    monkeypatch.setattr(uploads, "MOST_SAMPLES", 3)
    rows = [1]
    assert keep_together(rows, [2, 3]) == 1
    with pytest.raises(ValueError, match="at most 3"):
        keep_together(rows, [4])
    assert rows == [1, 2, 3]


def test_a_file_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(uploads, "MOST_BYTES", 10)
    with pytest.raises(ValueError, match="MB"):
        picture_from("a.png", png(), (3, 8, 8))


def test_other_channels_have_no_picture_files():
    with pytest.raises(ValueError, match="5 channels"):
        picture_from("a.png", png(), (5, 8, 8))


def test_tables_need_the_columns():
    assert list(table_from("a.csv", b"b,x,a\n1,2,3\n", ("a", "b")).columns) == ["a", "b"]
    for content in (b"b\n1\n", b"", b"a,b\n", b"\xff\xfe\0"):
        with pytest.raises(ValueError, match=r"columns|empty|rows|cannot be read"):
            table_from("a.csv", content, ("a", "b"))


def test_texts_are_utf8_and_not_too_long():
    assert text_from("x", "ein schöner Film ".encode()) == "ein schöner Film"
    for content in (b"\xff", b" ", b"a" * 10_001):
        with pytest.raises(ValueError, match=r"UTF-8|characters"):
            text_from("x", content)
