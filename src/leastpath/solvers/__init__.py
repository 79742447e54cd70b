"""Solvers: one file each."""

from leastpath.solution import Solution, Solver
from leastpath.solvers.graph import EnhancedIG, Graph, NeighborGraph
from leastpath.solvers.straight import StraightLine

__all__ = ["EnhancedIG", "Graph", "NeighborGraph", "Solution", "Solver", "StraightLine"]
