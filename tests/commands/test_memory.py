"""Freed memory is kept: the system maps pages once, and not for every call."""

import platform
import subprocess
import sys

import pytest

from leastpath.commands.memory import keep_freed_memory

LOOP = """
import resource
{first}
def activations():
    blocks = [bytearray(b"x") * 8_000_000 for _ in range(10)]  # as a picture's, freed after every gradient
    while blocks: blocks.pop()
for _ in range(3): activations()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5): activations()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
KEEP = "from leastpath.commands.memory import keep_freed_memory; assert keep_freed_memory()"


def pages(first: str) -> int:
    """How many pages five rounds map, in a process of its own."""
    run = subprocess.run([sys.executable, "-c", LOOP.format(first=first)], check=True, capture_output=True, text=True)
    return int(run.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep memory")
def test_pages_are_mapped_once():
    assert pages(KEEP) < pages("") / 4


def test_other_systems_are_left_as_they_are(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert not keep_freed_memory()
