"""Jobs: data sets of any size, explained in shards that survive their workers. Needs `leastpath[jobs]`.

from leastpath import jobs
jobs.explain("pictures/", "my_model:load", "integrated_gradients", "explanations", target="predicted")
table = jobs.open("explanations").table()
"""

from typing import TYPE_CHECKING

from leastpath._support.lazy import lazy

if TYPE_CHECKING:  # the same names for type checkers and editors
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

# Imported when they are first used: `leastpath run --help` needs no PyTorch.
if not TYPE_CHECKING:  # or any name would pass for a public one
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "leastpath.jobs.driver": ["explain", "run_job"],
            "leastpath.jobs.executors": ["InProcess", "Processes", "Ray"],
            "leastpath.jobs.job": ["Job"],
            "leastpath.jobs.output": ["Explanations", "open"],
            "leastpath.jobs.page": ["report"],
            "leastpath.jobs.sources": ["Arrays", "Items", "Pictures", "Rows", "Source", "Table", "source_of"],
        },
    )
