"""Values at the doors: checks of settings and tensors that many callers share, and numbers written for people."""

from __future__ import annotations

import collections.abc
import math
import numbers
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor


def check_integer(name: str, given: object, least: int | None = None, *, or_none: str = "", advice: str = "") -> None:
    """Raise ValueError unless `given` is a whole number of at least `least`.

    Args:
        name: of the setting.
        given: its value.
        least: the smallest value allowed; None allows all whole numbers that a computer counts, from −2⁶³ to 2⁶³ − 1.
        or_none: words that say that None is allowed too; empty if it is not.
        advice: the call that fixes it.
    """
    if given is None and or_none:
        return
    remedy = or_none + (f": {advice}" if advice else "")
    if isinstance(given, bool) or not isinstance(given, numbers.Integral):
        raise ValueError(f"{name}={show_value(given)} must be a whole number{remedy}")
    lowest = -SEEDS if least is None else least
    if not lowest <= int(given) < SEEDS:
        bound = "below 2⁶³, where computers stop counting" if int(given) >= SEEDS else f"at least {lowest}"
        raise ValueError(f"{name}={given} must be {bound}{remedy}")


def check_kind(name: str, given: object, kinds: type | tuple[type, ...], expected: str) -> None:
    """Raise ValueError unless a setting is of a kind. True and False are no numbers."""
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(given, wanted) or (isinstance(given, bool) and bool not in wanted):
        written = f"={given!r:.80}" if type(given).__module__ == "builtins" else ""
        raise ValueError(f"{name}{written} is a {type(given).__name__}, expected {expected}")


def check_features(what: str, given: Sequence[int], inputs: Sequence[int]) -> None:
    """Raise if something has other features than the inputs. `given` and `inputs` are shapes without the batch."""
    if tuple(given) != tuple(inputs):
        raise ValueError(f"{what} has features {tuple(given)}, the inputs {tuple(inputs)}: expected the same features")


check_seed = partial(check_integer, "seed", advice="the same one gives the same result, as seed=0 does")
SEEDS = 2**63  # as many as every generator takes


def seed_of(seed: object) -> int:
    """A seed that every generator takes, from NumPy's numbers, negative ones and `time.time_ns()`."""
    check_seed(seed)
    return int(seed) % SEEDS  # type: ignore[call-overload]


def show_value(given: object) -> str:
    """A value in an error sentence: what was written, or for numbers by the dozen, what they are."""
    if isinstance(given, Tensor):
        return f"a tensor of shape {tuple(given.shape)}"
    if isinstance(given, np.ndarray):
        return f"an array of shape {given.shape}"
    words = repr(given)
    return words if len(words) <= 80 else f"a {type(given).__name__}"


# ---- settings ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """Which numbers a setting may be, said in its type: `Annotated[float, Range(above=0, most=1)]`.

    Args:
        least: the smallest, or
        above: what it must be above.
        most: the largest, or
        below: what it must be below; infinity by default.
        hint: what it is, or the call that mends it, for the error.
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = math.inf
    hint: str = ""

    def __contains__(self, number: float) -> bool:
        return (
            (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
            and (self.below is None or number < self.below)
        )

    @property
    def words(self) -> str:
        """For "must be …"."""
        low = f"at least {self.least}" if self.above is None else f"above {self.above}"
        if self.most is not None:
            return f"from {self.least} to {self.most}" if self.above is None else f"{low} and at most {self.most}"
        if self.below not in (None, math.inf):
            return f"between {self.above} and {self.below}"
        return "positive" if self.above == 0 else low


Count = Annotated[int, Range(least=1)]
Positive = Annotated[float, Range(above=0)]
NotNegative = Annotated[float, Range(least=0)]
Share = Annotated[float, Range(above=0, most=1)]
Blurring = Annotated[float, Range(least=0, most=10_000, hint="pixels")]  # each pixel of a blur's reach takes memory
FLOAT32 = float(np.finfo(np.float32).max)


class Settings:
    """A frozen dataclass whose fields are checked when it is made: each holds what its type says."""

    def __post_init__(self) -> None:
        check_settings_of(self)


def check_settings_of(settings: Any) -> None:
    """Raise ValueError unless each field of a dataclass holds what its type says. Its `__post_init__` calls this first.

    Numbers of NumPy become Python's. NaN is no number, and float32 must hold all but infinite ones. A type may have a
    `Range`. Types of other kinds than numbers, words, tensors, functions and classes are not checked here.
    """
    kinds = kinds_of(type(settings))  # type: ignore[arg-type]  # classes are hashable, which mypy does not see
    for field in fields(settings):
        if field.init:
            given = getattr(settings, field.name)
            check_setting(field.name, given, kinds[field.name])
            if isinstance(given, np.generic):
                object.__setattr__(settings, field.name, given.item())


@lru_cache(maxsize=256)
def kinds_of(settings: Callable[..., Any]) -> dict[str, Any]:
    """The types of a class's fields or a function's parameters, resolved once: that takes longer than all the rest of a
    check. None where they cannot be: a user's function need not have types."""
    try:
        return get_type_hints(settings, include_extras=True)
    except (NameError, TypeError):
        return {}


def check_setting(name: str, given: object, kind: Any) -> None:
    """Raise ValueError unless one setting holds what its type says."""
    given_options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    ranges = [part for option in given_options for part in getattr(option, "__metadata__", ())]
    options = [get_args(option)[0] if get_origin(option) is Annotated else option for option in given_options]
    or_none = ", or None" if type(None) in options else ""
    remedy = or_none + "".join(f": {part.hint}" for part in ranges if part.hint)
    fits = [_fits(given, option) for option in options]
    if any(fits) or None in fits:
        for part in ranges:
            if isinstance(given, numbers.Real) and given not in part:
                finite = "finite and " if math.isinf(given) else ""
                raise ValueError(f"{name}={given} must be {finite}{part.words}{remedy}")
        return
    words = [option for option in options if get_origin(option) is Literal]
    if words and not any(option in (int, float, Tensor) for option in options):
        known = [choice for option in words for choice in get_args(option)]
        raise ValueError(f"{name}={show_value(given)} is unknown: use one of {known}{or_none}")
    if isinstance(given, float) and math.isnan(given):
        raise ValueError(f"{name}=nan must be a number, and NaN is not a number{or_none}")
    if isinstance(given, float) and float in options and FLOAT32 < abs(given) < math.inf:
        raise ValueError(f"{name}={given} is beyond float32, which ends at {FLOAT32:.3g}: pass a smaller one{or_none}")
    if Tensor in options and not isinstance(given, (str, bool, numbers.Number)):
        check_tensor(name, given)
    expected = " or ".join(_words(option) for option in options if option not in (type(None), type))
    raise ValueError(f"{name}={show_value(given)} must be {expected}{remedy}")


def _fits(given: object, kind: Any) -> bool | None:
    """Whether a value is of a kind; None where this cannot be known."""
    if kind is bool:
        return isinstance(given, (bool, np.bool_))
    if kind in (int, float):
        known = numbers.Integral if kind is int else numbers.Real
        if isinstance(given, bool) or not isinstance(given, known):
            return False
        if isinstance(given, numbers.Integral):
            return abs(int(given)) < SEEDS
        return abs(float(given)) <= FLOAT32 or math.isinf(given)
    if get_origin(kind) is Literal:
        return isinstance(given, str) and given in get_args(kind)
    if get_origin(kind) is collections.abc.Callable:
        return callable(given) and not isinstance(given, type)
    if get_origin(kind) is tuple:
        if not isinstance(given, (tuple, list, range)):
            return False
        parts = get_args(kind)
        kinds = parts[:1] * len(given) if parts[1:] == (...,) else parts
        return len(kinds) == len(given) and all(map(_holds, given, kinds))
    if isinstance(kind, type) and get_origin(kind) is None:
        try:
            return isinstance(given, kind)
        except TypeError:  # a protocol that cannot be checked while the program runs
            return None
    return None


def _holds(given: object, kind: Any) -> bool:
    """Whether a part of a setting is what its type says."""
    try:
        check_setting("", given, kind)
    except ValueError:
        return False
    return True


def _words(kind: Any) -> str:
    known = {bool: "True or False", int: "a whole number", float: "a number", Tensor: "a tensor", str: "a word"}
    if kind in known:
        return known[kind]
    if get_origin(kind) is Literal:
        return f"one of {list(get_args(kind))}"
    if get_origin(kind) is Annotated:
        return f"{_words(get_args(kind)[0])}, {kind.__metadata__[0].words}"
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        return f"a tuple, each part {_words(parts[0])}" if parts[1:] == (...,) else f"a tuple of {len(parts)}"
    return "a function" if get_origin(kind) is collections.abc.Callable else f"a {getattr(kind, '__name__', kind)}"


# ---- tensors -----------------------------------------------------------------------------------------------------


def check_tensor(name: str, given: object) -> None:
    """Raise ValueError unless `given` is an ordinary tensor of real numbers that are there."""
    if not isinstance(given, Tensor):
        raise ValueError(f"{name} is a {type(given).__name__}, expected a tensor: use torch.as_tensor({name})")
    if given.is_nested:
        remedy = f"torch.nested.to_padded_tensor({name}, 0.0)"
        raise ValueError(f"{name} is a nested tensor, whose rows differ in length: pad it, {remedy}")
    if given.layout is not torch.strided:
        raise ValueError(f"{name} is a sparse tensor, expected a dense one: pass {name}.to_dense()")
    if given.is_meta:
        raise ValueError(f"{name} lies on the device meta, so it holds no numbers: make it on the CPU or a GPU")
    if given.is_complex():
        remedy = f"torch.view_as_real({name})"
        raise ValueError(f"{name} has dtype {given.dtype}, expected real numbers: pass both parts, {remedy}")
    if given.is_quantized:
        raise ValueError(f"{name} is quantised, expected floating-point numbers: pass {name}.dequantize()")


def as_points(name: str, given: object) -> Tensor:
    """Points of data (n ≥ 1, *features) as floating-point numbers, all of them finite."""
    check_tensor(name, given)
    assert isinstance(given, Tensor)
    if given.ndim < 1 or not len(given):
        raise ValueError(f"{name} have shape {tuple(given.shape)}, expected at least one point, (n, *features)")
    points = given if given.is_floating_point() else given.to(torch.get_default_dtype())
    finite = torch.isfinite(points).reshape(len(points), -1).all(1)
    if not finite.all():
        bad, row = int((~finite).sum()), int((~finite).nonzero()[0])
        raise ValueError(
            f"{bad} of {len(points)} {name} hold NaN or infinite values (first: row {row}): drop them with "
            f"{name}[{name}.isfinite().flatten(1).all(1)]"
        )
    return points


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
