"""leastpath: attributions along the path of least resistance.

import leastpath as lp
score = lp.Score(model, target, output="log_softmax")
result = lp.attribute(score, inputs, baselines)
"""

from leastpath._support.version import __version__ as __version__
from leastpath.attribution import Attribution, attribute
from leastpath.integral.integrator import integrate
from leastpath.integral.result import Integral
from leastpath.integral.weightings import IDG, IDGI, AsPrinted, PathIntegral, Weighting
from leastpath.metric import Conformal, DataDensity, Euclidean, Metric, Mixed, NoCancellation, RankOne, Reconstruction
from leastpath.path import Path
from leastpath.run import Run
from leastpath.score import Score
from leastpath.solvers import (
    Amortized,
    BlurIG,
    Descent,
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
    "ElasticBand",
    "EnhancedIG",
    "Euclidean",
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
    "RankOne",
    "Reconstruction",
    "Run",
    "Score",
    "Solution",
    "Solver",
    "Status",
    "StraightLine",
    "Variational",
    "WarmDescent",
    "Weighting",
    "attribute",
    "integrate",
]
