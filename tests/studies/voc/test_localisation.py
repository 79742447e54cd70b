"""Where attributions fall, by hand."""

import pytest
import torch

from studies.voc.localisation import Place, darkest, located


def place(luminance=1.0, inside=None):
    inside = torch.zeros(10, 10, dtype=torch.bool) if inside is None else inside
    return Place("a", 0, inside, torch.ones(10, 10, dtype=torch.bool), torch.full((10, 10), luminance))


def test_uniform_attributions_have_gain_one():
    inside = torch.zeros(10, 10, dtype=torch.bool)
    inside[:5] = True
    there = located(torch.ones(10, 10), place(0.1, inside))
    assert there["inside"] == pytest.approx(0.5) and there["gain"] == pytest.approx(1)
    assert there["dark_gain"] == pytest.approx(1)  # the whole object is dark


def test_attributions_on_bright_pixels_only_have_no_dark_gain():
    inside = torch.ones(10, 10, dtype=torch.bool)
    image = torch.full((10, 10), 0.9)
    image[:5] = 0.05
    where = Place("a", 0, inside, inside, image)
    magnitude = (image > 0.5).float()
    assert located(magnitude, where)["dark_gain"] == 0
    assert torch.isnan(torch.tensor(located(magnitude, place(0.9, inside))["dark_gain"]))  # nothing dark: not defined


def test_seams_do_not_count():
    inside = torch.zeros(10, 10, dtype=torch.bool)
    inside[0] = True
    known = torch.ones(10, 10, dtype=torch.bool)
    known[1] = False
    magnitude = torch.ones(10, 10)
    magnitude[1] = 1000
    there = located(magnitude, Place("a", 0, inside, known, torch.ones(10, 10)))
    assert there["inside"] == pytest.approx(1 / 9) and there["pointing"] in (0.0, 1.0)


def test_darkest_objects_come_first():
    inside = torch.ones(10, 10, dtype=torch.bool)
    dark, bright, none = place(0.1, inside), place(0.8, inside), Place("c", 0, None, None, torch.zeros(10, 10))
    assert darkest([bright, none, dark]) == [dark, bright]
