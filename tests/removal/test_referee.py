"""The verdict on given values: additive scores whose truth is known, and what must not change it."""

import numpy as np
import pytest
import torch

import leastpath as lp
from leastpath.result.status import Outcome

N = 24


def additive(seed=0, n=N, batch=1):
    """Σ weight · x: its true values for a baseline of zero are weight · x."""
    g = torch.Generator().manual_seed(seed)
    weights, inputs = torch.randn(n, generator=g), torch.randn(batch, n, generator=g)
    return lp.Score(lambda x: x @ weights), inputs, inputs * weights


def outcomes(found):
    return [status.outcomes[0] for status in found.status]


def test_true_values_of_an_additive_score_are_supported():
    score, inputs, values = additive()
    found = lp.verdict(score, inputs, values)
    assert outcomes(found) == [Outcome.SUPPORTED] and found.status[0].ok
    assert found.support > 3 * found.chance and found.p_value.dtype == found.p_model.dtype == torch.float64
    assert found.status[0].value.endswith("that know the input but not the model.")


def test_a_result_carries_the_same_verdict():
    score, inputs, _ = additive(batch=2)
    result = lp.attribute(score, inputs, method="integrated_gradients")
    found = lp.verdict(score, inputs, result.values)
    for name in ("support", "p_value", "p_model"):
        torch.testing.assert_close(getattr(found, name), getattr(result, name).double(), rtol=1e-5, atol=1e-6)
    assert [status.notes[0] for status in result.status] == [status.notes[0] for status in found.status]
    assert torch.equal(found.support, found.by_fill["baseline"])
    assert set(found.by_fill) == {"baseline", "halfway", "three quarters"}


def test_methods_share_the_removals_of_a_referee():
    score, inputs, _ = additive(batch=2)
    referee = lp.Referee(score, inputs)
    first, second = (lp.attribute(score, inputs, method="integrated_gradients", support=referee) for _ in range(2))
    assert torch.equal(first.p_model, second.p_model) and (second.n_forwards < first.n_forwards - 500).all()
    assert [s.notes[0] for s in first.status] == [s.notes[0] for s in second.status]
    with pytest.raises(ValueError, match="Referee of other inputs"):
        lp.attribute(score, inputs + 1, support=referee)


def test_full_support_removes_more():
    score, inputs, _ = additive()
    usual, full = (lp.attribute(score, inputs, method="integrated_gradients", support=s) for s in (True, "full"))
    assert full.n_forwards > 3 * usual.n_forwards and torch.equal(full.support, usual.support)


def test_reversed_orders_are_unsupported_and_have_the_opposite_support():
    score, inputs, values = additive()
    right, wrong = lp.verdict(score, inputs, values), lp.verdict(score, inputs, -values)
    assert outcomes(wrong) == [Outcome.UNSUPPORTED] and not wrong.status[0].ok
    assert float(wrong.support) <= 0 < float(right.support)


def test_equal_values_have_p_1_and_no_support():
    score, inputs, _ = additive()
    found = lp.verdict(score, inputs, torch.ones(1, N))
    assert found.p_value == found.p_model == 1
    assert outcomes(found) == [Outcome.UNSUPPORTED]


def test_random_values_are_rarely_better_than_chance():
    score, inputs, _ = additive()
    many, g = inputs.expand(60, N), torch.Generator().manual_seed(5)
    found = lp.verdict(score, many, torch.randn(60, N, generator=g), n_removals=300)
    assert (found.p_value <= 0.05).sum() <= 9  # 99.9 % of a binomial of 60 at .05
    assert (found.p_model <= 0.05).sum() <= 9


def test_sizes_of_the_input_know_no_model():
    """|x − b| says much of an additive score with positive weights, and nothing that the input does not say."""
    supported = 0
    for seed in range(20):
        g = torch.Generator().manual_seed(seed)
        weights, inputs = torch.rand(N, generator=g), torch.rand(1, N, generator=g)
        score = lp.Score(lambda x, weights=weights: x @ weights)
        supported += outcomes(lp.verdict(score, inputs, inputs, n_removals=600)) == [Outcome.SUPPORTED]
    assert supported <= 4  # 99.9 % of a binomial of 20 at .05


def test_an_input_that_cannot_tell_is_undecided():
    _, inputs, values = additive()
    flat = lp.Score(lambda x: 0 * x.sum(1))
    found = lp.verdict(flat, inputs, values)
    assert outcomes(found) == [Outcome.UNDECIDED] and found.status[0].ok is None
    few = lp.verdict(lp.Score(lambda x: x.sum(1)), torch.ones(1, 3), torch.ones(1, 3))
    assert outcomes(few) == [Outcome.UNDECIDED] and few.chance.isnan() and few.p_value == 1
    assert "at least 4" in few.status[0].value


def test_the_numbering_of_a_table_does_not_matter():
    g = torch.Generator().manual_seed(3)
    weights, inputs, noise = torch.randn(3, N, generator=g).double()
    inputs, order = inputs[None], torch.randperm(N, generator=g)
    values = inputs * weights + noise
    mine = lp.verdict(lp.Score(lambda x: x @ weights), inputs, values)
    theirs = lp.verdict(lp.Score(lambda x: x @ weights[order]), inputs[:, order], values[:, order])
    assert mine.p_value == theirs.p_value and mine.p_model == theirs.p_model
    torch.testing.assert_close(mine.support, theirs.support)
    torch.testing.assert_close(mine.chance, theirs.chance)


def digits_like():
    g = torch.Generator().manual_seed(0)
    weights = torch.randn(3, 64, generator=g)
    score = lp.Score(lambda x: x.flatten(1) @ weights.T, torch.tensor([0, 2, 1, 0]))
    images = torch.rand(4, 1, 8, 8, generator=g)
    return score, images, images * weights[[0, 2, 1, 0]].view(4, 1, 8, 8)


def test_batch_equals_loop_for_images():
    score, images, values = digits_like()
    whole = lp.verdict(score, images, values, n_removals=300)
    for row, target in enumerate((0, 2, 1, 0)):
        one = lp.verdict(lp.Score(score.model, target), images[row : row + 1], values[row : row + 1], n_removals=300)
        for name in ("support", "chance", "p_value", "p_model", "n_forwards"):
            torch.testing.assert_close(getattr(one, name), getattr(whole, name)[row : row + 1])
        assert one.status[0] == whole.status[row]


@pytest.mark.parametrize("baselines", ["one", "several"])
def test_batch_equals_loop_for_tables(baselines):
    """No row stands in for another's features."""
    score, inputs, values = additive(batch=3 if baselines == "one" else 5)
    starts = None if baselines == "one" else torch.randn(5, 3, N, generator=torch.Generator().manual_seed(9))
    whole = lp.verdict(score, inputs, values, starts, n_removals=300)
    for row in range(len(inputs)):
        own = None if starts is None else starts[row : row + 1]
        one = lp.verdict(score, inputs[row : row + 1], values[row : row + 1], own, n_removals=300)
        torch.testing.assert_close(one.support, whole.support[row : row + 1])
        assert one.p_value == whole.p_value[row] and one.p_model == whole.p_model[row]


def test_the_same_seed_gives_the_same_verdict_and_another_one_another():
    score, inputs, values = additive()
    noisy = values + torch.randn(1, N, generator=torch.Generator().manual_seed(1))
    first, again, other = (lp.verdict(score, inputs, noisy, n_removals=300, seed=seed) for seed in (0, 0, 1))
    assert first.status == again.status and first.chance == again.chance and first.chance != other.chance


def test_arrays_and_maps_without_channels():
    score, images, values = digits_like()
    expected = lp.verdict(score, images, values, n_removals=300)
    for given in (values.numpy(), values[:, 0], values[:, 0].double().numpy()):
        found = lp.verdict(score, images, given, n_removals=300)
        assert found.status == expected.status


def photograph():
    """64 × 64 pixels; the score is the level of one spot, which holds 3 × 3 of 16 × 16 patches."""
    spot = torch.zeros(1, 3, 64, 64)
    spot[..., 12:24, 40:52] = 1
    image = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    return lp.Score(lambda x: (x * spot).sum((1, 2, 3))), image, spot


def test_photographs_cost_1536_removals_and_find_the_spot():
    score, image, spot = photograph()
    found = lp.verdict(score, image, spot * image)
    assert outcomes(found) == [Outcome.SUPPORTED]
    # 768 pairs; the support, 2 × 9 shares × 3 fills, of which those that end among the equal patches outside the spot
    # coincide; four random orders, 2 × 3 shares by the baseline; the image itself
    assert 1_536 <= found.n_forwards <= 1_536 + 54 + 24 + 8
    assert "copies of the map" in found.status[0].value
    assert outcomes(lp.verdict(score, image, image.flip(-1))) != [Outcome.SUPPORTED]


def test_tokens_are_removed_whole():
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(50, 6)
    head = torch.nn.Linear(6, 2)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = embedding, head

        def forward(self, ids):
            return self.head(self.embedding(ids).sum(1))

    ids = torch.randperm(49)[None, :16] + 1
    score = lp.Score(Net().eval(), 1, layer=embedding)
    shift = (head.weight[1] - head.weight[0]).detach()
    values = (embedding(ids) - embedding(torch.zeros_like(ids))).detach() * shift
    found = lp.verdict(score, ids, values)
    assert outcomes(found) == [Outcome.SUPPORTED]
    assert found.status == lp.verdict(score, ids, values.sum(-1)).status
    assert found.n_forwards <= 384 + 54 + 40


def test_groups_of_the_user_and_features_that_stay():
    score, inputs, values = additive()
    labels = torch.arange(N) // 3
    labels[-3:] = -1
    found = lp.verdict(score, inputs, values, groups=labels[None])
    assert found.p_value < 0.05
    same = lp.verdict(score, inputs, torch.where(labels < 0, 99.0, values), groups=labels[None])
    assert same.status == found.status  # what is never removed has no rank


def test_a_series_keeps_its_smoothness():
    g = torch.Generator().manual_seed(0)
    weights, inputs = torch.randn(2, 40, generator=g), torch.randn(1, 2, 40, generator=g)
    found = lp.verdict(lp.Score(lambda x: (x * weights).sum((1, 2))), inputs, inputs * weights)
    said = found.status[0].value  # no spread of random orders: moved copies vary more
    assert "moved copies" in said and "chance ±" not in said and found.p_value < 0.05


def test_a_tuple_of_inputs():
    score = lp.Score(lambda a, b: (3 * a).sum(1) - b.sum(1))
    a, b = torch.rand(1, 10), torch.rand(1, 10)
    assert outcomes(lp.verdict(score, (a, b), (3 * a, -b)))[0] in (Outcome.SUPPORTED, Outcome.BETTER_THAN_CHANCE)


def test_the_model_and_the_random_state_are_left_untouched():
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)).eval()
    before = {name: part.clone() for name, part in net.state_dict().items()}
    state = torch.get_rng_state()
    lp.verdict(lp.Score(net, 0), torch.rand(2, 6), torch.rand(2, 6), n_removals=100)
    after = torch.get_rng_state()
    torch.set_rng_state(state)
    torch.rand(2, 6), torch.rand(2, 6)
    assert torch.equal(after, torch.get_rng_state())
    assert all(torch.equal(part, before[name]) for name, part in net.state_dict().items())
    assert not net.training and all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"values": torch.ones(1, N + 1)}, r"values have shape \(1, 25\), what was explained \(1, 24\)"),
        ({"values": np.full((1, N), np.nan)}, "NaN or infinite numbers, which have no rank"),
        ({"values": [1.0] * N}, "values is a list, expected a tensor"),
        ({"draws": 5}, "draws=5 must be at least 19"),
        ({"n_removals": 3}, "n_removals=3 must be at least 40"),
        ({"groups": "words"}, "groups='words' is unknown"),
        ({"score": torch.nn.Linear(N, 2)}, r"score is a Linear, expected a Score: verdict\(lp.Score"),
    ],
)
def test_wrong_arguments_are_refused_with_a_sentence(change, sentence):
    score, inputs, values = additive()
    with pytest.raises(ValueError, match=sentence):
        lp.verdict(**{"score": score, "inputs": inputs, "values": values, **change})


def test_maps_of_the_wrong_size_are_refused():
    score, images, _ = digits_like()
    with pytest.raises(ValueError, match=r"\(4, 7, 8\), what was explained \(4, 1, 8, 8\).*without channels"):
        lp.verdict(score, images, torch.ones(4, 7, 8))
