"""ModelCalls: no call is larger than a batch, and batches shrink where memory runs out."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import Counted, TextNet, flat_points, mlp, seeded

X = flat_points(5, 4)


def explain(score, inputs=X, baselines=None, **settings):
    return lp.attribute(score, inputs, baselines, method=lp.StraightLine(), **settings)


# ---- chunks and memory -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_no_call_is_larger_than_batch_size(batch_size):
    model = Counted(mlp())
    explain(lp.Score(model, 1, batch_size=batch_size))
    assert model.largest <= batch_size


def test_no_call_is_larger_than_batch_size_with_a_layer():
    largest = []
    net = seeded(TextNet).eval()
    net.register_forward_hook(lambda module, inputs, output: largest.append(len(output)))
    explain(lp.Score(net, 1, layer=net.embedding, batch_size=2), torch.randint(11, (5, 6)))
    assert max(largest) <= 2


def test_default_batch_size_is_that_of_the_larger_of_layer_and_input():
    """Every row pushes a raw input through the model, however small the layer's output is."""
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)).eval()
    images = torch.rand(1, 3, 300, 300)
    assert lp.Score(pooled, 0, layer=pooled[1]).bind(images).batch_size == lp.Score(pooled, 0).bind(images).batch_size
    widened = nn.Sequential(nn.Flatten(), nn.Linear(4, 3000), nn.Linear(3000, 2)).eval()
    assert lp.Score(widened, 0, layer=widened[1]).bind(torch.rand(1, 4)).batch_size == 524_288 // 3000


class OutOfMemoryAbove:
    """A model that holds at most `rows` rows, with gradients or without."""

    def __init__(self, rows: int, which: str, error: Exception) -> None:
        self.model, self.rows, self.which, self.error = mlp(), rows, which, error

    def __call__(self, x):
        kind = "gradients" if torch.is_grad_enabled() else "values"
        if len(x) > self.rows and self.which in (kind, "both"):
            raise self.error
        return self.model(x)


@pytest.mark.parametrize("which", ["values", "gradients", "both"])
@pytest.mark.parametrize("rows", [1, 3, 5, 11])
def test_out_of_memory_halves_the_batch_and_warns_once(which, rows):
    x = flat_points(18, 4)
    expected = explain(lp.Score(mlp(), 1), x)
    model = OutOfMemoryAbove(rows, which, torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.warns(RuntimeWarning, match=r"out of memory: batch_size was halved to \d+") as record:
        result = explain(lp.Score(model, 1, batch_size=16), x)
    assert len(record) == 1
    torch.testing.assert_close(result.values, expected.values, rtol=1e-4, atol=1e-5)
    assert torch.equal(result.n_gradients, expected.n_gradients)


@pytest.mark.parametrize("error", [MemoryError("no"), RuntimeError("MPS backend out of memory (…)")])
def test_other_words_for_out_of_memory(error):
    with pytest.warns(RuntimeWarning, match="out of memory"):
        explain(lp.Score(OutOfMemoryAbove(3, "gradients", error), 1))


@pytest.mark.filterwarnings("ignore:out of memory")
@pytest.mark.parametrize("which", ["values", "gradients"])
def test_out_of_memory_with_one_row_is_the_users_to_see(which):
    error = torch.OutOfMemoryError("CUDA out of memory")
    with pytest.raises(torch.OutOfMemoryError):
        explain(lp.Score(OutOfMemoryAbove(0, which, error), 1))


def test_out_of_memory_halves_the_batch_of_outputs():
    x = flat_points(18, 4)
    model = OutOfMemoryAbove(5, "values", torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.warns(RuntimeWarning, match="out of memory: batch_size was halved to 4"):
        found = lp.Score(model, batch_size=8).outputs(x)
    torch.testing.assert_close(found, mlp()(x).detach())


def test_other_runtime_errors_propagate():
    def model(x):
        raise RuntimeError("something of the model's own")

    with pytest.raises(RuntimeError, match="something of the model's own"):
        explain(lp.Score(model))
