"""The public names of leastpath.jobs, read by type checkers, by editors, and by `__init__.py`."""

from leastpath.jobs.driver import explain as explain
from leastpath.jobs.driver import run_job as run_job
from leastpath.jobs.executors import InProcess as InProcess
from leastpath.jobs.executors import Processes as Processes
from leastpath.jobs.executors import Ray as Ray
from leastpath.jobs.job import Job as Job
from leastpath.jobs.output import Explanations as Explanations
from leastpath.jobs.output import open as open
from leastpath.jobs.page import report as report
from leastpath.jobs.sources import Arrays as Arrays
from leastpath.jobs.sources import Items as Items
from leastpath.jobs.sources import Pictures as Pictures
from leastpath.jobs.sources import Rows as Rows
from leastpath.jobs.sources import Source as Source
from leastpath.jobs.sources import Table as Table
from leastpath.jobs.sources import source_of as source_of
