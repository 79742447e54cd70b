"""`python -m catalogue --cases 2000`: the written cases, and as many drawn ones as are missing, by what came of them.

right: the answer is that of the oracle; sentence: refused at the door, in words; raw, wrong and hang are findings.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import torch

from catalogue import calls, inputs, settings
from catalogue.table import Case, Right
from fuzz.oracle import Outcome, Wrong, judge
from fuzz.search import SEARCHES, search


def judge_case(case: Case) -> Outcome:
    """A case by the oracle of fuzzing: a call that must be refused is wrong if it is answered."""

    def check(answer: object) -> None:
        if not isinstance(case.expects, Right):
            raise Wrong(f"{case.id} was taken")
        try:
            case.expects.holds_for(lambda: answer)
        except AssertionError as error:
            raise Wrong(f"{case.id}: {str(error).splitlines()[0]}") from error

    return judge(case.call, check)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m catalogue", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=60.0, help="for those that are drawn")
    given = parser.parse_args()
    torch.set_num_threads(1)
    counts, found = Counter[str](), {}
    for case in (*settings.cases(), *inputs.cases(), *calls.cases()):
        outcome = judge_case(case)
        counts[outcome.verdict] += 1
        if outcome.is_finding:
            print(f"{case.id}: {outcome.verdict}, {outcome.words}", flush=True)
    print(f"{sum(counts.values()):,} written cases: {dict(counts)}", flush=True)
    until = time.monotonic() + 60 * given.minutes
    for round_ in range(1000):
        missing = given.cases - sum(counts.values())
        if missing <= 0 or time.monotonic() > until:
            break
        search(list(SEARCHES)[round_ % 2], given.seed + round_, min(missing, 200), counts, found, until)
    for (_, signature), recipe in found.items():
        print(f"{signature}: {recipe}")
    verdicts = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in ("right", "sentence", "raw", "wrong", "hang"))
    print(f"{sum(counts.values()):,} cases: {verdicts}")
    return int(bool(counts["wrong"] + counts["hang"]))


if __name__ == "__main__":
    sys.exit(main())
