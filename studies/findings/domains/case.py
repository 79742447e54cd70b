"""What is explained in a domain, and by which methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from leastpath.result.attribution import Attribution

LINE, BENT, GRAPH = "integrated_gradients", "geodesic_descent", "geodesic_graph"


@dataclass(frozen=True)
class Domain:
    """What the section says of a domain, and which methods explain it.

    Args:
        data: what the examples are.
        quality: what is measured of its networks on unseen examples.
        methods: names in `METHODS`.

    Example:
        >>> DOMAIN["diabetes"].quality
        'R²'
    """

    data: str
    quality: str
    methods: tuple[str, ...] = (LINE, "idgi", BENT)


DOMAIN: Mapping[str, Domain] = {
    "breast cancer": Domain("30 measurements, benign or malignant", "accuracy"),
    "diabetes": Domain("10 measurements, the progress of the disease as a number", "R²", (LINE, "idgi", BENT, GRAPH)),
    "digits": Domain("8 × 8 pixels, ten classes", "accuracy"),
    "text": Domain("sentences of a few words, positive or negative", "accuracy"),
}
"""By name, in the order of the tables."""


@dataclass(frozen=True)
class Case:
    """One network, some unseen examples, and how explanations of these are made and judged.

    Args:
        quality: of the network on unseen examples.
        explain: name of a method -> its result.
        removal: a result -> for each fill (examples,), what the network loses with what is ranked first.
        agreement: a result -> rank correlations with the effect of changing features one by one.
        at_rest: (examples, *features), the features that are at the baseline already; None: not asked.

    Example:
        >>> case = Case(0.9, lambda method: None, lambda result: {}, lambda result: [])
        >>> case.at_rest is None
        True
    """

    quality: float
    explain: Callable[[str], Attribution]
    removal: Callable[[Attribution], dict[str, Tensor]]
    agreement: Callable[[Attribution], list[float | None]]
    at_rest: Tensor | None = None
