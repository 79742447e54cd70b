"""leastpath: attributions along the path of least resistance.

import leastpath as lp
score = lp.Score(model, target, output="log_softmax")
result = lp.attribute(score, inputs, baselines)
"""

from typing import TYPE_CHECKING

from leastpath._support.lazy import lazy
from leastpath._support.version import __version__ as __version__

if TYPE_CHECKING:  # the same names for type checkers and editors
    from leastpath.arguments import per_example, shared
    from leastpath.attribution import Attribution, attribute, load
    from leastpath.explorer import explore
    from leastpath.feature_metrics import Fisher, Pullback
    from leastpath.integral.integrator import integrate
    from leastpath.integral.result import Integral
    from leastpath.integral.weightings import IDG, IDGI, AsPrinted, PathIntegral, Weighting
    from leastpath.metric import (
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
    from leastpath.path import Path
    from leastpath.preparation import Preparation, Prepared, prepared
    from leastpath.run import Run
    from leastpath.score import Score
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
    from leastpath.status import Interrupted, Note, Outcome, Status

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
            "leastpath.arguments": ["per_example", "shared"],
            "leastpath.attribution": ["Attribution", "attribute", "load"],
            "leastpath.explorer": ["explore"],
            "leastpath.feature_metrics": ["Fisher", "Pullback"],
            "leastpath.integral.integrator": ["integrate"],
            "leastpath.integral.result": ["Integral"],
            "leastpath.integral.weightings": ["IDG", "IDGI", "AsPrinted", "PathIntegral", "Weighting"],
            "leastpath.metric": [
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
            "leastpath.path": ["Path"],
            "leastpath.preparation": ["Preparation", "Prepared", "prepared"],
            "leastpath.run": ["Run"],
            "leastpath.score": ["Score"],
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
            "leastpath.status": ["Note", "Outcome", "Status", "Interrupted"],
        },
    )
