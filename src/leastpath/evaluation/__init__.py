"""Measures of how good attributions are, whatever method made them, and `compare`, which compares methods."""

from leastpath.evaluation.axioms import Asymmetry, Cancellation, Certificate, CompletenessGap
from leastpath.evaluation.ceiling import NearOptimalRemoval
from leastpath.evaluation.comparison import Comparison
from leastpath.evaluation.fine_tuning import FineTunedFidelity, fine_tune
from leastpath.evaluation.ground_truth import (
    KnownAnswers,
    Localization,
    Planted,
    RankCorrelation,
    planted_cancellation,
    planted_patch,
    planted_piecewise,
)
from leastpath.evaluation.magnitude import MagnitudeAlignedDeletion, MagnitudeAlignedInsertion
from leastpath.evaluation.masking import (
    FULL_AREAS,
    PAPER_AREAS,
    AbsoluteChange,
    Comprehensiveness,
    Deletion,
    Insertion,
    LogOdds,
    LogProbRatio,
    MaskedScores,
    Masking,
    Sufficiency,
)
from leastpath.evaluation.measure import Measure, Measured, given_attribution, measure_all
from leastpath.evaluation.pairs import compare
from leastpath.evaluation.profiles import profile_paths, score_plane, scores_along, try_baselines
from leastpath.evaluation.purity import auc_purity, purity, purity_of
from leastpath.evaluation.randomization import ModelRandomization, randomize
from leastpath.evaluation.robustness import AttackRobustness, Infidelity, MaxSensitivity, NoiseRobustness
from leastpath.evaluation.statistics import Interval, PairedTest, bootstrap_interval, holm, paired_test, trapezoid
from leastpath.evaluation.support import SymmetricRelevanceGain, symmetric_relevance_gain
from leastpath.evaluation.table import MEASURES, Measures, register
from leastpath.removal.curves import Blur, NoisyLinear, Samples

__all__ = [
    "compare", "Comparison", "MEASURES", "Measures", "register", "Measure", "Measured", "measure_all",
    "given_attribution",
    "Masking", "MaskedScores", "PAPER_AREAS", "FULL_AREAS",
    "Comprehensiveness", "Sufficiency", "AbsoluteChange", "LogOdds", "LogProbRatio", "Insertion", "Deletion",
    "MagnitudeAlignedInsertion", "MagnitudeAlignedDeletion", "NearOptimalRemoval",
    "FineTunedFidelity", "fine_tune", "ModelRandomization", "randomize",
    "symmetric_relevance_gain", "SymmetricRelevanceGain", "Blur", "NoisyLinear", "Samples",
    "Infidelity", "MaxSensitivity", "NoiseRobustness", "AttackRobustness",
    "Localization", "RankCorrelation", "KnownAnswers", "Planted",
    "planted_patch", "planted_cancellation", "planted_piecewise",
    "CompletenessGap", "Cancellation", "Certificate", "Asymmetry", "purity", "purity_of", "auc_purity",
    "profile_paths", "scores_along", "score_plane", "try_baselines",
    "bootstrap_interval", "Interval", "paired_test", "PairedTest", "holm", "trapezoid",
]  # fmt: skip
