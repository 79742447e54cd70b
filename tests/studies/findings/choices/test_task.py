"""How alike explanations are, and what is explained. Oracles: SciPy, brute force, sets."""

from itertools import permutations

import pytest
import torch
from scipy.stats import spearmanr

from helpers import flat_points
from studies.findings.choices import task as tasks
from studies.findings.choices.baseline import BASELINE
from studies.findings.choices.output import OUTPUT
from studies.findings.choices.task import likeness, top_overlap


def test_ranks_are_scipys_and_a_scaled_copy_is_alike_but_for_its_sign():
    a, b = flat_points(4, 30, seed=1), flat_points(4, 30, seed=2)
    expected = [spearmanr(x.abs(), y.abs())[0] for x, y in zip(a, b, strict=True)]
    assert likeness(a, b)["rank"] == pytest.approx(expected, abs=1e-5)
    found = likeness(a, -2 * a)
    assert found["rank"] == found["top"] == [1.0] * 4
    assert found["cosine"] == [-1.0] * 4


def test_the_shuffled_cosine_is_the_mean_over_all_shuffles():
    a, b = flat_points(1, 5, seed=1) + 1, flat_points(1, 5, seed=2) + 0.5
    shuffles = torch.tensor(list(permutations(range(5))))
    cosines = torch.cosine_similarity(a.double(), b.double()[0, shuffles])
    assert likeness(a, b)["shuffled"] == pytest.approx([float(cosines.mean())], abs=1e-5)


def test_attributions_that_are_zero_are_like_nothing():
    a = torch.stack([torch.zeros(20), torch.arange(20.0)])
    found = likeness(a, torch.ones(2, 20) + a)
    assert all(numbers[0] is None for numbers in found.values())
    assert found["rank"][1] == 1


def test_the_overlap_of_tops_is_that_of_sets():
    a, b = flat_points(6, 30, seed=1), flat_points(6, 30, seed=2)
    tops = [[set(sorted(range(30), key=lambda i, row=row: -abs(row[i]))[:9]) for row in of.tolist()] for of in (a, b)]
    expected = [len(x & y) / 9 for x, y in zip(*tops, strict=True)]
    assert top_overlap(a, b, share=0.3).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("study", [BASELINE, OUTPUT], ids=["baseline", "output"])
def test_quick_studies_of_photographs(study, photographs, monkeypatch):
    pieces = [piece for piece in study.measurements(photographs) if piece.key.startswith("photographs")]
    assert [piece.key for piece in pieces] == ["photographs a.JPEG"]  # the first by name
    section = study.section({piece.key: piece.compute() for piece in pieces})
    assert "| photographs, " in section and "1 of 32 × 32 pixels" in section
    monkeypatch.setattr(tasks, "NEEDED", ("no_such_package",))
    assert not any(piece.key.startswith("photographs") for piece in study.measurements(photographs))
