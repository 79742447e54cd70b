"""What a run's store holds: trained nets, and explanations of each by each method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from leastpath._support.store import Store
from studies.moons.config import COSTLY
from studies.moons.training import Moons, loaded_net


@dataclass(frozen=True)
class MethodOnNet:
    """One method on one net: on its test points, or, for the maps, on all its samples.

    Example:
        >>> MethodOnNet("geodesic_graph", Moons(0.15, 12)).key
        'geodesic_graph noise=0.15 seed=12'
    """

    method: str
    net: Moons
    mapped: bool = False

    @property
    def key(self) -> str:
        """Names the unit in the store."""
        which = "map " if self.mapped else "balanced " if self.method in COSTLY else ""
        return f"{which}{self.method} {self.net.key}"


def explained(store: Store, unit: MethodOnNet) -> Mapping[str, Tensor]:
    """What a finished unit holds: `values` (n, 2); `cancellation`, `completeness_gap`, `change`, `gradients` (n,).

    Example:
        >>> explained(run.store, MethodOnNet("geodesic_graph", Moons(0.15, 12)))["values"].shape  # doctest: +SKIP
        torch.Size([2000, 2])
    """
    return store.read(unit.key).arrays


def net_of(store: Store, net: Moons) -> torch.nn.Sequential:
    """A trained net out of a run's store.

    Example:
        >>> net_of(run.store, Moons(0.15, 12))(torch.zeros(1, 2)).argmax()  # doctest: +SKIP
        tensor(1)
    """
    kept = store.read(f"net {net.key}").arrays
    return loaded_net({name: values for name, values in kept.items() if name not in ("change", "other_class")})
