"""Jobs: data sets of any size, explained in shards that survive their workers. Needs `leastpath[jobs]`.

from leastpath import jobs
jobs.explain("pictures/", "my_model:load", "integrated_gradients", "explanations", target="predicted")
table = jobs.open("explanations").table()
"""

from leastpath._support.lazy import late_names

__getattr__, __dir__, __all__ = late_names(__name__, __file__)
