"""Results in notebooks: pictures for images, bars for rows and tokens, nothing unescaped."""

import base64
import io
import re

import numpy as np
import pytest
import torch

import leastpath as lp
from leastpath.result.html import picture_html, png, result_html
from leastpath.result.status import Note, Outcome, Status


def test_a_png_is_read_back():
    images = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 255, (5, 7, 3)).astype(np.uint8)
    assert np.array_equal(np.asarray(images.open(io.BytesIO(png(pixels)))), pixels)


def test_red_raises_and_blue_lowers():
    images = pytest.importorskip("PIL.Image")
    values = torch.zeros(1, 2, 2)
    values[0, 0] = torch.tensor([1.0, -1.0])
    data = re.search(r"base64,([^\"]+)", picture_html(values))[1]
    pixels = np.asarray(images.open(io.BytesIO(base64.b64decode(data)))).astype(int)
    assert pixels[0, 0, 0] > pixels[0, 0, 2]
    assert pixels[0, 1, 2] > pixels[0, 1, 0]
    assert pixels[1, 0].tolist() == [255, 255, 255]


def test_a_result_shows_itself():
    result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(6, 3), method=lp.StraightLine(), support=True)
    shown = result._repr_html_()
    assert shown.count("<svg") == 4
    assert "first 4 of 6" in shown
    assert result.status[0].value.partition(".")[0] in shown
    assert "support" in shown


def test_tuples_and_empty_and_nan_are_shown():
    fine = Status((Note(Outcome.REACHED, "fine"),))
    nan = torch.tensor([float("nan")])
    shown = result_html((torch.zeros(1, 2), torch.full((1, 4, 2), torch.nan)), [fine], {"length": nan}, "x")
    assert shown.count("<svg") == 2
    assert "length" not in shown


def test_everything_is_escaped():
    evil = "<script>alert(1)</script>"
    status = Status((Note(Outcome.FLAT, evil),))
    shown = result_html(torch.ones(1, 2), [status], {evil: torch.ones(1)}, evil)
    assert "<script" not in shown.lower()
    assert "Look twice" in shown
