"""Error bars and tests for measures: bootstrap intervals, a paired test, and a correction for many comparisons."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.stats import DegenerateDataWarning, bootstrap, permutation_test
from torch import Tensor

from leastpath._support.checks import seed_of

EXACT = 13  # examples up to which all 2ⁿ sign flips are tried
CHUNK = 1_000_000  # resampled numbers held at once


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval. `low` and `high` are NaN for a single example, which has no spread.

    Example:
        >>> bootstrap_interval([1.0, 2.0, 3.0]).mean
        2.0
    """

    mean: float
    low: float
    high: float
    level: float
    n: int


@dataclass(frozen=True)
class PairedTest:
    """The mean difference a − b, its bootstrap interval, and the p-value of no difference.

    Example:
        >>> paired_test([3.0, 4.0, 5.0], [1.0, 2.0, 3.0]).difference
        2.0
    """

    difference: float
    low: float
    high: float
    p_value: float
    n: int


def bootstrap_interval(
    values: Tensor | ArrayLike,
    level: float = 0.95,
    *,
    resamples: int = 9_999,
    method: Literal["bca", "percentile"] = "bca",
    omit_nan: bool = False,
    seed: int = 0,
) -> Interval:
    """A confidence interval of the mean over examples.

    BCa by default: it corrects the percentile interval for bias and skewness. Measures of explanations are skewed.

    Args:
        values: (n,), one number per example.
        level: coverage aimed at.
        resamples: bootstrap resamples.
        method: "bca" or "percentile".
        omit_nan: leave out examples without a value instead of refusing them; `n` says how many were used.
        seed: of the resampling.

    Example:
        >>> found = bootstrap_interval([0.1, 0.4, 0.2, 0.3])
        >>> found.low < found.mean < found.high
        True
    """
    x = _check_values(values, "values", omit_nan)
    check_level(level)
    if resamples < 99:
        raise ValueError(f"resamples={resamples} is too few for an interval: use 999 or more")
    if method not in ("bca", "percentile"):
        raise ValueError(f'method={method!r} is unknown: use "bca" or "percentile"')
    mean = float(x.mean())
    if len(x) == 1:
        low = high = np.nan
    elif np.ptp(x) == 0:  # BCa's acceleration is 0/0, and every resample is the mean
        low = high = mean
    else:
        low, high = _bootstrap_ends(x, level, resamples, method, seed)
    return Interval(mean, low, high, level, len(x))


def paired_test(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    level: float = 0.95,
    *,
    resamples: int = 9_999,
    omit_nan: bool = False,
    seed: int = 0,
) -> PairedTest:
    """Do two methods differ on the same examples? a, b: (n,), example by example.

    The p-value is that of a sign-flip permutation test of the mean difference, two-sided: under "no difference" each
    example's difference is as likely with the other sign. It is exact for any distribution, and it tests the mean,
    which tables print. All 2ⁿ flips are tried up to 13 examples; above that `resamples` random ones, the observed one
    counted among them.

    Example:
        >>> paired_test([3.0, 4.0, 5.0], [1.0, 1.0, 1.0]).p_value  # 2 of the 8 sign flips are as extreme
        0.25
    """
    x, y = _array(a, "a"), _array(b, "b")
    if x.shape != y.shape:
        raise ValueError(f"a has {len(x)} examples and b {len(y)}: a paired test needs both on the same examples")
    d = _check_values(x - y, "a − b", omit_nan)
    interval = bootstrap_interval(d, level, resamples=resamples, seed=seed)
    return PairedTest(interval.mean, interval.low, interval.high, _sign_flip_p(d, resamples, seed), len(d))


def holm(p_values: Tensor | ArrayLike) -> np.ndarray:
    """Holm's step-down correction: p-values (m,) of m comparisons -> adjusted ones (m,), in the same order.

    If only those below α are called significant, the chance of any false claim is below α, also if tests depend on
    each other.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(6).tolist()
        [0.03, 0.06, 0.06]
    """
    p = _array(p_values, "p_values")
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p_values must lie in [0, 1] and not be NaN: leave out comparisons that could not be made")
    order = np.argsort(p, kind="stable")
    result = np.empty_like(p)
    result[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1)
    return result


def trapezoid(curves: Tensor, x: Sequence[float] | Tensor, normalize: bool = False) -> Tensor:
    """The area under curves (..., points) over x (points,): (...,).

    As printed in the paper: the plain area, whose largest value is the span of x. `normalize` divides by the span, so
    that it is the curve's mean height.

    Example:
        >>> trapezoid(torch.tensor([[1.0, 1.0, 3.0]]), [0.0, 0.5, 1.0])
        tensor([1.5000])
    """
    axis = torch.as_tensor(x, dtype=curves.dtype, device=curves.device)
    if axis.ndim != 1 or len(axis) != curves.shape[-1] or len(axis) < 2 or not bool((axis.diff() > 0).all()):
        got = f"x has shape {tuple(axis.shape)} for curves {tuple(curves.shape)}"
        raise ValueError(f"{got}: an area needs two or more points, strictly increasing, one for each column")
    area = torch.trapezoid(curves, axis)
    return area / (axis[-1] - axis[0]) if normalize else area


def _bootstrap_ends(x: np.ndarray, level: float, resamples: int, method: str, seed: int) -> tuple[float, float]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", DegenerateDataWarning)
        found = bootstrap(
            (x,), np.mean, n_resamples=resamples, batch=max(1, CHUNK // len(x)), vectorized=True,
            confidence_level=level, method=method, rng=np.random.default_rng(seed_of(seed)),
        ).confidence_interval  # fmt: skip
    if method == "bca" and np.isnan(found.low):  # values that differ by rounding only have no bias and no skewness
        return _bootstrap_ends(x, level, resamples, "percentile", seed)
    return float(found.low), float(found.high)


def _sign_flip_p(d: np.ndarray, resamples: int, seed: int) -> float:
    if len(d) == 1:  # scipy does not take it; both flips are equally extreme
        return 1.0
    observed, rounding = abs(d.sum()), 1e-12 * np.abs(d).sum()

    def size(flipped: np.ndarray, axis: int) -> np.ndarray:
        sums = np.abs(flipped.sum(axis))
        # Flips that give the same sum in another order of addition must count as equal.
        return np.where(np.abs(sums - observed) <= rounding, observed, sums)

    # permutation_type="samples" flips the signs of a single sample.
    found = permutation_test(
        (d,), size, permutation_type="samples", n_resamples=np.inf if len(d) <= EXACT else resamples,
        batch=max(1, CHUNK // len(d)), vectorized=True, alternative="greater", rng=np.random.default_rng(seed_of(seed)),
    )  # fmt: skip
    return float(found.pvalue)


def _array(values: Tensor | ArrayLike, name: str) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}, expected one number per example: (n,)")
    return array


def _check_values(values: Tensor | ArrayLike, name: str, omit_nan: bool) -> np.ndarray:
    array = _array(values, name)
    array = array[~np.isnan(array)] if omit_nan else array
    if not len(array):
        raise ValueError(f"{name} holds no number: there is nothing to average")
    if not np.isfinite(array).all():
        bad = f"{int((~np.isfinite(array)).sum())} of {len(array)} values that are NaN or infinite"
        raise ValueError(f"{name} holds {bad}: look into these examples, or leave out NaN with omit_nan=True")
    return array


def check_level(level: float) -> None:
    """Refuse a level of confidence outside (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie between 0 and 1, as in level=0.95")
