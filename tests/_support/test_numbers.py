"""Numbers for people. Oracle: read back, they are the number rounded to its digits."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastpath._support.numbers import SUPERSCRIPTS, write_number


@pytest.mark.parametrize(
    "value, text",
    [
        (18042.7, "18,000"), (1e9, "1,000,000,000"), (999.96, "1,000"), (0.5, "0.5"), (-0.25, "−0.25"), (0.0, "0"),
        (0.0001, "0.0001"), (0.00009, "9 × 10⁻⁵"), (2.5e20, "2.5 × 10²⁰"), (123456, "123,456"), (math.nan, "–"),
        (-math.inf, "−infinite"),
    ],
)  # fmt: skip
def test_examples(value, text):
    assert write_number(value) == text


def test_signs_are_written_where_asked():
    assert [write_number(x, sign=True) for x in (0.5, -0.5, 0.0, 3)] == ["+0.5", "−0.5", "0", "+3"]


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 6))
def test_read_back(value, digits):
    back = {superscript: digit for digit, superscript in SUPERSCRIPTS.items()}
    text = write_number(value, digits).replace("−", "-").replace(",", "").replace(" × 10", "e").translate(back)
    assert float(text) == float(f"{value:.{digits - 1}e}") and "e+" not in write_number(value, digits)


def test_digits_of_large_numbers():
    assert (write_number(18042.7, 4), write_number(1.3e-7), write_number(1000), write_number(math.inf)) == (
        "18,040", "1.3 × 10⁻⁷", "1,000", "infinite",
    )  # fmt: skip
