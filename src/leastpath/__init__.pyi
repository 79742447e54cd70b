"""The public names: this table is read by type checkers, by editors, and by `__init__.py`, which imports them late."""

from leastpath.account.run import Run as Run
from leastpath.attribution import attribute as attribute, every_class as every_class
from leastpath.evaluation.table import MEASURES as MEASURES
from leastpath.explorer import explore as explore
from leastpath.geometry.feature_metrics import Fisher as Fisher, Pullback as Pullback
from leastpath.geometry.metric import (
    Conformal as Conformal,
    DataDensity as DataDensity,
    Euclidean as Euclidean,
    FeatureMetric as FeatureMetric,
    Metric as Metric,
    Mixed as Mixed,
    NoCancellation as NoCancellation,
    RankOne as RankOne,
    Reconstruction as Reconstruction,
)
from leastpath.geometry.path import Path as Path
from leastpath.integral.accuracy import Accuracy as Accuracy, Integral as Integral, Limits as Limits
from leastpath.integral.integrator import integrate as integrate
from leastpath.integral.pieces import (
    IDG as IDG,
    IDGI as IDGI,
    AsPrinted as AsPrinted,
    PathIntegral as PathIntegral,
    Weighting as Weighting,
)
from leastpath.methods import (
    METHODS as METHODS,
    Explained as Explained,
    Method as Method,
    Problem as Problem,
    register as register,
)
from leastpath.removal.referee import Referee as Referee, verdict as verdict
from leastpath.removal.verdict import Judgment as Judgment
from leastpath.result.attribution import Attribution as Attribution, load as load
from leastpath.result.status import Interrupted as Interrupted, Note as Note, Outcome as Outcome, Status as Status
from leastpath.score import baselines as baselines
from leastpath.score.arguments import per_example as per_example, shared as shared
from leastpath.score.baselines import baseline as baseline, several as several
from leastpath.score.estimators import as_function as as_function, as_module as as_module
from leastpath.score.preparation import (
    Preparation as Preparation,
    Prepared as Prepared,
    prepare as prepare,
    prepared as prepared,
)
from leastpath.score.score import Score as Score
from leastpath.solvers import (
    SAMP as SAMP,
    Amortized as Amortized,
    BlurIG as BlurIG,
    Descent as Descent,
    DiscretizedIG as DiscretizedIG,
    ElasticBand as ElasticBand,
    EnhancedIG as EnhancedIG,
    GeodesicODE as GeodesicODE,
    Graph as Graph,
    GuidedIG as GuidedIG,
    Hamiltonian as Hamiltonian,
    Manifold as Manifold,
    NeighborGraph as NeighborGraph,
    Solution as Solution,
    Solver as Solver,
    SpectralIG as SpectralIG,
    StraightLine as StraightLine,
    Variational as Variational,
    WarmDescent as WarmDescent,
)

__version__: str
