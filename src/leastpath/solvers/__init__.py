"""Solvers: one file or one folder each, and one export here."""

from leastpath.solvers.amortized import Amortized as Amortized
from leastpath.solvers.blur import BlurIG as BlurIG
from leastpath.solvers.descent.solver import Descent as Descent, WarmDescent as WarmDescent
from leastpath.solvers.discretized import DiscretizedIG as DiscretizedIG
from leastpath.solvers.elastic.solver import ElasticBand as ElasticBand
from leastpath.solvers.energy.hamiltonian import Hamiltonian as Hamiltonian
from leastpath.solvers.energy.variational import Variational as Variational
from leastpath.solvers.graph.solver import EnhancedIG as EnhancedIG, Graph as Graph, NeighborGraph as NeighborGraph
from leastpath.solvers.guided import GuidedIG as GuidedIG
from leastpath.solvers.manifold.solver import Manifold as Manifold
from leastpath.solvers.ode import GeodesicODE as GeodesicODE
from leastpath.solvers.samp import SAMP as SAMP
from leastpath.solvers.solution import Solution as Solution, Solver as Solver
from leastpath.solvers.spectral import SpectralIG as SpectralIG
from leastpath.solvers.straight import StraightLine as StraightLine
