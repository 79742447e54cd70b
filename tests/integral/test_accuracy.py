"""What sums may err by."""

import pytest
import torch

from leastpath.integral.accuracy import Accuracy, Errors, Sums, averaged_errors, size_of_error


def example(**given) -> Sums:
    """One example with values (3, -1), Δf = 2, and a score between 0 and 4."""
    numbers = {"length": 5, "residual": 0.01, "moved": 0.01, "length_moved": 0.01, "pieces": 3, "low": 0, "high": 4}
    numbers |= {"change": 2, "rival": torch.nan} | given
    return Sums(torch.tensor([[3.0, -1.0]]), **{name: torch.tensor([float(n)]) for name, n in numbers.items()})


def test_allowed_errors_against_their_definition():
    attribution, gap, length, residual = (float(part) for part in example().allowed(0.1, 0.0, 0.1))
    assert (attribution, gap, length, residual) == pytest.approx((0.4, 0.2, 0.5, 0.4))
    assert float(example(change=1).allowed(0.1, 0.0, 0.1).residual) == pytest.approx(0.1)  # not complete: gap 1
    assert float(example(change=0).allowed(0.1, 0.0, 0.1).gap) == pytest.approx(0.1 * 0.01 * 4)  # of the score's range
    assert float(example().allowed(0.1, 1e-3, 0.1).gap) == pytest.approx(0.2 + 64 * 1e-3 * 4)


def test_a_length_that_is_only_compared_against_its_definition():
    """Length 5: 10 % beside a length far away, half of the difference beside a near one, its own 1 % at least."""
    for rival, allowed in ((50.0, 0.5), (0.1, 0.5), (5.4, 0.2), (5.0, 0.05)):
        assert float(example(rival=rival).allowed(0.1, 0.0, 0.01).length) == pytest.approx(allowed)


def test_averaged_errors_against_random_walks():
    """Independent moves of 400 pieces in 50 features: the estimate is near the true move of the sum, far below Σ."""
    generator = torch.Generator().manual_seed(0)
    moves = torch.randn(20, 400, 50, generator=generator, dtype=torch.float64)
    true = size_of_error(moves.sum(1))
    halves = size_of_error(moves.flatten(0, 1)).view(20, 400, 1).repeat_interleave(2, 1) / 2  # one a part
    totals, squares = (part.sum(1).expand(-1, 3) for part in (halves, halves**2))
    found = averaged_errors(totals, squares, true, torch.zeros_like(true))
    assert ((found[:, 1] >= true) & (found[:, 1] < 1.5 * true) & (found[:, 1] < 0.1 * totals[:, 1])).all()
    coherent = averaged_errors(totals, squares, totals[:, 1], totals[:, 2])  # moves of one sign: nothing cancels
    torch.testing.assert_close(coherent[:, 1:], totals[:, 1:])


@pytest.mark.parametrize("wrong", [{"moved": 0.41}, {"change": 1.7}, {"length_moved": 0.51}, {"residual": 0.41}])
def test_an_example_is_done_when_every_error_is_within(wrong):
    assert example().errors.within(example().allowed(0.1, 0.0, 0.1), "all").all()
    sums = example(**wrong)
    assert not sums.errors.within(sums.allowed(0.1, 0.0, 0.1), "all").any()
    assert sums.errors.within(sums.allowed(0.1, 0.0, 0.1), "length").all() == ("length_moved" not in wrong)


def test_flat_and_taken():
    assert not example().flat.any() and not example(high=0).flat.any()  # there are values, then
    assert example(high=0)._replace(values=torch.zeros(1, 2)).flat.all()
    twice = Sums(*(torch.cat([a, b]) for a, b in zip(example(), example(length=7), strict=True)))
    assert twice.take(torch.tensor([1])).length.tolist() == [7] and isinstance(twice.errors, Errors)


def test_errors():
    with pytest.raises(ValueError, match="rule='simpson' is unknown: use one of"):
        Accuracy(rule="simpson")
    with pytest.raises(ValueError, match="n_steps=0 must be at least 1"):
        Accuracy(tolerance=None, n_steps=0, rule="midpoint")
