"""The public names: this table is read by type checkers, by editors, and by `__init__.py`, which imports them late."""

from leastpath.account.run import Run as Run
from leastpath.attribution import attribute as attribute
from leastpath.explorer import explore as explore
from leastpath.geometry.feature_metrics import Fisher as Fisher
from leastpath.geometry.feature_metrics import Pullback as Pullback
from leastpath.geometry.metric import (
    Conformal as Conformal,
)
from leastpath.geometry.metric import (
    DataDensity as DataDensity,
)
from leastpath.geometry.metric import (
    Euclidean as Euclidean,
)
from leastpath.geometry.metric import (
    FeatureMetric as FeatureMetric,
)
from leastpath.geometry.metric import (
    Metric as Metric,
)
from leastpath.geometry.metric import (
    Mixed as Mixed,
)
from leastpath.geometry.metric import (
    NoCancellation as NoCancellation,
)
from leastpath.geometry.metric import (
    RankOne as RankOne,
)
from leastpath.geometry.metric import (
    Reconstruction as Reconstruction,
)
from leastpath.geometry.path import Path as Path
from leastpath.integral.accuracy import Accuracy as Accuracy
from leastpath.integral.accuracy import Integral as Integral
from leastpath.integral.accuracy import Limits as Limits
from leastpath.integral.integrator import integrate as integrate
from leastpath.integral.pieces import IDG as IDG
from leastpath.integral.pieces import IDGI as IDGI
from leastpath.integral.pieces import AsPrinted as AsPrinted
from leastpath.integral.pieces import PathIntegral as PathIntegral
from leastpath.integral.pieces import Weighting as Weighting
from leastpath.methods import (
    METHODS as METHODS,
)
from leastpath.methods import (
    Explained as Explained,
)
from leastpath.methods import (
    Method as Method,
)
from leastpath.methods import (
    Problem as Problem,
)
from leastpath.methods import (
    register as register,
)
from leastpath.removal.judge import Judgment as Judgment
from leastpath.removal.judge import verdict as verdict
from leastpath.result.attribution import Attribution as Attribution
from leastpath.result.attribution import load as load
from leastpath.result.status import Interrupted as Interrupted
from leastpath.result.status import Note as Note
from leastpath.result.status import Outcome as Outcome
from leastpath.result.status import Status as Status
from leastpath.score import baselines as baselines
from leastpath.score.arguments import per_example as per_example
from leastpath.score.arguments import shared as shared
from leastpath.score.baselines import baseline as baseline
from leastpath.score.baselines import several as several
from leastpath.score.estimators import as_function as as_function
from leastpath.score.estimators import as_module as as_module
from leastpath.score.preparation import Preparation as Preparation
from leastpath.score.preparation import Prepared as Prepared
from leastpath.score.preparation import prepare as prepare
from leastpath.score.preparation import prepared as prepared
from leastpath.score.score import Score as Score
from leastpath.solvers import (
    SAMP as SAMP,
)
from leastpath.solvers import (
    Amortized as Amortized,
)
from leastpath.solvers import (
    BlurIG as BlurIG,
)
from leastpath.solvers import (
    Descent as Descent,
)
from leastpath.solvers import (
    DiscretizedIG as DiscretizedIG,
)
from leastpath.solvers import (
    ElasticBand as ElasticBand,
)
from leastpath.solvers import (
    EnhancedIG as EnhancedIG,
)
from leastpath.solvers import (
    GeodesicODE as GeodesicODE,
)
from leastpath.solvers import (
    Graph as Graph,
)
from leastpath.solvers import (
    GuidedIG as GuidedIG,
)
from leastpath.solvers import (
    Hamiltonian as Hamiltonian,
)
from leastpath.solvers import (
    Manifold as Manifold,
)
from leastpath.solvers import (
    NeighborGraph as NeighborGraph,
)
from leastpath.solvers import (
    Solution as Solution,
)
from leastpath.solvers import (
    Solver as Solver,
)
from leastpath.solvers import (
    SpectralIG as SpectralIG,
)
from leastpath.solvers import (
    StraightLine as StraightLine,
)
from leastpath.solvers import (
    Variational as Variational,
)
from leastpath.solvers import (
    WarmDescent as WarmDescent,
)

__version__: str
