"""Methods: one table, name -> method, of our own methods and those of others.

from leastpath.methods import METHODS
result = METHODS["guided_ig"](score, inputs, baselines)
"""

from leastpath.methods.method import Method, Methods, UnknownMethod
from leastpath.methods.smoothing import smooth
from leastpath.methods.table import METHODS, register

__all__ = ["METHODS", "Method", "Methods", "UnknownMethod", "register", "smooth"]
