"""leastpath: attributions along the path of least resistance.

import leastpath as lp
score = lp.Score(model, target, output="log_softmax")
result = lp.attribute(score, inputs, baselines)
"""

from leastpath._support.lazy import late_names
from leastpath._support.version import __version__ as __version__

# Imported when they are first used: `leastpath --help` needs no PyTorch. `__init__.pyi` is the table of names.
__getattr__, __dir__, __all__ = late_names(__name__, __file__)
