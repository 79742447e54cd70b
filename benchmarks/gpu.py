"""Everything that a person with a GPU should send us: one command, one text.

    python benchmarks/gpu.py [--device cuda|mps|xpu] [--size 224] > gpu.txt

Nothing of ours has a GPU. This prints what machine it is, whether values agree with those of the CPU (float32; with
autocast; with a model that `torch.compile` made; with hooks; a recurrent net in evaluation mode; two devices, where
there are), and ratios of one run: Integrated Gradients beside Captum's, forward methods beside bare forwards, peak
memory, and the fastest batch. A part that fails says why, and the others go on. With `--device cpu` it tries itself.
"""

from __future__ import annotations

import argparse
import platform
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import leastpath as lp

PARTS: dict[str, Callable[[torch.device, int], str]] = {}


def part(name: str) -> Callable[[Callable[[torch.device, int], str]], Callable[[torch.device, int], str]]:
    def add(function: Callable[[torch.device, int], str]) -> Callable[[torch.device, int], str]:
        PARTS[name] = function
        return function

    return add


def net(classes: int = 100) -> nn.Module:
    """A small residual-free net of a photograph's size, with random weights."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128), (128, 256)):
        layers += [
            nn.Conv2d(before, after, 3, 2, 1),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1),
        ]
        layers += [nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, classes)).eval()


def images(n: int, size: int) -> Tensor:
    return torch.rand(n, 3, size, size, generator=torch.Generator().manual_seed(1))


def wait(device: torch.device) -> None:
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def seconds(call: Callable[[], Any], device: torch.device, repeats: int = 3) -> float:
    taken = []
    for _ in range(repeats + 1):
        wait(device)
        begin = time.perf_counter()
        call()
        wait(device)
        taken.append(time.perf_counter() - begin)
    return sorted(taken[1:])[repeats // 2]


def line(score: lp.Score, inputs: Tensor, steps: int = 20) -> Tensor:
    found = lp.attribute(score, inputs, method=lp.StraightLine(), tolerance=None, n_steps=steps, support=False)
    return found.values  # type: ignore[return-value]


def apart(found: Tensor, expected: Tensor) -> str:
    error = (found.cpu().double() - expected.cpu().double()).norm() / expected.double().norm()
    return f"apart by {float(error):.1e} of the norm"


@part("values beside the CPU's")
def agreement(device: torch.device, size: int) -> str:
    model, x = net(), images(2, size)
    here = line(lp.Score(model, 1, "log_softmax"), x)
    return apart(line(lp.Score(model.to(device), 1, "log_softmax"), x.to(device)), here)


@part("the default with its verdict")
def default(device: torch.device, size: int) -> str:
    found = lp.attribute(lp.Score(net().to(device), 1, "log_softmax"), images(1, size).to(device))
    return f"{found.method}: {found.status[0].value}"


@part("autocast")
def autocast(device: torch.device, size: int) -> str:
    model, x = net().to(device), images(2, size).to(device)
    plain = line(lp.Score(model, 1), x)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        return apart(line(lp.Score(model, 1), x), plain)


@part("torch.compile")
def compiled(device: torch.device, size: int) -> str:
    model, x = net().to(device), images(2, size).to(device)
    plain, fast = lp.Score(model, 1, batch_size=16), lp.Score(torch.compile(model), 1, batch_size=16)
    values = apart(line(fast, x), line(plain, x))
    return f"{values}; time {seconds(lambda: line(fast, x), device) / seconds(lambda: line(plain, x), device):.2f}"


@part("hooks")
def hooks(device: torch.device, size: int) -> str:
    model, x, calls = net().to(device), images(2, size).to(device), []
    plain = line(lp.Score(model, 1), x)
    model[0].register_forward_hook(lambda *_: calls.append(1))
    return f"{apart(line(lp.Score(model, 1), x), plain)}; the hook ran {len(calls)} times"


@part("a recurrent net in evaluation mode")
def recurrent(device: torch.device, size: int) -> str:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.steps(x)[0][:, -1])

    model, x = Recurrent().eval(), torch.rand(3, 12, 8)
    here = line(lp.Score(model, 1), x)
    return apart(line(lp.Score(model.to(device), 1), x.to(device)), here)


@part("time beside Captum's Integrated Gradients")
def captum(device: torch.device, size: int) -> str:
    from captum.attr import IntegratedGradients

    model, x = net().to(device), images(16, size).to(device)
    score, ig = lp.Score(model, 1, batch_size=16), IntegratedGradients(model)
    ours = seconds(lambda: line(score, x, 50), device)
    theirs = seconds(lambda: ig.attribute(x, target=1, n_steps=50, internal_batch_size=16), device)
    return f"{ours / theirs:.2f} (50 steps of 16 pictures, 16 rows a call; {theirs:.2f} s)"


@part("forward methods beside bare forwards")
def forwards(device: torch.device, size: int) -> str:
    model, x, said = net().to(device), images(1, size).to(device), []
    batch = images(32, size).to(device)
    score = lp.Score(model, 1, "log_softmax", batch_size=32)
    for name, settings in {"staircase": {"n_orders": 2}, "occlusion": {}, "rise": {"n_masks": 320}}.items():

        def ours(name: str = name, settings: dict[str, int] = settings) -> lp.Attribution:
            return lp.attribute(score, x, 0.0, method=name, support=False, **settings)

        n = int(ours().n_forwards)

        def bare(n: int = n) -> None:
            with torch.inference_mode():
                for first in range(0, n, 32):
                    model(batch[: n - first])

        one, of_all = (
            seconds(ours, device),
            seconds(lambda name=name: lp.every_class(score, x, 0.0, method=name), device),
        )
        said.append(f"{name} {one / seconds(bare, device):.2f}, all classes by default settings {of_all:.2f} s")
    return "; ".join(said)


@part("peak memory of a gradient of 16 pictures")
def memory(device: torch.device, size: int) -> str:
    if device.type != "cuda":
        return "counted on CUDA only"
    model, x = net().to(device).requires_grad_(True), images(16, size).to(device)
    peaks = []
    for call in (lambda: line(lp.Score(model, 1, batch_size=16), x, 2), lambda: _plain_gradient(model, x)):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        peaks.append(torch.cuda.max_memory_allocated() - before)
    return f"{peaks[0] / peaks[1]:.2f} of a plain gradient's ({peaks[1] / 2**20:.0f} MB)"


def _plain_gradient(model: nn.Module, x: Tensor) -> Tensor:
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(model(leaf)[:, 1].sum(), leaf)[0]


@part("the fastest batch")
def fastest(device: torch.device, size: int) -> str:
    score, x = lp.Score(net().to(device), 1, batch_size="auto"), images(1, size).to(device)
    usual = lp.Score(score.model, 1).bind(x).batch_size
    line(score, x)
    return f"{score.bind(x).batch_size} rows; without a trial {usual}"


@part("two devices")
def several(device: torch.device, size: int) -> str:
    if device.type == "cpu" or getattr(torch, device.type).device_count() < 2:
        return "there is one"
    model, x = net(), images(2, size)
    both = [line(lp.Score(model.to(f"{device.type}:{i}"), 1), x.to(f"{device.type}:{i}")) for i in range(2)]
    return apart(both[1], both[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    parser.add_argument("--device", default=found)
    parser.add_argument("--size", type=int, default=224)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    device = torch.device(given.device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or platform.machine()
    print(f"{given.device}: {name}; {platform.system()}, Python {platform.python_version()}, torch {torch.__version__}")
    for title, run in PARTS.items():
        try:
            print(f"{title}: {run(device, given.size)}", flush=True)
        except Exception:  # the text is to be sent whatever fails
            print(f"{title}: FAILED\n{traceback.format_exc(limit=-4)}", flush=True)


if __name__ == "__main__":
    main()
