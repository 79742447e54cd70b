"""The table of measures: names that follow from classes, measures made for a kind of input, and those of others."""

from dataclasses import dataclass
from typing import get_args

import pytest
import torch

import leastpath as lp
from leastpath import evaluation
from leastpath.evaluation import MEASURES, Comprehensiveness, Measure, Measured, compare, register
from leastpath.evaluation.measure import column_of
from leastpath.features.groups import Kind

NEEDED = {
    "judge": torch.nn.Linear(2, 2), "answer": torch.tensor([True, False]), "pairs": ((0, 1),),
}  # fmt: skip


@dataclass(frozen=True)
class LargestShare:
    """The share of the largest attribution. Higher is better."""

    name: str = "largest_share"
    higher_is_better: bool = True

    def __call__(self, score, inputs, baselines, result, *, seed=0):
        size = result.values.abs().flatten(1)
        return Measured.of(size.amax(1) / size.sum(1))


@pytest.fixture
def restored():
    """The table as it was: a test adds to the one that all share."""
    before = dict(MEASURES)
    yield
    MEASURES._things = before


@pytest.mark.parametrize("name", sorted(MEASURES.built_in))
def test_the_column_and_the_class_are_called_alike(name):
    made = MEASURES[name](**{needed: NEEDED[needed] for needed in MEASURES.needs(name)})
    assert isinstance(made, Measure) and column_of(MEASURES[name]) == name
    assert made.name == ("localization_mass" if name == "localization" else name)
    assert getattr(evaluation, MEASURES[name].__name__) is MEASURES[name]


@pytest.mark.parametrize("name", sorted(MEASURES.built_in))
def test_every_measure_says_what_it_is_and_what_it_fits(name):
    assert 5 < len(MEASURES.summary(name)) < 120 and MEASURES.summary(name).endswith(".")
    assert set(MEASURES.fits(name)) <= set(get_args(Kind)) and MEASURES.fits(name)
    assert name in repr(MEASURES) and MEASURES.summary(name) in repr(MEASURES)


def test_every_public_measure_is_in_the_table():
    classes = [getattr(evaluation, name) for name in evaluation.__all__]
    measures = [c for c in classes if isinstance(c, type) and hasattr(c, "higher_is_better") and c is not Measure]
    assert {column_of(measure) for measure in measures} == MEASURES.built_in


def test_measures_over_one_masking_share_it():
    deletion, insertion = (MEASURES.make(name, "image", fill="blur") for name in ("deletion", "insertion"))
    assert deletion.masking is insertion.masking
    assert (deletion.masking.groups, deletion.masking.fill) == ("pixels", "blur")
    assert MEASURES.make("symmetric_relevance_gain", "image").groups == "patches"
    assert MEASURES.make("symmetric_relevance_gain", "tokens").groups == "tokens"
    assert MEASURES.make("infidelity", "table", normalize=True).normalize


def test_what_does_not_fit_or_is_missing_is_said():
    with pytest.raises(ValueError, match="noise_robustness is for inputs of kind image, and this is table"):
        MEASURES.make("noise_robustness", "table")
    with pytest.raises(ValueError, match=r"localization needs answer: make it by Localization\(answer=…\)"):
        MEASURES.make("localization", "image")
    with pytest.raises(ValueError, match="no measure is called 'beauty'"):
        MEASURES["beauty"]


def test_names_in_compare_are_what_the_classes_make():
    score, x = lp.Score(lambda x: x @ torch.tensor([[1.0, 0.0], [2.0, 0.5], [0.0, 1.0]]), 0), torch.rand(2, 3)
    by_name = compare(["random"], score, x, None, ["comprehensiveness", "cancellation"])
    by_class = compare(["random"], score, x, None, [Comprehensiveness(), MEASURES["cancellation"]()])
    columns = ["comprehensiveness", "cancellation"]
    assert by_name.per_example[columns].equals(by_class.per_example[columns])
    with pytest.raises(ValueError, match="is not a list"):
        compare(["random"], score, x, None, "deletion")


@pytest.mark.usefixtures("restored")
def test_a_registered_measure_is_compared_by_its_name():
    assert register(LargestShare) is LargestShare
    score, x = lp.Score(lambda x: x.sum(1)), torch.rand(2, 3)
    found = compare([lp.StraightLine()], score, x, None, ["largest_share"])
    assert (found.per_example["largest_share"] >= 1 / 3).all()
    assert MEASURES.summary("largest_share") == "The share of the largest attribution."
    assert MEASURES.fits("largest_share") == get_args(Kind)


@pytest.mark.usefixtures("restored")
def test_what_cannot_be_registered():
    with pytest.raises(ValueError, match="register the class, not one of its objects"):
        register(LargestShare())
    with pytest.raises(ValueError, match="give it higher_is_better, True or False"):
        register(type("Silent", (), {"__call__": lambda self: None}))
    with pytest.raises(ValueError, match="fills a column 'largest_share', and is called 'other_name'"):
        register(type("OtherName", (LargestShare,), {}))
    with pytest.raises(ValueError, match="'deletion' is a measure of leastpath itself"):
        register(type("Deletion", (LargestShare,), {"name": "deletion"}))


@pytest.mark.usefixtures("restored")
def test_an_installed_package_joins_by_its_entry_point(tmp_path, monkeypatch):
    info = tmp_path / "beauty-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: beauty\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[leastpath.measures]\nbeauty = beauty_measures:Beauty\nodd = beauty_measures:gone\n"
    )
    (tmp_path / "beauty_measures.py").write_text(
        "class Beauty:\n    '''How fine it looks.'''\n    name = 'beauty'\n    higher_is_better = True\n"
        "    def __call__(self, score, inputs, baselines, result, *, seed=0):\n        return None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match="the measure 'odd' of beauty is left out"):
        assert MEASURES["beauty"].__name__ == "Beauty"
    assert "beauty" in list(MEASURES) and MEASURES.summary("beauty") == "How fine it looks."
