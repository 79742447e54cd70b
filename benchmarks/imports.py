"""What importing takes: leastpath, with every public name in use, over PyTorch alone; and the command's help pages.

    python benchmarks/imports.py [--repeats 7]

Each import is a process of its own. They take turns in every repeat, and ratios are formed within a repeat. Times are
CPU times of the process, without Python's own start, and with files compiled before, as an installed package has them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import numpy as np

EVERY_NAME = "import leastpath; [getattr(leastpath, name) for name in leastpath.__all__]"
HELP = (
    "import sys; sys.argv = {words!r}; from leastpath.commands.cli import main\n"
    "try: main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
)
CASES = {
    "python alone": "pass",
    "import torch": "import torch",
    "import leastpath": "import leastpath",
    "every public name": EVERY_NAME,
    "leastpath --help": HELP.format(words=["leastpath", "--help"]),
    "leastpath explain --help": HELP.format(words=["leastpath", "explain", "--help"]),
}


def seconds(code: str) -> float:
    """CPU seconds of a process that runs `code`."""
    compiled = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=compiled)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    for code in CASES.values():  # reads and compiles every file once
        seconds(code)
    times = np.array([[seconds(code) for code in CASES.values()] for _ in range(repeats)])
    times = times[:, 1:] - times[:, :1]
    for name, taken in zip(list(CASES)[1:], times.T, strict=True):
        extra, ratio = np.median(taken - times[:, 0]), np.median(taken / times[:, 0])
        print(f"{name:26s} {np.median(taken):5.2f} s, {ratio:5.2f} × import torch ({extra:+.2f} s)")


if __name__ == "__main__":
    main()
