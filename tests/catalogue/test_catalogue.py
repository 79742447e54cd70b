"""Every case of the catalogue has its expected outcome, and every public name has a case."""

import warnings
from collections import Counter

import pytest

import leastpath as lp
from catalogue import calls, inputs, settings
from leastpath import evaluation, methods, report

CASES = [*settings.cases(), *inputs.cases(), *calls.cases()]
NUMPY = dict(settings.numpy_numbers())

# Names that carry something else, and are covered where that is.
WITHOUT_CASES = {
    "evaluation.Comparison": "what compare returns",
    "evaluation.Measure": "a protocol without checks",
    "evaluation.MEASURES": "tests/evaluation/test_table.py",
    "MEASURES": "tests/evaluation/test_table.py",
    "evaluation.Measures": "what MEASURES is",
    "evaluation.register": "tests/evaluation/test_table.py",
    "evaluation.Measured": "what measures return",
    "FeatureMetric": "what a metric of one's own derives from, tests/test_feature_metrics.py",
    "Explained": "what a method returns",
    "Problem": "what a method is asked",
    "Method": "tests/methods/test_method.py",
    "baselines": "the module of baselines",
    "prepared": "the old name of prepare",
    "methods.Explained": "what a method returns",
    "methods.Problem": "what a method is asked",
    "methods.method": "tests/methods/test_method.py",
    "Judgment": "what verdict returns",
    "every_class": "tests/test_attribution.py",
    "Preparation": "what prepare reports",
    "Prepared": "what prepare returns",
    "evaluation.AbsoluteChange": "its Masking is a case",
    "evaluation.MagnitudeAlignedInsertion": "its Masking is a case",
    "evaluation.MagnitudeAlignedDeletion": "its Masking is a case",
    "evaluation.fine_tune": "tests/evaluation/test_fine_tuning.py",
    "evaluation.randomize": "tests/evaluation/test_randomization.py",
    "evaluation.MaskedScores": "what Masking returns",
    "evaluation.PAPER_AREAS": "numbers",
    "evaluation.FULL_AREAS": "numbers",
    "evaluation.Localization": "tests/evaluation/test_ground_truth.py",
    "evaluation.RankCorrelation": "tests/evaluation/test_ground_truth.py",
    "evaluation.KnownAnswers": "tests/evaluation/test_ground_truth.py",
    "evaluation.Planted": "what planted_patch returns",
    "evaluation.Asymmetry": "tests/evaluation/test_axioms.py",
    "evaluation.profile_paths": "tests/evaluation/test_profiles.py",
    "evaluation.scores_along": "tests/evaluation/test_profiles.py",
    "evaluation.score_plane": "tests/evaluation/test_profiles.py",
    "evaluation.try_baselines": "tests/evaluation/test_profiles.py",
    "evaluation.Interval": "what bootstrap_interval returns",
    "evaluation.PairedTest": "what paired_test returns",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the libraries say about sparse, nested and quantised tensors
        case.expects.holds_for(case.call)


@pytest.mark.parametrize("make", NUMPY.values(), ids=NUMPY)
def test_numbers_of_numpy_are_numbers(make):
    make()


def test_every_public_name_has_a_case():
    public = [
        *lp.__all__,
        *(
            f"{module.__name__.removeprefix('leastpath.')}.{name}"
            for module in (evaluation, methods, report)
            for name in module.__all__
        ),
    ]
    groups = {case.group for case in CASES} | {"methods.METHODS"}
    assert [name for name in public if name not in groups and name not in WITHOUT_CASES] == []
    assert [
        name for name in WITHOUT_CASES if name not in public or name in groups
    ] == []  # no exemption outlives its need


def test_no_case_is_written_twice_and_there_are_enough():
    assert [name for name, times in Counter(case.id for case in CASES).items() if times > 1] == []
    assert len(CASES) >= 500
