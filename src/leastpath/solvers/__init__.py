"""Solvers: one file each."""

from leastpath.solvers.amortized import Amortized
from leastpath.solvers.blur import BlurIG
from leastpath.solvers.descent.solver import Descent, WarmDescent
from leastpath.solvers.discretized import DiscretizedIG
from leastpath.solvers.elastic.solver import ElasticBand
from leastpath.solvers.energy.hamiltonian import Hamiltonian
from leastpath.solvers.energy.variational import Variational
from leastpath.solvers.graph.solver import EnhancedIG, Graph, NeighborGraph
from leastpath.solvers.guided import GuidedIG
from leastpath.solvers.manifold.solver import Manifold
from leastpath.solvers.ode import GeodesicODE
from leastpath.solvers.samp import SAMP
from leastpath.solvers.solution import Solution, Solver
from leastpath.solvers.spectral import SpectralIG
from leastpath.solvers.straight import StraightLine

__all__ = [
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
    "SAMP",
    "Solution",
    "Solver",
    "SpectralIG",
    "StraightLine",
    "Variational",
    "WarmDescent",
]
