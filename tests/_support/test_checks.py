"""Settings that are no whole numbers get a sentence, wherever they are given."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import leastpath as lp
from leastpath._support.checks import (
    SUPERSCRIPTS,
    Range,
    as_points,
    check_features,
    check_integer,
    check_kind,
    check_setting,
    check_settings_of,
    check_tensor,
    seed_of,
    show_value,
    write_number,
)

SCORE, X = lp.Score(lambda x: x.prod(1)), torch.ones(1, 2)


POINTS = torch.rand(9, 2)


@pytest.mark.parametrize("given", [1, 7, np.int64(3), np.uint8(2)])
def test_whole_numbers_pass(given):
    check_integer("n", given, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "n=None must be a whole number: pass n=5"),
        (2.0, "n=2.0 must be a whole number"),
        ("2", "n='2' must be a whole number"),
        (True, "n=True must be a whole number"),
        (np.int64(0), "n=0 must be at least 1: pass n=5"),
    ],
)
def test_others_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        check_integer("n", given, 1, advice="pass n=5")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: lp.attribute(SCORE, X, seed=None), "seed=None must be a whole number"),
        (lambda: lp.attribute(SCORE, X, max_gradients=np.int64(0)), "max_gradients=0 must be at least 1, or None"),
        (lambda: lp.attribute(SCORE, X, n_steps=2.5), "n_steps=2.5 must be a whole number, or None"),
        (lambda: lp.Descent(max_gradients=None), r"max_gradients=None must be a whole number: .*max_gradients=10_000"),
        (lambda: lp.Descent(n_knots=2.0), "n_knots=2.0 must be a whole number"),
        (lambda: lp.GuidedIG(n_steps=None), "n_steps=None must be a whole number"),
        (lambda: lp.NeighborGraph(POINTS, n_neighbors=5.0), "n_neighbors=5.0 must be a whole number"),
        (lambda: lp.NeighborGraph(generate="line", n_points="200"), "n_points='200' must be a whole number"),
        (lambda: lp.EnhancedIG(POINTS, n_neighbors=5.0), "n_neighbors=5.0 must be a whole number"),
        (lambda: lp.Score(SCORE.model, batch_size=8.0), 'batch_size=8.0 must be a whole number, "auto" .*, or None'),
        (lambda: lp.attribute(SCORE, [X, X]), r"inputs is a list, .*a tuple: pass tuple\(inputs\)"),
        (lambda: lp.attribute(SCORE, [[1.0, 1.0]]), r"use torch.as_tensor\(inputs\)"),
    ],
)
def test_likely_mistakes(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_other_features_are_refused_with_both_shapes():
    check_features("start_from", (2, 3), torch.zeros(5, 2, 3).shape[1:])
    with pytest.raises(ValueError, match=r"start_from has features \(2,\), the inputs \(3,\): expected the same"):
        check_features("start_from", (2,), (3,))


# ---- settings by their types --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    count: int = 1
    share: float = 0.5
    name: Literal["a", "b"] = "a"
    maybe: int | None = None
    points: torch.Tensor | None = None
    flag: bool = False
    call: Callable[[], int] | None = None
    path: lp.Path | None = None

    def __post_init__(self) -> None:
        check_settings_of(self)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"count": 2.5}, "count=2.5 must be a whole number"),
        ({"count": True}, "count=True must be a whole number"),
        ({"share": math.nan}, "share=nan must be a number, and NaN is not a number"),
        ({"share": 1e39}, r"share=1e\+39 is beyond float32, which ends at 3.4e\+38: pass a smaller one"),
        ({"share": -1e39}, r"share=-1e\+39 is beyond float32"),
        ({"share": torch.tensor([1.0])}, r"share=a tensor of shape \(1,\) must be a number"),
        ({"share": None}, "share=None must be a number"),
        ({"name": "c"}, r"name='c' is unknown: use one of \['a', 'b'\]"),
        ({"maybe": "1"}, "maybe='1' must be a whole number, or None"),
        ({"points": np.ones(3)}, "points is a ndarray, expected a tensor: use torch.as_tensor"),
        ({"points": 3}, "points=3 must be a tensor, or None"),
        ({"flag": 1}, "flag=1 must be True or False"),
        ({"call": "f"}, "call='f' must be a function, or None"),
        ({"path": torch.ones(2)}, r"path=a tensor of shape \(2,\) must be a Path, or None"),
    ],
)
def test_settings_of_a_wrong_type_are_refused(setting, words):
    with pytest.raises(ValueError, match=words):
        Settings(**setting)


def test_numbers_of_numpy_become_pythons():
    given = Settings(count=np.int64(3), share=np.float32(0.5), maybe=np.int8(1))
    assert repr(given).startswith("Settings(count=3, share=0.5, name='a', maybe=1,")


@pytest.mark.parametrize("seed", [np.int64(3), 1_794_847_230_344_186_696, -5, 2**63 - 1, -(2**63)])
def test_seeds_of_every_size(seed):
    twice = [lp.attribute(SCORE, X, method=lp.Descent(60), seed=seed).values for _ in range(2)]
    assert torch.equal(*twice) and 0 <= seed_of(seed) < 2**63


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1.0], "x is a list, expected a tensor"),
        (torch.ones(2, 2).to_sparse(), "x is a sparse tensor"),
        (torch.ones(2, dtype=torch.complex64), r"x has dtype torch.complex64, expected real numbers"),
        (torch.ones(2, device="meta"), "x lies on the device meta"),
    ],
)
def test_tensors_that_are_no_ordinary_ones_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        check_tensor("x", given)


def test_points_become_floating_and_must_be_finite():
    assert as_points("p", torch.tensor([[1, 2]])).dtype == torch.float32
    with pytest.raises(ValueError, match=r"1 of 2 p hold NaN or infinite values \(first: row 1\)"):
        as_points("p", torch.tensor([[1.0], [math.inf]]))


def test_values_in_sentences_and_settings_that_pass():
    assert (show_value(0.5), show_value(torch.zeros(2, 3))) == ("0.5", "a tensor of shape (2, 3)")
    assert seed_of(-1) == 2**63 - 1
    check_integer("n_steps", None, 1, or_none=", or None")
    check_setting("spread", 0.5, float | None)
    check_setting("spread", math.inf, float | None)
    check_kind("out", "results", str, "a name in quotation marks")


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "words"),
    [
        (Range(least=1), 1, 0, "n=0 must be at least 1"),
        (Range(above=0), 0.1, 0, "n=0 must be positive"),
        (Range(above=2, hint="twice"), 3, 2, "n=2 must be above 2: twice"),
        (Range(least=0), 0, math.inf, "n=inf must be finite and at least 0"),
        (Range(least=0, below=None), math.inf, -1, "n=-1 must be at least 0"),
        (Range(least=0, most=1), 1, 1.5, "n=1.5 must be from 0 to 1"),
        (Range(above=0, most=1), 1, 0, "n=0 must be above 0 and at most 1"),
        (Range(above=0, below=1), 0.5, 1, "n=1 must be between 0 and 1"),
    ],
)
def test_ranges_in_types_against_their_words(bounds, inside, outside, words):
    check_setting("n", inside, Annotated[float, bounds])
    check_setting("n", None, Annotated[float, bounds] | None)
    with pytest.raises(ValueError, match=words):
        check_setting("n", outside, Annotated[float, bounds])


# ---- numbers for people. Oracle: read back, they are the number rounded to its digits --------------------------------


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
