"""Jobs: data sets of any size, explained in shards that survive their workers. Needs `leastpath[jobs]`.

from leastpath import jobs
jobs.explain("pictures/", "my_model:load", "integrated_gradients", "explanations", target="predicted")
table = jobs.open("explanations").table()
"""

from leastpath.jobs.driver import explain, run_job
from leastpath.jobs.executors import InProcess, Processes, Ray
from leastpath.jobs.job import Job
from leastpath.jobs.output import Explanations, open
from leastpath.jobs.page import report
from leastpath.jobs.sources import Arrays, Items, Pictures, Rows, Source, Table, source_of

__all__ = [
    "explain",
    "open",
    "report",
    "Explanations",
    "Job",
    "run_job",
    "InProcess",
    "Processes",
    "Ray",
    "Source",
    "Rows",
    "source_of",
    "Table",
    "Arrays",
    "Pictures",
    "Items",
]
