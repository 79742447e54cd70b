"""From the model's geometry to the data's: where paths run as `Mixed` shifts its weight, beside Manifold IG.

    python benchmarks/manifold.py [--inputs 12] [--latent 8] [--gradients 2000] [--bandwidth 0.5]

A small ReLU net and a small VAE on scikit-learn's 8 × 8 digits. Inputs that neither has seen, softmax of the predicted
class, each from a training digit of another class. Prints, as medians over inputs: how far the path is from the
training digits on its way (mean distance to the nearest, relative to the straight line's), its length under
`Conformal`, relative to the line's, its cancellation, and the model gradients that it took.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from digits import N_TRAINED, digits, trained
from torch import Tensor, nn

import leastpath as lp

WEIGHTS = (0.0, 0.1, 0.5, 0.9, 0.99, 1.0)


class VAE(nn.Module):
    """The variational autoencoder of docs/manifold.md, on data brought to mean 0 and spread 1."""

    def __init__(self, data: Tensor, n_latent: int) -> None:
        super().__init__()
        self.mean = data.mean(0)
        self.spread = (data - self.mean).square().mean().sqrt()
        self.posterior = perceptron(data.shape[1], 2 * n_latent)
        self.generator = perceptron(n_latent, data.shape[1])

    def encoder(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.posterior((x - self.mean) / self.spread).chunk(2, 1)
        return mean, log_variance.clamp(-12, 4)

    def decoder(self, z: Tensor) -> Tensor:
        return self.mean + self.spread * self.generator(z)

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x)[0])

    @classmethod
    def fit(cls, data: Tensor, n_latent: int, epochs: int = 100) -> VAE:
        torch.manual_seed(0)
        vae, generator = cls(data, n_latent), torch.Generator().manual_seed(0)
        optimizer = torch.optim.Adam(vae.parameters(), 1e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
        for _ in range(epochs):
            for rows in torch.randperm(len(data), generator=generator).split(64):
                optimizer.zero_grad()
                vae.loss(data[rows], generator).backward()
                optimizer.step()
            schedule.step()
        return vae.eval().requires_grad_(False)

    def loss(self, x: Tensor, generator: torch.Generator) -> Tensor:
        mean, log_variance = self.encoder(x)
        rebuilt = self.decoder(mean + torch.exp(log_variance / 2) * torch.randn(mean.shape, generator=generator))
        divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
        return x.shape[1] / 2 * torch.log(((rebuilt - x) / self.spread).square().mean() + 1e-6) + divergence


def perceptron(n_in: int, n_out: int, width: int = 256) -> nn.Sequential:
    hidden = nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
    return nn.Sequential(*hidden, nn.Linear(width, n_out))


@dataclass(frozen=True)
class Given:
    """A solver that returns a path found before, to measure it in another metric."""

    path: lp.Path

    def solve(self, score, metric, start, end, run) -> lp.Solution:
        return lp.Solution(self.path)


def off_data(path: lp.Path, data: Tensor) -> Tensor:
    """(batch,) mean distance to the nearest of the data along each path."""
    points = path.at(torch.linspace(0, 1, 64))  # (batch, 64, features)
    return torch.stack([torch.cdist(curve, data).amin(1).mean() for curve in points])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=12)
    parser.add_argument("--latent", type=int, default=8)
    parser.add_argument("--gradients", type=int, default=2000)
    parser.add_argument("--bandwidth", type=float, default=0.5)
    arguments = parser.parse_args()
    images, labels = digits()
    data, inputs = images[:N_TRAINED], images[N_TRAINED : N_TRAINED + arguments.inputs]
    net = trained()
    vae = VAE.fit(data, arguments.latent)
    target = net(inputs).argmax(1)
    score = lp.Score(net, target, "softmax")
    others = [int((labels[:N_TRAINED] == (t + 1) % 10).nonzero()[i]) for i, t in enumerate(target.tolist())]
    baselines = data[others]

    rebuilt = (vae(inputs) - inputs).norm(dim=1).median()
    apart = (inputs - baselines).norm(dim=1).median()
    density = lp.DataDensity(data, arguments.bandwidth)
    print(f"VAE: reconstruction error of unseen inputs {rebuilt:.2f}; their distance from the baselines {apart:.2f}")
    print(f"{density}\n")
    print(f"{'':52}{'off data':>10}{'conformal':>11}{'cancellation':>14}{'gradients':>11}")
    line = off_data(lp.Path.straight(baselines, inputs), data)

    def show(name: str, solver: lp.Solver, metric: lp.Metric) -> lp.Attribution:
        result = lp.attribute(score, inputs, baselines, method=solver, metric=metric)
        measured = lp.attribute(score, inputs, baselines, method=Given(result.path))
        numbers = off_data(result.path, data) / line, measured.length_ratio, result.cancellation, result.n_gradients
        off, ratio, cancellation, gradients = (float(x.double().median()) for x in numbers)
        print(f"{name:52}{off:10.2f}{ratio:11.3f}{cancellation:14.3f}{gradients:11.0f}", flush=True)
        return result

    show("StraightLine()", lp.StraightLine(), lp.Conformal())
    result = show("Manifold(vae.encoder, vae.decoder)", lp.Manifold(vae.encoder, vae.decoder), lp.Conformal())
    ends, steps = result.stats["end_share"].median(0).values.tolist(), int(result.stats["iterations"].max())
    saved = float((result.stats["energy"] / result.stats["line_energy"]).median())
    for weight in WEIGHTS:
        metric = lp.Mixed(lp.Conformal(), density, weight)
        show(f"Descent, Mixed(Conformal(), density, {weight:g})", lp.Descent(arguments.gradients), metric)
    for weight in WEIGHTS:
        metric = lp.Mixed(lp.Conformal(), density, weight)
        show(f"NeighborGraph, Mixed(Conformal(), density, {weight:g})", lp.NeighborGraph(data), metric)
    off_manifold = lp.Reconstruction(vae.encoder, vae.decoder, float(rebuilt))
    show("Descent, Reconstruction(vae.encoder, vae.decoder)", lp.Descent(arguments.gradients), off_manifold)
    print(
        f"\nManifold: joining pieces {ends[0]:.0%} and {ends[1]:.0%} of the path; at most {steps} iterations; ", end=""
    )
    print(f"energy {saved:.3f} of the latent line's")


if __name__ == "__main__":
    main()
