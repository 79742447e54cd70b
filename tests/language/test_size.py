"""Large models: what is kept is less, and the numbers are the same."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from leastpath.heads import input_device
from leastpath.language import Natural, explain
from leastpath.language.size import (
    check_gradients,
    checkpointed,
    count_saved_bytes,
    find_blocks,
    find_quantized,
    frozen,
)
from leastpath.language.toy import toy_model

pytest.importorskip("transformers")

IDS = torch.tensor([[2, 3, 4, 5, 6, 7]])


def gradient(model):
    vectors = model.get_input_embeddings()(IDS).detach().requires_grad_()
    logit = model(inputs_embeds=vectors, use_cache=False).logits[0, -1, 3]
    return torch.autograd.grad(logit, vectors)[0]


def test_frozen_and_checkpointed_models_keep_less_and_give_the_same_gradient():
    model, _ = toy_model(num_hidden_layers=4)
    expected = gradient(model)
    run = lambda: model(inputs_embeds=torch.zeros(1, 6, 16, requires_grad=True), use_cache=False)  # noqa: E731
    plain = count_saved_bytes(run, model)
    with frozen(model):
        torch.testing.assert_close(gradient(model), expected)
        less = count_saved_bytes(run, model)
        with checkpointed(model):
            torch.testing.assert_close(gradient(model), expected)
            least = count_saved_bytes(run, model)
    assert least < less < plain
    assert all(p.requires_grad for p in model.parameters()) and "forward" not in vars(find_blocks(model)[0])


def test_checkpointing_gives_the_same_explanation():
    model, tokenizer = toy_model()
    settings = {"baseline": Natural(["a dog ran"]), "method": "integrated_gradients", "support": False}
    plain = explain(model, tokenizer, "the cat sat", " on", **settings)
    saving = explain(model, tokenizer, "the cat sat", " on", checkpointing=True, **settings)
    torch.testing.assert_close(saving.values, plain.values)


def test_a_model_without_blocks_cannot_be_checkpointed():
    with pytest.raises(ValueError, match="Linear has no list of blocks"), checkpointed(nn.Linear(2, 2)):
        pass


def test_ids_go_where_the_embedding_runs():
    embedding = nn.Embedding(3, 2)
    assert input_device(nn.Sequential(embedding), embedding) == torch.device("cpu")
    far = nn.Embedding(3, 2, device="meta")
    far._hf_hook = SimpleNamespace(execution_device=1)
    assert input_device(nn.Sequential(far), far) == torch.device("cuda:1")
    assert input_device(nn.Sequential(far), nn.Embedding(3, 2, device="meta")) == torch.device("cpu")


def test_a_model_whose_weights_are_off_loaded(tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="off-loading is accelerate's")
    model, tokenizer = toy_model()
    settings = {"baseline": Natural(["a dog ran"]), "support": False}
    expected = [
        explain(model, tokenizer, "the cat sat", " on", method=m, **settings).values for m in (None, "staircase")
    ]
    far = accelerate.cpu_offload(toy_model()[0], execution_device=torch.device("cpu"))
    assert next(far.parameters()).device.type == "meta"
    for values, method in zip(expected, (None, "staircase"), strict=True):
        torch.testing.assert_close(
            explain(far, tokenizer, "the cat sat", " on", method=method, **settings).values, values
        )
    on_disk = accelerate.disk_offload(toy_model()[0], str(tmp_path), execution_device=torch.device("cpu"))
    torch.testing.assert_close(explain(on_disk, tokenizer, "the cat sat", " on", **settings).values, expected[0])


def test_a_model_that_is_spread_over_two_devices(tmp_path):
    """A map of a processor and a disk: the second layer's weights come and go, and hooks move what passes."""
    accelerate = pytest.importorskip("accelerate", reason="device maps are accelerate's")
    model, tokenizer = toy_model()
    settings = {"baseline": Natural(["a dog ran"]), "support": False}
    places = dict.fromkeys(("model.embed_tokens", "model.rotary_emb", "model.layers.0", "model.norm", "lm_head"), "cpu")
    far = accelerate.dispatch_model(
        toy_model()[0], places | {"model.layers.1": "disk"}, main_device="cpu", offload_dir=str(tmp_path),
        force_hooks=True,
    )  # fmt: skip
    assert {p.device.type for p in far.parameters()} == {"cpu", "meta"}
    for method in (None, "staircase", "integrated_gradients"):
        whole = explain(model, tokenizer, "the cat sat", " on", method=method, **settings)
        torch.testing.assert_close(
            explain(far, tokenizer, "the cat sat", " on", method=method, **settings).values, whole.values
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_of_half_precision_are_near_the_whole_ones(dtype):
    model, tokenizer = toy_model()
    settings = {"baseline": Natural(["a dog ran to"]), "support": False}
    whole = explain(model, tokenizer, "the cat sat on", " the", **settings)
    half = explain(model.to(dtype), tokenizer, "the cat sat on", " the", **settings)
    torch.testing.assert_close(half.values, whole.values, atol=0.25, rtol=0.1)
    assert torch.isfinite(explain(model, tokenizer, "the cat sat on", " the", support=False).values).all()


def test_quantised_weights_get_one_sentence():
    class Linear4bit(nn.Linear):
        pass

    model = nn.Sequential(Linear4bit(2, 2))
    assert find_quantized(model) == "Linear4bit" and not find_quantized(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"quantised weights \(Linear4bit\).* use method=\"leave_one_out\""):
        check_gradients(model, True, "integrated_gradients")
    check_gradients(model, False, "leave_one_out")
