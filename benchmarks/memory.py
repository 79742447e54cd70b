"""Peak memory and time of Integrated Gradients at equal batch: before and after parameters were frozen, and Captum's.

    python benchmarks/memory.py MODELS [--before OTHER/src] [--cases resnet50 efficientnet_lite0 smollm2] [--rows 8]

MODELS is a folder with models.py, which loads the photographs' nets. Each figure is from a process of its own: the
highest resident size while the explanation is made, over the size just before it (Linux resets the peak), so weights
and libraries are left out, after a first small call. `--before` names another version's `src`. Without it, "before" is
the same code with nothing frozen. SmolLM2 explains the last logit over the embeddings of 64 tokens.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

CASES = ("resnet50", "efficientnet_lite0", "smollm2")
STEPS, TOKENS = 3, 64
STRICT_HEAP = {"MALLOC_MMAP_THRESHOLD_": "262144"}  # what is freed is given back, so that the peak is what is needed


class LastLogits(nn.Module):
    """A language model over embeddings: the logits behind its last token."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.model(inputs_embeds=embeddings, use_cache=False, logits_to_keep=1).logits[:, -1]


def load(case: str, models: str, rows: int) -> tuple[nn.Module, Tensor]:
    """A net whose weights require gradients, as loaded nets do, and inputs for it."""
    torch.manual_seed(0)
    if case == "smollm2":
        from leastpath.commands.explain_prompt import load_language_model

        language = load_language_model(Path(case))[0]
        embeddings = language.get_input_embeddings()(torch.randint(10, 5000, (rows, TOKENS))).detach()
        return LastLogits(language).requires_grad_(True), embeddings
    sys.path.insert(0, models)
    from models import load as load_net

    return load_net(case).requires_grad_(True), torch.rand(rows, 3, 224, 224)


def peak() -> float:
    """The highest resident size since the last reset, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def measure(case: str, who: str, models: str, rows: int) -> None:
    """In a process of its own: prints megabytes above what was there, and CPU seconds."""
    torch.set_num_threads(1)
    net, inputs = load(case, models, rows)
    if who == "captum":
        from captum.attr import IntegratedGradients

        def explain(x: Tensor) -> Any:
            return IntegratedGradients(net).attribute(x, target=7, n_steps=STEPS, internal_batch_size=len(x))
    else:
        import leastpath as lp

        if who == "unfrozen":
            from leastpath.score import frozen  # an older version, as "before", does not have it

            frozen.WORTH_FREEZING = sys.maxsize

        def explain(x: Tensor) -> Any:
            score = lp.Score(net, 7, batch_size=len(x))
            return lp.attribute(
                score, x, method=lp.StraightLine(), tolerance=None, n_steps=STEPS, support=False, measure="values"
            )

    explain(inputs[:1])
    Path("/proc/self/clear_refs").write_text("5")
    before, begin = peak(), time.process_time()
    explain(inputs)
    print(peak() - before, time.process_time() - begin)


def ask(case: str, who: str, models: str, rows: int, source: str | None = None) -> tuple[float, float]:
    """What a process of its own measured."""
    environment = {**os.environ, **STRICT_HEAP, **({} if source is None else {"PYTHONPATH": source})}
    command = [sys.executable, __file__, models, "--one", case, who, "--rows", str(rows)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    megabytes, seconds = map(float, found.split()[-2:])
    return megabytes, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models")
    parser.add_argument("--before", help="the src folder of another version")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        measure(*given.one, given.models, given.rows)
        return
    print(f"{'case':20} {'now MB':>8} {'/ before':>9} {'/ Captum':>9} {'time / before':>14}")
    for case in given.cases:
        now = ask(case, "leastpath", given.models, given.rows)
        before = ask(case, "leastpath" if given.before else "unfrozen", given.models, given.rows, given.before)
        captum = ask(case, "captum", given.models, given.rows)
        print(
            f"{case:20} {now[0]:8.0f} {now[0] / before[0]:9.2f} {now[0] / captum[0]:9.2f} "
            f"{now[1] / before[1]:14.2f}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
