"""What is run once gives what whole runs give; a cache that lies is found out."""

import pytest
import torch

from leastpath.language.answers import AnswerScores
from leastpath.language.prefix import PARTS, SharedPrefix, _share_alike, new_cache_of
from leastpath.language.toy import toy_model

hf = pytest.importorskip("transformers")
LENGTH = 12


def gpt2():
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=80, n_embd=16, n_layer=2, n_head=2, n_positions=32)).eval()


def scores(model, answer=(3, 4, 5)):
    ids = torch.arange(2, 2 + LENGTH)[None]
    module = AnswerScores(model, model.get_input_embeddings(), LENGTH - len(answer) + 1, torch.tensor(answer))
    vectors = module.embedding(ids).detach().repeat(LENGTH + 1, 1, 1)
    for row in range(LENGTH):
        vectors[row, row] += 1.0  # the last row differs nowhere
    return module, ids.expand(LENGTH + 1, -1), vectors


def run(module, ids, vectors):
    with module.probe.register_forward_hook(lambda *_: vectors), torch.no_grad():
        return module(ids, torch.ones_like(ids, dtype=torch.bool))


@pytest.mark.parametrize("make", [lambda: toy_model()[0], gpt2])
def test_against_whole_runs(make):
    module, ids, vectors = scores(make())
    found = run(module, ids, vectors)
    assert module._shared._is_trusted
    module._shared = None
    torch.testing.assert_close(found, run(module, ids, vectors), rtol=1e-4, atol=1e-5)


def test_fewer_positions_are_run():
    module, ids, vectors = scores(toy_model()[0])
    seen = []
    hook = module.model.model.layers[0].register_forward_hook(
        lambda _m, args, _out: seen.append(args[0].shape[:2].numel())
    )
    with hook:
        run(module, ids, vectors)
        first, seen[:] = sum(seen), []
        run(module, ids, vectors)
        again, seen[:] = sum(seen), []
        module._shared = None
        run(module, ids, vectors)
    assert again < 0.75 * sum(seen) and again < first


def test_a_model_that_forgets_its_cache_is_run_as_a_whole():
    model = toy_model()[0]
    whole = model.forward

    def forgetful(input_ids, past_key_values=None, use_cache=None, logits_to_keep=0):
        return whole(input_ids=input_ids, use_cache=use_cache, logits_to_keep=logits_to_keep)

    model.forward = forgetful
    module, ids, vectors = scores(model)
    found = run(module, ids, vectors)
    assert module._shared._is_trusted is False
    module._shared = None
    torch.testing.assert_close(found, run(module, ids, vectors))


def test_nothing_is_shared_where_it_does_not_pay():
    shared = SharedPrefix(None, None)
    ids = torch.zeros(2, 8, dtype=torch.long)
    own = torch.zeros(2, 8, 3)
    assert shared.logits(ids[:1], own[:1], own[:1], torch.tensor([7])) is None
    assert shared.logits(ids, own, own + 1, torch.tensor([7])) is None
    assert shared.logits(torch.tensor([[1], [2]]), own[:, :1], own[:, :1], torch.tensor([0])) is None


def test_rows_of_one_part_go_together():
    parts = list(_share_alike(torch.tensor([0, 11, 1, 6]), 12))
    assert [part.tolist() for part in parts] == [[0, 2], [3], [1]] and PARTS == 4


def test_models_of_others_have_no_cache():
    assert new_cache_of(torch.nn.Linear(2, 2)) is None and new_cache_of(toy_model()[0]) is hf.DynamicCache
