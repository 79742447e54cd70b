"""One round of each fault that jobs and the explorer are soaked with. `python -m faults --minutes 60` soaks longer.

Oracle: an undisturbed job, and the first answer to the same question.
"""

import importlib
import random
import sys

import pytest

for library in ("pyarrow", "safetensors", "starlette"):
    pytest.importorskip(library)
if not sys.platform.startswith("linux"):
    pytest.skip("fork, kill -9 and /proc", allow_module_level=True)
soak = importlib.import_module("faults.soak")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_jobs_lose_and_repeat_no_row():
    tally = soak.soak_jobs(lambda rounds: rounds == len(soak.OF_JOBS))
    assert set(tally.faults) == set(soak.OF_JOBS)
    assert (tally.lost, tally.double, tally.wrong) == (0, 0, 0), tally


def test_the_explorer_answers_what_is_asked():
    tally = soak.soak_explorer(lambda rounds: rounds == 2 * len(soak.OF_EXPLORER))
    assert set(tally.faults) == set(soak.OF_EXPLORER)
    assert (tally.lost, tally.double, tally.wrong) == (0, 0, 0), tally


def test_a_tally_counts_growth_after_the_first_quarter():
    tally = soak.Tally(sizes=[0.0] * 10 + [100.0] * 10 + [101.0] * 20)
    assert tally.growth == 1.0 and tally.ok
    assert not soak.Tally(lost=1).ok and not soak.Tally(sizes=list(map(float, range(100)))).ok


def test_a_clock_that_is_set_back_is_right_again_afterwards():
    before = soak.time.time()
    with soak.clock_back(0.0):
        assert soak.time.time() < before - 3000
    assert soak.time.time() >= before
    soak.kill_one(random.Random(0))  # nobody to kill
