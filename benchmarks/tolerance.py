"""What a tolerance buys: accuracy reached, and gradients spent beside fixed steps.

    python benchmarks/tolerance.py [--pairs 1000] [--reference 100000] [--noise 0.15]

1,000 pairs (input, baseline) of half-moons points, a trained ReLU classifier explained at its softmax output, in
float64. An attribution counts as accurate when Σ|error| is within 1 % of Σ|A|, against 100,000 midpoints.
Prints the share that `tolerance=0.01` makes accurate, its mean number of gradients, and the smallest fixed `n_steps`
that makes the same share accurate, for each rule.
"""

from __future__ import annotations

import argparse

import torch
from half_moons import trained
from torch import Tensor

import leastpath as lp


def accurate_share(values: Tensor, reference: Tensor) -> float:
    error = (values - reference).abs().sum(1)
    return float((error <= 0.01 * reference.abs().sum(1)).double().mean())


def fixed(score: lp.Score, inputs: Tensor, baselines: Tensor, n_steps: int, rule: str) -> Tensor:
    path = lp.Path.straight(baselines, inputs)
    return lp.integrate(score, path, tolerance=None, n_steps=n_steps, rule=rule, max_gradients=n_steps).values


def smallest_steps(
    score: lp.Score, inputs: Tensor, baselines: Tensor, reference: Tensor, share: float, rule: str
) -> int:
    """By doubling and bisection; shares rise with steps but for noise, which bisection sees a little of."""
    high = 8
    while accurate_share(fixed(score, inputs, baselines, high, rule), reference) < share:
        high *= 2
        if high > 20_000:
            return high
    low = high // 2
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        if accurate_share(fixed(score, inputs, baselines, middle, rule), reference) < share:
            low = middle
        else:
            high = middle
    return high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--reference", type=int, default=100_000)
    parser.add_argument("--noise", type=float, default=0.15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    net, points, _ = trained(arguments.noise, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    inputs = points[8000 + torch.randperm(2000, generator=generator)[: arguments.pairs]]
    baselines = points[torch.randint(0, 8000, (len(inputs),), generator=generator)]
    with torch.no_grad():
        targets = net(inputs).argmax(1)
    score = lp.Score(net, targets, "softmax")
    reference = fixed(score, inputs, baselines, arguments.reference, "midpoint")
    result = lp.attribute(score, inputs, baselines, method=lp.StraightLine(), tolerance=0.01)
    assert isinstance(result.values, Tensor)
    share, spent = accurate_share(result.values, reference), float(result.n_gradients.double().mean())
    reached = sum(lp.Outcome.REACHED in s for s in result.status) / len(result.status)
    print(f"tolerance=0.01: {share:.1%} accurate to 1 %, {reached:.1%} say reached, {spent:.0f} gradients on average")
    for rule in ("gauss_legendre", "midpoint"):
        steps = smallest_steps(score, inputs, baselines, reference, min(share, 0.99), rule)
        print(f"fixed {rule}: {steps} steps for {min(share, 0.99):.1%}; adaptive / fixed gradients {spent / steps:.3f}")


if __name__ == "__main__":
    main()
