"""What the studies measure of an explanation, and how they write numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import median

import numpy as np
from torch import Tensor

from leastpath.evaluation.statistics import PairedTest, paired_test
from leastpath.result.attribution import Attribution
from studies.findings.study import Record

CLEAR = 0.05  # p-value up to which a difference is called clear


def evidence(result: Attribution) -> Record:
    """The numbers that every result carries, one an example.

    Example:
        >>> import torch, leastpath as lp
        >>> result = lp.attribute(lp.Score(lambda x: x.sum(1)), torch.ones(2, 3), method=lp.StraightLine())
        >>> evidence(result)["length_ratio"]
        [1.0, 1.0]
    """
    return {
        "change": listed(result.score_change),
        "cancellation": listed(result.cancellation),
        "length": listed(result.length),
        "length_ratio": listed(result.length_ratio),
        "gap": listed(result.completeness_gap),
        "gradients": listed(result.n_gradients),
        "ok": [status.ok is not False for status in result.status],
    }


def listed(numbers: Tensor) -> list[float | None]:
    """(n,) as JSON, to six digits: what is not finite becomes None.

    Example:
        >>> import torch
        >>> listed(torch.tensor([0.5, torch.nan]))
        [0.5, None]
    """
    return [float(f"{x:.6g}") if math.isfinite(x) else None for x in numbers.detach().double().cpu().tolist()]


def known(numbers: Sequence[float | None]) -> list[float]:
    """Those that are numbers.

    Example:
        >>> known([0.5, None])
        [0.5]
    """
    return [x for x in numbers if x is not None]


def middle(numbers: Sequence[float | None]) -> float:
    """The median of what is known; NaN of nothing.

    Example:
        >>> middle([1.0, None, 3.0])
        2.0
    """
    some = known(numbers)
    return median(some) if some else math.nan


def mean(numbers: Sequence[float | None]) -> float:
    """The mean of what is known; NaN of nothing.

    Example:
        >>> mean([1.0, None, 3.0])
        2.0
    """
    some = known(numbers)
    return sum(some) / len(some) if some else math.nan


def written(number: float, digits: int = 2) -> str:
    """Rounded to so many significant digits, a dash for no number.

    Example:
        >>> written(0.012345), written(1234.5), written(math.nan)
        ('0.012', '1,234', '–')
    """
    if not math.isfinite(number):
        return "–"
    if number == 0:
        return "0"
    sign, size = "−" if number < 0 else "", abs(number)
    if size >= 10**digits:
        return f"{sign}{size:,.0f}"
    places = max(0, digits - 1 - math.floor(math.log10(size)))
    return sign + (f"{size:.1e}" if places > 5 else f"{size:.{places}f}")


def enumerated(words: Sequence[str]) -> str:
    """In words.

    Example:
        >>> enumerated(["black", "white", "grey"]), enumerated(["black"]), enumerated([])
        ('black, white and grey', 'black', '')
    """
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def difference(a: Sequence[float | None], b: Sequence[float | None]) -> str:
    """mean(a − b) over the same examples, with the p-value of a paired test.

    Example:
        >>> difference([3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        '+2.0 (p 0.03)'
    """
    test = paired(a, b)
    if test is None:
        return "–"
    sign = "+" if test.difference >= 0 else "−"
    return f"{sign}{written(abs(test.difference))} (p {written(test.p_value, 1)})"


def paired(a: Sequence[float | None], b: Sequence[float | None]) -> PairedTest | None:
    """The test of a − b over the examples where both are known; None for fewer than two.

    Example:
        >>> paired([1.0, None], [0.0, 0.0]) is None
        True
    """
    pairs = tuple((x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None)
    return _tested(pairs) if len(pairs) > 1 else None


@functools.cache  # words and table ask for the same tests
def _tested(pairs: tuple[tuple[float, float], ...]) -> PairedTest:
    return paired_test([x for x, _ in pairs], [y for _, y in pairs])


def direction(a: Sequence[float | None], b: Sequence[float | None]) -> int:
    """1 where a is clearly above b over the same examples, −1 where below, 0 where it is not clear.

    Example:
        >>> direction([3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        1
    """
    test = paired(a, b)
    return 0 if test is None or test.p_value > CLEAR else 1 if test.difference > 0 else -1


def rank_correlation(a: Sequence[float | None], truth: Sequence[float | None]) -> float:
    """Spearman's correlation over examples; NaN where one of the two is the same for all.

    Example:
        >>> rank_correlation([1.0, 2.0, 3.0], [1.0, 10.0, 100.0])
        1.0
    """
    x, y = _ranked(a, truth)
    return float(_correlations(x, y, np.arange(len(x))[None])[0])


def correlation_gain(
    a: Sequence[float | None], b: Sequence[float | None], truth: Sequence[float | None]
) -> tuple[float, float, float]:
    """By how much a's rank correlation with the truth is above b's, and the ends of its 95 % bootstrap interval.

    Example:
        >>> gain, low, high = correlation_gain([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0])
        >>> gain
        2.0
    """
    x, y, z = _ranked(a, b, truth)
    rows = np.random.default_rng(0).integers(0, len(z), (2000, len(z)))
    gains = _correlations(x, z, rows) - _correlations(y, z, rows)
    low, high = np.nanquantile(gains, [0.025, 0.975]) if np.isfinite(gains).any() else (np.nan, np.nan)
    return rank_correlation(a, truth) - rank_correlation(b, truth), float(low), float(high)


def _ranked(*lists: Sequence[float | None]) -> list[np.ndarray]:
    from scipy.stats import rankdata

    return [np.asarray(rankdata(np.array(numbers, dtype=float))) for numbers in lists]


def _correlations(x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Pearson's correlation of x and y (n,) over each sample of examples (samples, n): (samples,)."""
    u, v = (z[rows] - z[rows].mean(1, keepdims=True) for z in (x, y))
    spread = np.sqrt((u * u).sum(1) * (v * v).sum(1))
    return np.where(spread > 0, (u * v).sum(1) / np.where(spread > 0, spread, 1), np.nan)
