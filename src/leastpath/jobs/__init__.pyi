"""The public names of leastpath.jobs, read by type checkers, by editors, and by `__init__.py`."""

from leastpath.jobs.driver import explain as explain, run_job as run_job
from leastpath.jobs.executors import InProcess as InProcess, Processes as Processes, Ray as Ray
from leastpath.jobs.job import Job as Job
from leastpath.jobs.output import Explanations as Explanations, open as open
from leastpath.jobs.page import report as report
from leastpath.jobs.sources import (
    Arrays as Arrays,
    Items as Items,
    Pictures as Pictures,
    Rows as Rows,
    Source as Source,
    Table as Table,
    source_of as source_of,
)
