"""Walk: which files of leastpath one call runs through, in the order in which a reader meets them.

    python tools/walk.py                       # lp.attribute(score, x, 0.0, method=lp.ElasticBand()), four features
    python tools/walk.py --method staircase    # a method of the table by its name, on a small image
    python tools/walk.py --functions           # the walk itself: each entry, with the functions that are met in it

The call is made twice and the second one is traced, so that imports are not counted. Before that the caches of the
package are emptied, because an answer that is remembered would hide the file that it came from.

What "entered" means. Somebody who follows the call reads every function once: where it is first called. So the walk
is the list of functions in the order of their first calls. Only functions that a file offers to others count: those
without a leading underscore, and special methods such as `__init__`; no private ones, no lambdas and no functions
inside functions. Functions of one file that follow each other in this list are one entry into that file. A loop that
goes to and fro between two files therefore counts once, and a file that is left and needed again for something new
counts again.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

import leastpath as lp

ROOT = Path(lp.__file__).parent
MOST_ENTRIES = 3  # more than this is marked
TAKES_METHOD = "method" in inspect.signature(lp.attribute).parameters  # before, the keyword was `solver`


def on_a_vector(method: Any) -> Callable[[], Any]:
    """A call that explains a small network of four features."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3)).eval()
    score, x = lp.Score(model, 0, "softmax"), torch.randn(1, 4)
    keyword = "method" if TAKES_METHOD else "solver"
    return lambda: lp.attribute(score, x, 0.0, **{keyword: method()})


def on_an_image(name: str) -> Callable[[], Any]:
    """A call of a method by its name that explains a small convolutional network."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 3)).eval()
    score, x = lp.Score(model, 0, "softmax"), torch.rand(1, 3, 16, 16)
    if TAKES_METHOD:
        return lambda: lp.attribute(score, x, 0.0, method=name)
    from leastpath.methods import METHODS

    return lambda: METHODS[name](score, x, 0.0)


def empty_caches() -> None:
    """Forget what functions of the package remember from earlier calls."""
    for name, module in list(sys.modules.items()):
        if name.startswith("leastpath"):
            for thing in list(vars(module).values()):
                clear = getattr(thing, "cache_clear", None)
                if callable(clear) and not isinstance(thing, type):
                    clear()


def traced(call: Callable[[], Any]) -> list[CodeType]:
    """The functions of the package in the order in which the second of two calls first runs them."""
    call()
    empty_caches()
    met: dict[CodeType, None] = {}
    inside = f"{ROOT}/"

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(inside):
            met.setdefault(frame.f_code)

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(met)


def is_offered(function: CodeType) -> bool:
    """Whether other files may call it: not private, and not inside another function."""
    name = function.co_name
    private = name.startswith("_") and not (name.startswith("__") and name.endswith("__"))
    return not private and not name.startswith("<") and "<locals>" not in function.co_qualname


def file_of(function: CodeType) -> str:
    """The function's file below the package."""
    return str(Path(function.co_filename).relative_to(ROOT))


def entries_of(met: list[CodeType]) -> list[tuple[str, list[str]]]:
    """The walk: each entry as the file and the functions that are met there before another file comes."""
    offered = [function for function in met if is_offered(function)]
    return [(file, [function.co_qualname for function in some]) for file, some in groupby(offered, file_of)]


def print_files(met: list[CodeType]) -> None:
    """The number of files and their lines, and how often each is entered, in the order in which they are met."""
    files = list(dict.fromkeys(map(file_of, met)))
    lines = {file: len((ROOT / file).read_text().splitlines()) for file in files}
    entered = Counter(file for file, _ in entries_of(met))
    often = sum(count > MOST_ENTRIES for count in entered.values())
    print(f"{len(files)} files of {sum(lines.values())} lines; {often} are entered more than {MOST_ENTRIES} times\n")
    width = max(map(len, files))
    print(f"{'met':>3}  {'file':<{width}}  {'lines':>5}  {'entered':>7}")
    for i, file in enumerate(files, 1):
        print(f"{i:>3}  {file:<{width}}  {lines[file]:>5}  {entered[file]:>7}{' *' * (entered[file] > MOST_ENTRIES)}")


def main() -> None:
    """Read the command line and print the walk."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--method", help="a method of the table, on an image; without it ElasticBand(), on a vector")
    parser.add_argument("--functions", action="store_true", help="print every entry with its functions")
    given = parser.parse_args()
    torch.set_num_threads(1)
    met = traced(on_an_image(given.method) if given.method else on_a_vector(lp.ElasticBand))
    print(f'method="{given.method}"' if given.method else "method=lp.ElasticBand()", end=": ")
    print_files(met)
    if given.functions:
        print()
        for i, (file, functions) in enumerate(entries_of(met), 1):
            print(f"{i:>3}  {file}: {', '.join(functions)}")


if __name__ == "__main__":
    main()
