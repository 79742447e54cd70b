"""leastpath: attributions along the path of least resistance.

import leastpath as lp
score = lp.Score(model, target, output="log_softmax")
result = lp.attribute(score, inputs, baselines)
"""

from typing import TYPE_CHECKING

from leastpath._support.lazy import lazy
from leastpath._support.version import __version__ as __version__

if TYPE_CHECKING:  # the same names for type checkers and editors
    from leastpath.account.run import Run
    from leastpath.attribution import attribute
    from leastpath.explorer import explore
    from leastpath.geometry.feature_metrics import Fisher, Pullback
    from leastpath.geometry.metric import (
        Conformal,
        DataDensity,
        Euclidean,
        FeatureMetric,
        Metric,
        Mixed,
        NoCancellation,
        RankOne,
        Reconstruction,
    )
    from leastpath.geometry.path import Path
    from leastpath.integral.integrator import integrate
    from leastpath.integral.result import Integral
    from leastpath.integral.weightings import IDG, IDGI, AsPrinted, PathIntegral, Weighting
    from leastpath.result.attribution import Attribution, load
    from leastpath.result.status import Interrupted, Note, Outcome, Status
    from leastpath.score import baselines as baselines
    from leastpath.score.arguments import per_example, shared
    from leastpath.score.preparation import Preparation, Prepared, prepared
    from leastpath.score.score import Score
    from leastpath.solvers import (
        SAMP,
        Amortized,
        BlurIG,
        Descent,
        DiscretizedIG,
        ElasticBand,
        EnhancedIG,
        GeodesicODE,
        Graph,
        GuidedIG,
        Hamiltonian,
        Manifold,
        NeighborGraph,
        Solution,
        Solver,
        SpectralIG,
        StraightLine,
        Variational,
        WarmDescent,
    )

__all__ = [
    "Amortized",
    "AsPrinted",
    "Attribution",
    "BlurIG",
    "Conformal",
    "DataDensity",
    "Descent",
    "DiscretizedIG",
    "ElasticBand",
    "EnhancedIG",
    "Euclidean",
    "FeatureMetric",
    "Fisher",
    "GeodesicODE",
    "Graph",
    "GuidedIG",
    "Hamiltonian",
    "IDG",
    "IDGI",
    "Integral",
    "Interrupted",
    "Manifold",
    "Metric",
    "Mixed",
    "NeighborGraph",
    "NoCancellation",
    "Note",
    "Outcome",
    "Path",
    "PathIntegral",
    "Preparation",
    "Prepared",
    "Pullback",
    "RankOne",
    "Reconstruction",
    "Run",
    "SAMP",
    "Score",
    "Solution",
    "Solver",
    "SpectralIG",
    "Status",
    "StraightLine",
    "Variational",
    "WarmDescent",
    "Weighting",
    "attribute",
    "explore",
    "integrate",
    "load",
    "per_example",
    "prepared",
    "shared",
]

# Imported when they are first used: `leastpath --help` needs no PyTorch.
if not TYPE_CHECKING:  # or any name would pass for a public one
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "leastpath.score.arguments": ["per_example", "shared"],
            "leastpath.attribution": ["attribute"],
            "leastpath.result.attribution": ["Attribution", "load"],
            "leastpath.explorer": ["explore"],
            "leastpath.geometry.feature_metrics": ["Fisher", "Pullback"],
            "leastpath.integral.integrator": ["integrate"],
            "leastpath.integral.result": ["Integral"],
            "leastpath.integral.weightings": ["IDG", "IDGI", "AsPrinted", "PathIntegral", "Weighting"],
            "leastpath.geometry.metric": [
                "Conformal",
                "DataDensity",
                "Euclidean",
                "Metric",
                "Mixed",
                "NoCancellation",
                "RankOne",
                "Reconstruction",
                "FeatureMetric",
            ],
            "leastpath.geometry.path": ["Path"],
            "leastpath.score.preparation": ["Preparation", "Prepared", "prepared"],
            "leastpath.account.run": ["Run"],
            "leastpath.score": ["baselines"],
            "leastpath.score.score": ["Score"],
            "leastpath.solvers": [
                "SAMP",
                "Amortized",
                "BlurIG",
                "Descent",
                "DiscretizedIG",
                "ElasticBand",
                "EnhancedIG",
                "GeodesicODE",
                "Graph",
                "GuidedIG",
                "Hamiltonian",
                "Manifold",
                "NeighborGraph",
                "Solution",
                "Solver",
                "SpectralIG",
                "StraightLine",
                "Variational",
                "WarmDescent",
            ],
            "leastpath.result.status": ["Note", "Outcome", "Status", "Interrupted"],
        },
    )
