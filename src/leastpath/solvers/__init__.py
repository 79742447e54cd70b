"""Solvers: one file each."""

from leastpath.solvers.base import Solution, Solver
from leastpath.solvers.straight import StraightLine

__all__ = ["Solution", "Solver", "StraightLine"]
