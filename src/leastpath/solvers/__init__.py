"""Solvers: one file each."""

from leastpath.solution import Solution, Solver
from leastpath.solvers.graph import EnhancedIG, Graph, NeighborGraph
from leastpath.solvers.ode import GeodesicODE
from leastpath.solvers.straight import StraightLine

__all__ = ["EnhancedIG", "GeodesicODE", "Graph", "NeighborGraph", "Solution", "Solver", "StraightLine"]
