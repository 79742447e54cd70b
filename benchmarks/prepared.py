"""What `lp.prepare` saves: input gradients of real nets, and Integrated Gradients beside Captum.

    python benchmarks/prepared.py [nets …] --models FOLDER [--size 128] [--rows 8] [--steps 20] [--repeats 7] [--all]

For each net: the time of an input gradient of the prepared copy, over that of the model as it is, and what the copy's
own report says. `--all` adds three ways that are not used: bfloat16 autocast, with the difference it makes, and
`torch.compile` of the model and of the copy, with what compiling takes (TORCHINDUCTOR_COMPILE_THREADS=1 keeps its
processes where they can be counted). Then the straight line with fixed steps, with the model and with its copy, over
Captum's IntegratedGradients with the model. Rivals take turns in every repeat; ratios are formed within a repeat, of
CPU times, with one thread, and their median is printed.

The nets are those that `load(name)` of `models.py` in a folder gives; one that is missing is left out with a sentence.
Without a folder, the net is a ResNet-56 with random weights.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import leastpath as lp

NETS = ("resnet56_cifar10", "efficientnet_lite0", "mobilenet_v2", "resnet50")


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        same = stride == 1 and width == out
        short = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.short: nn.Module = nn.Identity() if same else short

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.short(x))


def resnet56() -> nn.Module:
    """As published for CIFAR-10, with random weights."""
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    width = 16
    for out, stride in ((16, 1), (32, 2), (64, 2)):
        for i in range(9):
            layers.append(Block(width, out, stride if i == 0 else 1))
            width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()


def loaded(name: str, folder: Path | None) -> nn.Module | None:
    """A net with its weights; None, and a sentence, if it is not on this machine."""
    if folder is None:
        return resnet56()
    sys.path.insert(0, str(folder))
    import models

    try:
        net: nn.Module = models.load(name)
        return net
    except (ImportError, AttributeError, OSError) as missing:
        print(f"{name}: not on this machine ({missing})")
        return None


def gradient(model: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Of the largest output of each row: (rows, *features)."""
    leaf = inputs.detach().requires_grad_()
    (found,) = torch.autograd.grad(model(leaf).float().amax(1).sum(), leaf)
    return found


def taken(rivals: dict[str, Callable[[], object]], repeats: int) -> dict[str, np.ndarray]:
    """CPU seconds (repeats,) of each; they take turns."""
    for run in rivals.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(repeats):
        for name, run in rivals.items():
            begin = time.process_time()
            run()
            times[name].append(time.process_time() - begin)
    return {name: np.array(each) for name, each in times.items()}


def with_children() -> float:
    """CPU seconds of this process and of those that it started and that have ended, such as compilers."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def ratio(times: dict[str, np.ndarray], name: str, base: str) -> str:
    low, middle, high = np.quantile(times[name] / times[base], [0.25, 0.5, 0.75])
    return f"{middle:5.2f} (quartiles {low:.2f} to {high:.2f})"


def gradients(name: str, model: nn.Module, ready: lp.Prepared, inputs: Tensor, repeats: int, everything: bool) -> None:
    rivals: dict[str, Callable[[], object]] = {
        "model": lambda: gradient(model, inputs), "prepared": lambda: gradient(ready, inputs),
    }  # fmt: skip
    if everything:
        _add_unused(rivals, model, ready, inputs)
    times = taken(rivals, repeats)
    for rival in list(rivals)[1:]:
        print(f"{name:18s} gradient, {rival:20s} / model {ratio(times, rival, 'model')}")
    print(f"{name:18s} model: {np.median(times['model']) / len(inputs) * 1e3:.1f} ms a gradient")


def _add_unused(rivals: dict[str, Callable[[], object]], model: nn.Module, ready: lp.Prepared, inputs: Tensor) -> None:
    """Ways that `lp.prepare` does not take, with what they change and what they take to begin."""

    def bfloat16() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return gradient(ready, inputs)

    exact, coarse = gradient(model, inputs), bfloat16()
    apart = float((coarse - exact).norm() / exact.norm())
    print(f"bfloat16 autocast: gradients differ by {apart:.0%}")
    rivals["prepared, bfloat16"] = bfloat16
    for label, net in (("compiled", model), ("prepared, compiled", ready)):
        try:
            begin = with_children()
            compiled = torch.compile(net)
            gradient(compiled, inputs)
            print(f"torch.compile, {label}: the first gradient takes {with_children() - begin:.0f} s of CPU time")
            rivals[label] = lambda compiled=compiled: gradient(compiled, inputs)  # type: ignore[misc]
        except Exception as error:  # it needs a C++ compiler, and fails in many ways
            print(f"torch.compile, {label}: {str(error).strip().splitlines()[0][:100]}")


def integrated(name: str, model: nn.Module, ready: lp.Prepared, inputs: Tensor, steps: int, repeats: int) -> None:
    """Integrated Gradients with fixed steps: the straight line beside Captum."""
    try:
        from captum.attr import IntegratedGradients
    except ImportError:
        print("captum is not installed: pip install 'leastpath[captum]'")
        return
    target, rows = int(model(inputs[:1]).argmax()), len(inputs)

    def ours(net: nn.Module) -> Callable[[], object]:
        score = lp.Score(net, target, batch_size=rows)
        return lambda: lp.attribute(score, inputs, method=lp.StraightLine(), tolerance=None, n_steps=steps)

    captum = IntegratedGradients(model)
    times = taken(
        {
            "Captum": lambda: captum.attribute(inputs, target=target, n_steps=steps, internal_batch_size=rows),
            "model": ours(model),
            "prepared": ours(ready),
        },
        max(3, repeats // 2),
    )
    for rival in ("model", "prepared"):
        print(f"{name:18s} straight line, {rival:15s} / Captum with the model {ratio(times, rival, 'Captum')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=list(NETS))
    parser.add_argument("--models", type=Path, help="folder with models.py")
    parser.add_argument("--size", type=int, default=128, help="side of the pictures; 32 for CIFAR nets")
    parser.add_argument("--rows", type=int, default=8, help="in one model call")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--all", action="store_true", help="also bfloat16 autocast and torch.compile")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name in ["resnet56 (random)"] if arguments.models is None else arguments.nets:
        model = loaded(name, arguments.models)
        if model is None:
            continue
        side = 32 if "resnet56" in name else arguments.size
        inputs = torch.rand(arguments.rows, 3, side, side)
        ready = lp.prepare(model, inputs)
        print(f"---- {name}, {arguments.rows} × {side} × {side}\n{ready.report}")
        gradients(name, model, ready, inputs, arguments.repeats, arguments.all)
        integrated(name, model, ready, inputs, arguments.steps, arguments.repeats)


if __name__ == "__main__":
    main()
