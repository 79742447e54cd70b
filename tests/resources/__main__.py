"""`python -m resources --times 500`: what each kind of work leaves behind when it is repeated."""

from __future__ import annotations

import argparse
import sys
import warnings

import torch

from resources.repeat import WORK, repeat


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m resources", description=__doc__)
    parser.add_argument("--times", type=int, default=500)
    parser.add_argument("--only", choices=list(WORK))
    parser.add_argument("--most", type=float, default=8.0, help="megabytes that may be left")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    grown = False
    print(f"{'work':<18}{'repeated':>10}{'MB left':>10}{'files':>8}{'threads':>9}")
    for name in [given.only] if given.only else WORK:
        left = repeat(WORK[name], given.times)
        grown |= left.megabytes > given.most or left.files > 0 or left.threads > 0
        print(f"{name:<18}{given.times:>10}{left.megabytes:>10.1f}{left.files:>8}{left.threads:>9}", flush=True)
    return int(grown)


if __name__ == "__main__":
    sys.exit(main())
