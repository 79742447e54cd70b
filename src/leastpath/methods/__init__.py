"""Methods: one table, name -> method, of our own methods and those of others.

from leastpath.methods import METHODS
result = METHODS["guided_ig"](score, inputs, baselines)
"""

from leastpath.methods.method import Explained, Method, Methods, Problem, method
from leastpath.methods.smoothing import smooth
from leastpath.methods.table import METHODS, method_of, register

__all__ = ["METHODS", "Explained", "Method", "Methods", "Problem", "method", "method_of", "register", "smooth"]
