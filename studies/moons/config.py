"""What the half-moons study does: nets, methods, points and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from studies.expected import expected_numbers
from studies.moons.training import EPOCHS, N_SAMPLES, N_TRAIN, Moons

PAPER: Mapping[str, float] = expected_numbers("moons")["paper"]["auc_purity"]
"""AUC-purity as printed in the paper's Table 1, in its order."""
COSTLY = ("kernel_shap", "geodesic_variational")  # explain `costly_points` test points only
MAPPED = ("integrated_gradients", "geodesic_graph", "enhanced_ig")  # drawn over all samples of one net
BASELINE = (-0.5, -0.5)
N_NEIGHBORS = 15
N_TEST = N_SAMPLES - N_TRAIN


@dataclass(frozen=True)
class MoonsConfig:
    """All that the results depend on.

    Example:
        >>> len(MoonsConfig().nets), len(MoonsConfig.quick().nets)
        (65, 3)
    """

    noises: tuple[float, ...] = tuple(round(0.05 * level, 2) for level in range(1, 14))
    seeds: tuple[int, ...] = (12, 24, 36, 48, 60)
    methods: tuple[str, ...] = tuple(PAPER)
    epochs: int = EPOCHS
    points: int = N_TEST
    costly_points: int = 500
    variational_iterations: int = 1000
    variational_knots: int = 20
    kernel_samples: int = 20  # two features have two coalitions beside none and all: few draws show both
    figure_noise: float = 0.15

    @classmethod
    def quick(cls) -> MoonsConfig:
        """Three noise levels, one seed: under two minutes on two cores."""
        return cls(noises=(0.05, 0.35, 0.65), seeds=(12,), costly_points=200, variational_iterations=500)

    @property
    def nets(self) -> list[Moons]:
        """The nets of the table."""
        return [Moons(noise, seed) for seed in self.seeds for noise in self.noises]

    @property
    def figure_net(self) -> Moons:
        """The net that figures show; trained with the others where the table does not have it."""
        return Moons(self.figure_noise, self.seeds[0])

    @property
    def mapped_inputs(self) -> Tensor:
        """What maps are drawn over, (n, 2): all samples of the figures' net, or fewer if fewer points are explained."""
        return torch.cat([self.figure_net.train[0], self.figure_net.test[0]])[: N_SAMPLES // N_TEST * self.points]

    def points_of(self, method: str) -> int:
        """How many test points a method explains on each net."""
        return min(self.points, self.costly_points) if method in COSTLY else self.points

    def rows_of(self, method: str, other_class: Tensor) -> Tensor:
        """Which test points a method explains, given their side of the border (test points,): indices (n,).

        The first ones; costly methods get fewer, as many from each side as all have in proportion. Purity cannot
        exceed twice the share of the other side, so that an unbalanced choice would be a handicap.
        """
        n, other = self.points_of(method), other_class[: self.points]
        if n == self.points:
            return torch.arange(n)
        n_other = round(n * float(other.double().mean()))
        return torch.cat([other.nonzero()[:n_other, 0], (~other).nonzero()[: n - n_other, 0]]).sort().values

    def settings_of(self, method: str, inputs: Tensor) -> dict[str, Any]:
        """Settings of a method that differ from its defaults."""
        if method in ("geodesic_graph", "enhanced_ig"):
            return {"points": inputs, "n_neighbors": N_NEIGHBORS}
        if method == "geodesic_variational":
            return {
                "n_iterations": self.variational_iterations, "n_points": self.variational_knots, "n_samples": 0,
            }  # fmt: skip
        return {"n_samples": self.kernel_samples} if method == "kernel_shap" else {}
