"""Repeated work leaves nothing behind: memory, files and threads are flat. `python -m resources` repeats it more."""

import warnings
from pathlib import Path

import pytest

from resources.repeat import WORK, repeat

for library in ("matplotlib", "safetensors", "pyarrow", "transformers"):
    pytest.importorskip(library)

TIMES = {"pages": 11, "figures": 3, "prompts": 3, "jobs": 3}  # pages: past the tenth figure, at which pixels are freed


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("name", WORK)
def test_repeated_work_leaves_nothing_behind(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left = repeat(WORK[name], TIMES.get(name, 5))
    assert left.files <= 0 and left.threads <= 0
    assert left.megabytes < 8
