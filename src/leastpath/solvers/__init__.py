"""Solvers: one file each."""

from leastpath.solution import Solution, Solver
from leastpath.solvers.amortized import Amortized
from leastpath.solvers.blur import BlurIG
from leastpath.solvers.descent import Descent
from leastpath.solvers.graph import EnhancedIG, Graph, NeighborGraph
from leastpath.solvers.guided import GuidedIG
from leastpath.solvers.hamiltonian import Hamiltonian
from leastpath.solvers.manifold import Manifold
from leastpath.solvers.ode import GeodesicODE
from leastpath.solvers.straight import StraightLine
from leastpath.solvers.vae import VAE
from leastpath.solvers.variational import Variational
from leastpath.solvers.warm import WarmDescent

__all__ = [
    "Amortized",
    "BlurIG",
    "Descent",
    "EnhancedIG",
    "GeodesicODE",
    "Graph",
    "GuidedIG",
    "Hamiltonian",
    "Manifold",
    "NeighborGraph",
    "Solution",
    "Solver",
    "StraightLine",
    "VAE",
    "Variational",
    "WarmDescent",
]
