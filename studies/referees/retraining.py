"""ROAR: remove the top features from all data, train again, and see how much accuracy is lost.

Without retraining, a model may fail on masked inputs only because it never saw any. For models that train in seconds.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_integer
from leastpath._support.rows import flat_rows
from leastpath.account.run import Bar, Run
from leastpath.evaluation.statistics import trapezoid
from leastpath.removal.curves import Rank, group_strengths, rank_groups, round_counts

Data = tuple[Tensor, Tensor]
Train = Callable[[Tensor, Tensor, int], Callable[[Tensor], Tensor]]
AREAS = (0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Retrained:
    """Accuracy after retraining without the top features. A good explanation loses accuracy fast.

    Example:
        >>> Retrained((0.0, 0.5), {"random": torch.tensor([[0.9, 1.0], [0.5, 0.7]])}).mean("random")
        tensor([0.9500, 0.6000])
    """

    areas: tuple[float, ...]  #: shares of features removed; the first is 0, the unchanged data
    accuracy: Mapping[str, Tensor]  #: by method: (areas, repeats); NaN where an interruption came first

    @property
    def finished(self) -> bool:
        """Whether all trainings were done."""
        return not any(bool(a.isnan().any()) for a in self.accuracy.values())

    def mean(self, name: str) -> Tensor:
        """Mean accuracy over the repeats that are done: (areas,)."""
        return self.accuracy[name].nanmean(1)

    def standard_error(self, name: str) -> Tensor:
        """Standard error of that mean: (areas,); NaN with fewer than two repeats."""
        a = self.accuracy[name]
        n = (~a.isnan()).sum(1)
        squares = (a - a.nanmean(1, keepdim=True)).square().nansum(1)
        return torch.where(n > 1, (squares / ((n - 1).clamp_min(1) * n.clamp_min(1))).sqrt(), torch.nan)

    def drop(self, name: str) -> Tensor:
        """Area between the accuracy without removal and the curve, by trapezoid: (repeats,). Higher is better."""
        a = self.accuracy[name]
        return trapezoid((a[:1] - a).T, self.areas)


def roar(
    train: Train | Any,
    attributions: Mapping[str, tuple[Tensor, Tensor]],
    training: Data,
    test: Data,
    *,
    areas: Sequence[float] = AREAS,
    fill: Tensor | float | None = None,
    repeats: int = 3,
    signed: bool = False,
    seed: int = 0,
    progress: bool = False,
) -> Retrained:
    """Retrain without the top features of every method, at every area, several times.

    Ctrl-C ends the work and keeps the trainings that are done; unfinished ones are NaN, with a warning.

    Args:
        train: (inputs, labels, seed) -> a function from inputs to predicted classes; or an estimator with `fit` and
            `predict`, which is copied for every training and given the seed as `random_state` if it has one.
        attributions: method -> attributions of the training and of the test inputs, shaped like them.
        training: inputs (n, *features) and labels (n,).
        test: the same, to measure the accuracy on.
        areas: shares of features to remove, increasing, in (0, 1]. 0 is always measured as well.
        fill: what removed features become: a number or a tensor (*features). None: each feature's mean over the
            training inputs, as in ROAR's paper.
        repeats: trainings at each point, with different seeds; every method sees the same ones.
        signed: remove the largest values first instead of the largest magnitudes.

    Example:
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> x, oracle = torch.rand(60, 4), torch.tensor([1.0, 0, 0, 0]).expand(60, 4)
        >>> y = (x[:, 0] > 0.5).long()
        >>> found = roar(DecisionTreeClassifier(), {"oracle": (oracle, oracle)}, (x, y), (x, y), areas=(0.25,))
        >>> found.mean("oracle")[0].item()
        1.0
    """
    shares = _check_areas(areas)
    _check_data(attributions, training, test)
    check_integer("repeats", repeats, 1, advice="3 or more give standard errors")
    filled = training[0].float().mean(0) if fill is None else torch.as_tensor(fill)
    rank: Rank = "signed" if signed else "magnitude"
    places = {
        name: [rank_groups(group_strengths(part, None, rank)).view_as(part) for part in pair]
        for name, pair in attributions.items()
    }
    accuracy = {name: torch.full((len(shares), repeats), torch.nan, dtype=torch.float64) for name in attributions}
    total = repeats * (1 + len(attributions) * (len(shares) - 1))
    run = Run(seed, None, progress)
    with run.bar("ROAR", total) as bar:
        try:
            _fill_in(accuracy, places, shares, filled, train, training, test, run.seed, bar)
        except KeyboardInterrupt:
            done = sum(int((~a.isnan()).sum()) for a in accuracy.values())
            warnings.warn(f"interrupted: {done} results are kept, the others are NaN", RuntimeWarning, stacklevel=2)
    return Retrained(shares, accuracy)


def _fill_in(
    accuracy: dict[str, Tensor], places: dict[str, list[Tensor]], shares: tuple[float, ...], fill: Tensor, train: Any,
    training: Data, test: Data, seed: int, bar: Bar,
) -> None:  # fmt: skip
    """All trainings, repeat by repeat: an interruption then leaves complete curves for every method."""
    for repeat in range(next(iter(accuracy.values())).shape[1]):
        clean = _accuracy(train, training, test, seed + repeat)
        for a in accuracy.values():
            a[0, repeat] = clean
        bar.advance()
        for k, share in enumerate(shares[1:], 1):
            for name, ranked in places.items():
                pairs = zip((training, test), ranked, strict=True)
                data = [(_remove(x, place, share, fill), y) for (x, y), place in pairs]
                accuracy[name][k, repeat] = _accuracy(train, data[0], data[1], seed + repeat)
                bar.advance(note=f"{name} at {share:.0%}")


def _accuracy(train: Any, training: Data, test: Data, seed: int) -> float:
    predict = _fit(train, training, seed)
    predicted = torch.as_tensor(predict(test[0])).cpu()
    if predicted.shape != test[1].shape:
        got, expected = tuple(predicted.shape), tuple(test[1].shape)
        raise ValueError(f"the trained model predicts {got} for labels {expected}: return one class per input")
    return float((predicted == test[1].cpu()).double().mean())


def _fit(train: Any, training: Data, seed: int) -> Callable[[Tensor], Any]:
    if not (hasattr(train, "fit") and hasattr(train, "predict")):
        with torch.random.fork_rng(devices=[]):  # a training that draws from the global generator leaves it alone
            torch.manual_seed(seed)
            return train(*training, seed)
    estimator = copy.deepcopy(train)
    if "random_state" in inspect.signature(type(estimator)).parameters:
        estimator.set_params(random_state=seed % 2**32)
    estimator.fit(flat_rows(training[0]).cpu().numpy(), training[1].cpu().numpy())
    return lambda x: estimator.predict(flat_rows(x).cpu().numpy())


def _remove(x: Tensor, places: Tensor, share: float, fill: Tensor) -> Tensor:
    count = int(round_counts((share,), torch.tensor([x[0].numel()])))
    return torch.where((places < count).to(x.device), fill.to(x), x)


def _check_areas(areas: Sequence[float]) -> tuple[float, ...]:
    shares = (0.0, *(float(k) for k in areas if k > 0))
    if len(shares) < 2 or any(not 0 <= k <= 1 for k in areas) or any(np.diff(shares) <= 0):
        raise ValueError(f"areas={tuple(areas)} must increase within (0, 1], as in areas=(0.1, 0.5, 0.9)")
    return shares


def _check_data(attributions: Mapping[str, tuple[Tensor, Tensor]], training: Data, test: Data) -> None:
    if not attributions:
        raise ValueError("attributions is empty: pass {method: (of the training inputs, of the test inputs)}")
    for what, (x, y) in (("training", training), ("test", test)):
        if y.shape != (len(x),):
            raise ValueError(f"{what} has {len(x)} inputs and labels {tuple(y.shape)}: expected one label per input")
    for name, pair in attributions.items():
        for what, part, x in zip(("training", "test"), pair, (training[0], test[0]), strict=True):
            if part.shape != x.shape:
                shapes = f"{tuple(part.shape)}, expected the inputs' shape {tuple(x.shape)}"
                raise ValueError(f"{name} has {what} attributions {shapes}")
            if not torch.isfinite(part).all():
                raise ValueError(f"{name} has NaN or infinite {what} attributions: drop these inputs")
            if bool((flat_rows(part) == 0).all(1).any()):
                raise ValueError(f"{name} has {what} attributions that are all zero: drop these inputs")
