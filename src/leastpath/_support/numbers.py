"""Numbers written for people: 18,040 and 0.0021, not 1.804e+04 and 2.1e-03."""

from __future__ import annotations

import math

SMALLEST, LARGEST = 1e-4, 1e15  # beyond these, powers of ten are easier to read than zeros
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def write_number(value: float, digits: int = 3, *, sign: bool = False) -> str:
    """A number with so many significant digits, thousands apart; integers keep all of theirs.

    Args:
        value: any number.
        digits: significant digits, also of large numbers: what lies beyond them is rounded.
        sign: write + before positive numbers.
    """
    if math.isnan(value):
        return "–"
    plus = "+" if sign and value > 0 else ""
    if math.isinf(value):
        return f"{plus or '−' * (value < 0)}infinite"
    if value == 0:
        return "0"
    if isinstance(value, int):
        return f"{plus}{value:,}".replace("-", "−")
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if not SMALLEST <= abs(value) < LARGEST:
        text = f"{_trim(mantissa)} × 10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    else:
        decimals = max(0, digits - 1 - int(exponent))
        text = _trim(f"{float(f'{mantissa}e{exponent}'):,.{decimals}f}")
    return plus + text.replace("-", "−")


def _trim(text: str) -> str:
    """Without zeros at the end of decimals."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def in_words(seconds: float) -> str:
    """A time that is easy to read.

    Example:
        >>> in_words(0.0123), in_words(75), in_words(7300)
        ('12 ms', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.2g} ms"
    minutes, s = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {s} s" if minutes else f"{s} s"
