"""leastpath: attributions along the path of least resistance.

import leastpath as lp
score = lp.Score(model, target, output="log_softmax")
result = lp.attribute(score, inputs, baselines)
"""

from leastpath.attribution import Attribution, attribute
from leastpath.integral.integrator import integrate
from leastpath.integral.pieces import PathIntegral, Weighting
from leastpath.integral.refinement import Integral
from leastpath.integral.weightings import IDG, IDGI, AsPrinted
from leastpath.metric import Conformal, DataDensity, Euclidean, Metric, Mixed, NoCancellation, RankOne, Reconstruction
from leastpath.path import Path
from leastpath.run import Run
from leastpath.score import Score
from leastpath.solvers import (
    VAE,
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
from leastpath.status import Note, Outcome, Status

__version__ = "0.1.0"

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
    "VAE",
    "Variational",
    "WarmDescent",
    "Weighting",
    "attribute",
    "integrate",
]
