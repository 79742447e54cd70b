"""The elastic band beside IG, IDGI, Descent and the variational energy: how short, how well supported, at what cost.

    PYTHONPATH=. python benchmarks/elastic.py [--digits 60] [--nets mlp "cnn relu" "cnn gelu" vit] [--store FOLDER]

scikit-learn's digits that the nets have not seen, log-softmax of the predicted class, black baseline, 50 steps of the
integral. Columns: gradients in all; median length relative to the straight line; median of Σ|A| / |Δf|; then the
symmetric relevance gain with black, mean and blurred fill, pixels ordered by |A|, and its mean with pixels ordered by A
itself. All are means over the nets. "Variational, equal cost" may spend what the band spends.

The nets are trained once and kept in the store; without one, in a temporary folder.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from typing import Any

import torch

import leastpath as lp
from leastpath._support.store import Store
from leastpath.evaluation import symmetric_relevance_gain
from studies.findings.nets import EPOCHS, N_TRAINED, digit_images, digit_net
from studies.findings.study import Setting

CHOSEN_ON = 60  # unseen digits, the first ones: the band's settings were chosen on them, so they are left out here
FILLS = ("baseline", "mean", "blur")
BAND = lp.ElasticBand()
POINTS = 5  # knots of the variational path, and its learning rate where the budget is small: the best of several
ROUNDS = (2 * BAND.n_rounds + 1) * BAND.n_samples * (BAND.n_knots + 1) // (2 * POINTS)  # as many gradients as the band
METHODS: dict[str, dict[str, Any]] = {
    "IG": {"solver": lp.StraightLine()},
    "IDGI": {"solver": lp.StraightLine(), "weighting": lp.IDGI()},
    "Descent": {"solver": lp.Descent()},
    "Variational, equal cost": {"solver": lp.Variational(ROUNDS, POINTS, lr=0.03, tolerance=0, n_samples=0)},
    "Variational, ten times the cost": {"solver": lp.Variational(10 * ROUNDS, POINTS, tolerance=0, n_samples=0)},
    "band, stiffness 1": {"solver": lp.ElasticBand(1.0, monotone=False)},
    "band, stiffness 10": {"solver": lp.ElasticBand(10.0, monotone=False)},
    "monotone band, stiffness 1": {"solver": lp.ElasticBand(1.0)},
    "monotone band, stiffness 10": {"solver": lp.ElasticBand(10.0)},
}


def row(net: torch.nn.Module, images: torch.Tensor, settings: dict[str, Any]) -> torch.Tensor:
    """Gradients, length ratio, Σ|A| / |Δf|, three gains by size and one by sign, of one method on one net: (7,)."""
    score = lp.Score(net, net(images).argmax(1), "log_softmax")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = lp.attribute(score, images, tolerance=None, n_steps=50, **settings)
    assert isinstance(result.values, torch.Tensor)
    gains = [symmetric_relevance_gain(score, images, result.values, 0.0, fill=fill).mean() for fill in FILLS]
    signed = [
        symmetric_relevance_gain(score, images, result.values, 0.0, fill=fill, rank="signed").mean() for fill in FILLS
    ]
    size = result.values.flatten(1).abs().sum(1) / result.score_change.abs()
    middle = result.length_ratio.median(), size.median()
    return torch.stack([result.n_gradients.double().mean(), *middle, *gains, torch.stack(signed).mean()])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--digits", type=int, default=60)
    parser.add_argument("--nets", nargs="+", default=list(EPOCHS), choices=list(EPOCHS))
    parser.add_argument("--store")
    options = parser.parse_args()
    images = digit_images()[0][N_TRAINED + CHOSEN_ON :][: options.digits]
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(Store(options.store or folder, {}))
        nets = [digit_net(setting, name) for name in options.nets]
        print("| | gradients | length ratio | Σ\\|A\\|/\\|Δf\\| | black | mean | blur | by sign |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        for name, settings in METHODS.items():
            means = torch.stack([row(net, images, settings) for net in nets]).mean(0).tolist()
            print(f"| {name} | {means[0]:.0f} | {means[1]:.2f} | {means[2]:.2f} | "
                  + " | ".join(f"{gain:.3f}" for gain in means[3:]) + " |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
