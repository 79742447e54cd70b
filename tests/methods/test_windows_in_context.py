"""Windows in context. Oracles: closed forms of linear scores, models that look nowhere near the border, other seeds."""

from itertools import chain, product

import pytest
import torch
from scipy.stats import spearmanr

import leastpath as lp
from helpers import Counted, seeded
from leastpath.methods import METHODS
from leastpath.methods.windows_in_context import draw_halves, estimate_agreement, smooth_maps, windows_in_context

in_context = METHODS["windows_in_context"]


def picture(n=1, side=32):
    return torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0))


def net(classes=4):
    def make():
        layers = [torch.nn.Conv2d(3, 8, 5, 2), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3), torch.nn.ReLU()]
        return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(8 * 12 * 12, classes)).eval()

    return seeded(make)


@pytest.mark.parametrize("quality", ["fast", "default", "best"])
def test_a_linear_score_in_closed_form(quality):
    """Whatever the context a window of a linear score gains Σ w (x − x̄) over it: nothing is taken back."""
    x, w = torch.ones(1, 1, 32, 32), torch.zeros(32, 32)
    w[8:16, 8:16] = 1.0
    result = in_context(lp.Score(lambda x: (x[:, 0] * w).sum((1, 2))), x, 0.0, quality=quality)
    values = result.values[0, 0]
    assert values[12, 12] > 4 * values[24, 24].abs() and values.argmax() // 32 in range(6, 18)
    torch.testing.assert_close(result.certificate, torch.ones(1))
    torch.testing.assert_close(result.score_change, torch.tensor([64.0]))
    torch.testing.assert_close(values.sum(), torch.tensor(64.0))


def test_all_orders_in_which_windows_stay_together():
    """Oracle: each tree of 2 × 2 pixels has three cuts, so eight orders; a pixel gets the mean of what it adds."""
    x = torch.tensor([[[[2.0, 3.0], [0.5, -1.0]]]])
    score = lp.Score(lambda x: x[:, 0, 0, 0] * (1 + x[:, 0, 0, 1]) - x[:, 0].prod(1).prod(1) + x[:, 0, 1, 1])
    expected = torch.zeros(2, 2)
    for tree in range(3):
        members, cuts = draw_halves((2, 2), f"0 {tree} 0")
        cut = int(cuts[0, 4])
        assert cut == 2
        for turned in product([False, True], repeat=3):
            pairs = [[0, 1][:: -1 if turned[1] else 1], [2, 3][:: -1 if turned[2] else 1]]
            point = torch.zeros_like(x)
            for number in chain(*pairs[:: -1 if turned[0] else 1]):
                before, point = score(point), torch.where(members == number, x, point)
                expected[members == number] += (score(point) - before) / (3 * 8)
    values = in_context(score, x, 0.0, quality="fast", support=False).values[0]
    torch.testing.assert_close(values, smooth_maps(expected[None]))


def test_a_model_that_looks_nowhere_near_the_border_gets_nothing_there():
    """Windows are halved where something is gained, so those that reach the border are left with nothing."""
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(8, 8, generator=generator)
    score = lp.Score(lambda x: ((x[:, 0, 12:20, 12:20] * w).sum((1, 2)) * 3).sin() * 5)
    values = in_context(score, picture()[:, :1], 0.0, quality="best").values[0, 0]
    border = torch.ones(32, 32, dtype=torch.bool)
    border[2:-2, 2:-2] = False
    assert values[border].abs().max() < 0.02 * values.abs().max()
    for seed in range(3):  # a window that is not halved any more may tint some of it
        values = in_context(score, picture()[:, :1], 0.0, seed=seed, support=False).values[0, 0].abs()
        assert values[border].mean() < 0.01 * values[12:20, 12:20].mean()


def test_noise_everywhere_is_not_brighter_at_the_border():
    """Gains of random size, whatever a window's area: no window is cut by the border."""
    w = torch.rand(32, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    score, x = lp.Score(lambda x: ((x[:, 0] * w).sum((1, 2)) * 1e3).sin()), torch.ones(1, 1, 32, 32).double()
    runs = [in_context(score, x, 0.0, seed=seed, support=False).values[0, 0].abs() for seed in range(20)]
    mean = torch.stack(runs).mean(0)
    inner = mean[8:-8, 8:-8].mean()
    assert mean[:2].mean() < 2.5 * inner and mean[:, -2:].mean() < 2.5 * inner


def test_a_model_that_looks_at_one_border_gets_nothing_at_the_opposite_one():
    score = lp.Score(lambda x: 5 * x[:, 0, :4].mean((1, 2)).sin())
    values = in_context(score, picture()[:, :1], 0.0).values[0, 0]
    assert values[:4].mean() > 10 * values[-8:].abs().max()


@pytest.mark.parametrize("sides", [(30, 45), (8, 8), (4, 4), (128, 32), (2, 9), (1, 1)])
def test_a_tree_halves_every_window_and_each_is_a_run_of_numbers(sides):
    """Oracle: by definition, from the numbers and the cuts alone."""
    members, cuts = draw_halves(sides, "any")
    assert torch.equal(members.unique(), torch.arange(len(cuts)))
    windows = [(0, len(cuts))]
    while windows:
        begin, end = windows.pop()
        inside = (members >= begin) & (members < end)
        down, across = inside.any(1).sum(), inside.any(0).sum()
        assert inside.sum() == down * across  # a rectangle
        if end - begin == 1:
            assert max(down, across) <= max(1, 1.5 * max(sides) / 16)
            continue
        cut = int(cuts[begin, end])
        side = max(int(down), int(across))
        halves = [int(((members >= a) & (members < b)).sum()) for a, b in ((begin, cut), (cut, end))]
        assert sum(halves) == inside.sum() and 0.35 * side - 0.51 <= min(halves) * side / inside.sum()
        windows += [(begin, cut), (cut, end)]


def test_smoothing_keeps_totals_and_constants():
    maps = torch.rand(2, 20, 33, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(smooth_maps(maps).sum((1, 2)), maps.sum((1, 2)))
    torch.testing.assert_close(smooth_maps(torch.ones(1, 9, 9)), torch.ones(1, 9, 9))


def test_a_softmax_is_read_as_its_logit_and_the_status_says_so():
    x, model = picture(), net()
    of_logit, of_softmax = (in_context(lp.Score(model, 1, output), x, quality="fast") for output in ("raw", "softmax"))
    assert torch.equal(of_logit.values, of_softmax.values)
    assert "Read in the logit, not in its softmax" in of_softmax.status[0].value
    with torch.no_grad():
        black, mean = (model(start)[:, 1] for start in (0 * x, x.mean((2, 3), keepdim=True).expand_as(x)))
        torch.testing.assert_close(of_softmax.score_change, model(x)[:, 1] - (black + mean) / 2)


def test_without_baselines_they_are_black_and_the_mean_colour():
    x, score = picture(2), lp.Score(net(), 1)
    given = lp.several("black", "mean").of(x)
    result, same = in_context(score, x, quality="fast"), in_context(score, x, given, quality="fast")
    torch.testing.assert_close(result.values, same.values)
    torch.testing.assert_close(result.path_spread, same.path_spread)


def test_batch_equals_loop_and_costs_are_those_that_were_said():
    x, counted = picture(2), Counted(net())
    score = lp.Score(counted, torch.tensor([1, 3]))
    batch = in_context(score, x, 0.0, quality="fast", support=False)
    assert int(batch.n_forwards.sum()) == counted.value_rows
    said = in_context.with_settings(quality="fast").cost((3, 32, 32))[1]
    assert said <= int(batch.n_forwards[1]) <= said + 8  # besides: the ends, and checks
    for b, target in enumerate((1, 3)):
        alone = in_context(lp.Score(net(), target), x[b : b + 1], 0.0, quality="fast")
        torch.testing.assert_close(batch.values[b], alone.values[0], atol=1e-6, rtol=1e-4)
        torch.testing.assert_close(batch.stats["agreement"][b], alone.stats["agreement"][0])


def test_qualities_cost_what_they_promise():
    """With two baselines at 128 pixels, three forwards counted as a gradient: the numbers of its docstring."""
    for quality, worth in (("fast", 56), ("default", 448), ("best", 960)):
        forwards = 2 * in_context.with_settings(quality=quality).cost((3, 128, 128))[1]
        assert forwards / 3 == worth and f"{worth}" in str(windows_in_context.__doc__), quality


def test_agreement_with_another_seed_is_foretold():
    x, score = picture(4), lp.Score(net(), 1)
    one, other = (in_context(score, x, seed=seed, support=False) for seed in (0, 1))
    patches = [torch.nn.functional.avg_pool2d(r.values.sum(1, keepdim=True), 2).flatten(1) for r in (one, other)]
    measured = torch.tensor([spearmanr(a, b)[0] for a, b in zip(*patches, strict=True)])
    assert (measured.mean() - one.stats["agreement"].mean()).abs() < 0.1
    assert "would agree 0." in one.status[0].value
    same = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(estimate_agreement(same, same), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(estimate_agreement(same, -same), -torch.ones(3, dtype=torch.float64))


def test_standard_errors_shrink_with_more_trees_and_cover_other_seeds():
    x, score = picture(), lp.Score(net(), 1)
    runs = [in_context(score, x, 0.0, seed=seed, support=False) for seed in range(8)]
    spread = torch.stack([run.values for run in runs]).std(0).mean()
    said = torch.stack([run.path_spread for run in runs]).mean()
    assert 0.5 < spread / said < 2
    assert in_context(score, x, 0.0, quality="best").path_spread.mean() < said


def test_what_is_no_picture_is_refused():
    with pytest.raises(ValueError, match=r"needs images .*got \(1, 4\): use method=\"staircase\""):
        in_context(lp.Score(lambda x: x.sum(1)), torch.ones(1, 4))
    with pytest.raises(ValueError, match="quality='good' is unknown: use one of"):
        in_context(lp.Score(net(), 0), picture(), quality="good")


def test_a_tolerance_draws_trees_until_another_seed_would_agree_and_then_it_does():
    x, score = picture(), lp.Score(net(), 1)
    results = [in_context(score, x, tolerance=0.2, max_gradients=10_000, support=False, seed=s) for s in (0, 1)]
    assert all(float(r.stats["agreement"]) >= 0.8 and lp.Outcome.REACHED in r.status[0] for r in results)
    assert spearmanr(*(patch_means(r) for r in results))[0] > 0.65
    assert "within tolerance=0.2" in results[0].status[0].value


def test_a_budget_ends_the_rounds_and_the_status_says_so():
    x, counted = picture(), Counted(net())
    result = in_context(lp.Score(counted, 1), x, tolerance=0.001, max_gradients=450, support=False)
    assert lp.Outcome.BUDGET_SPENT in result.status[0] and not result.status[0].ok
    assert counted.value_rows <= 3 * 450 + 10 and result.stats["rounds"] == [1]
    more = in_context(lp.Score(net(), 1), x, tolerance=0.001, max_gradients=900, support=False)
    assert more.stats["rounds"][0] > 1 and more.path_spread.mean() < result.path_spread.mean()


def test_an_interruption_loses_at_most_a_round():
    class Tired(torch.nn.Module):
        def __init__(self, after):
            super().__init__()
            self.inner, self.left = net(), after

        def forward(self, x):
            self.left -= len(x)
            if self.left < 0:
                raise KeyboardInterrupt
            return self.inner(x)

    x = picture(2)
    with pytest.raises(lp.Interrupted) as caught:
        in_context(lp.Score(Tired(900).eval(), 1), x, 0.0, support=False)  # one example takes 676 forwards
    result = caught.value.result
    whole = in_context(lp.Score(net(), 1), x[:1], 0.0, support=False)
    torch.testing.assert_close(result.values[0], whole.values[0])
    assert lp.Outcome.INTERRUPTED in result.status[1] and lp.Outcome.INTERRUPTED not in result.status[0]
    assert torch.isfinite(result.values[1]).all() == ("after 1 rounds" in result.status[1].value)


def patch_means(result):
    return torch.nn.functional.adaptive_avg_pool2d(result.values.sum(1), 16).flatten()


def test_pixels_on_request_leave_the_sums_over_windows():
    """A score of single bright pixels: with detail they stand out, and what a quarter of the side has stays."""
    w = torch.zeros(32, 32)
    w[10:22:4, 10:22:4] = 1.0
    score, x = lp.Score(lambda x: (x[:, 0] * w).sum((1, 2))), torch.ones(1, 1, 32, 32)
    whole, fine = (in_context(score, x, 0.0, detail=detail, support=False) for detail in ("windows", "pixels"))
    assert fine.values[0, 0][w > 0].mean() > 3 * whole.values[0, 0][w > 0].mean()
    sums = [torch.nn.functional.avg_pool2d(r.values, 8).flatten() for r in (whole, fine)]
    assert torch.corrcoef(torch.stack(sums))[0, 1] > 0.8 and int(fine.n_gradients) == 50
    with pytest.raises(ValueError, match="use one of \\['windows', 'pixels'\\]"):
        in_context(score, x, detail="cells")
