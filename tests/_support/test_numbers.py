"""Numbers for people. Oracle: read back, they are the number rounded to its digits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastpath._support.numbers import SUPERSCRIPTS, written


@pytest.mark.parametrize(
    "value, text",
    [
        (18042.7, "18,000"), (1e9, "1,000,000,000"), (999.96, "1,000"), (0.5, "0.5"), (-0.25, "−0.25"), (0.0, "0"),
        (0.0001, "0.0001"), (0.00009, "9 × 10⁻⁵"), (2.5e20, "2.5 × 10²⁰"), (123456, "123,456"), (math.nan, "–"),
        (-math.inf, "−infinite"),
    ],
)  # fmt: skip
def test_examples(value, text):
    assert written(value) == text


def test_signs_are_written_where_asked():
    assert [written(x, sign=True) for x in (0.5, -0.5, 0.0, 3)] == ["+0.5", "−0.5", "0", "+3"]


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 6))
def test_read_back(value, digits):
    back = {superscript: digit for digit, superscript in SUPERSCRIPTS.items()}
    text = written(value, digits).replace("−", "-").replace(",", "").replace(" × 10", "e").translate(back)
    assert float(text) == float(f"{value:.{digits - 1}e}") and "e+" not in written(value, digits)


def test_digits_of_large_numbers():
    assert (written(18042.7, 4), written(1.3e-7), written(1000), written(math.inf)) == (
        "18,040", "1.3 × 10⁻⁷", "1,000", "infinite",
    )  # fmt: skip
