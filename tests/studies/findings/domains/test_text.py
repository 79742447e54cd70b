"""Sentences. MiniLM is replaced by a bag of words. Oracle: one sentence, and one token, at a time."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, seeded
from leastpath._support.store import Store
from leastpath.evaluation.masking import Masking
from studies.findings.config import Setting
from studies.findings.domains import section as sections, text as texts
from studies.findings.domains.section import DOMAINS
from studies.findings.domains.text import Sentiment

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "not", "truly", "dull"]
TEXTS = ["a truly good film", "not good , a dull and bad film", "bad"]


class BagOfWords(nn.Module):
    """Its last hidden state is its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = seeded(lambda: nn.Embedding(len(WORDS), 8))
        self.config = SimpleNamespace(hidden_size=8)

    def get_input_embeddings(self):
        return self.embedding

    def forward(self, input_ids, attention_mask):
        return SimpleNamespace(last_hidden_state=self.embedding(input_ids))


@pytest.fixture
def tokenizer():
    hf, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    vocabulary = {word: i for i, word in enumerate(WORDS)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return hf.PreTrainedTokenizerFast(tokenizer_object=inner, **special)


@pytest.fixture
def model():
    model = Sentiment(BagOfWords(), 8)
    model.head.weight.copy_(3 * flat_points(2, 8, seed=1))
    return model.requires_grad_(False).eval()


def token_values(model, tokenizer):
    """Attributions of TEXTS from padding, by IG."""
    from leastpath.transformers import explain

    embedding = model.encoder.get_input_embeddings()
    return explain(model, tokenizer, TEXTS, baseline="pad", embedding=embedding, method=lp.StraightLine())


def probability(model, ids, predicted):
    return model(ids, torch.ones_like(ids)).softmax(1)[:, predicted]


def test_tokens_are_removed_as_a_loop_over_sentences_removes_them(model, tokenizer):
    """Oracle: one sentence at a time, token ids in place of vectors, the most important first."""
    explained = token_values(model, tokenizer)
    judge = texts._TextJudge(model, model.encoder.get_input_embeddings(), tokenizer, TEXTS)
    found = judge.removals(explained.result)
    for b, text in enumerate(TEXTS):
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        strengths = explained.values[b].abs()[1:-1]  # between [CLS] and [SEP]
        order = 1 + strengths.sort(descending=True, stable=True).indices
        predicted = int(model(ids, torch.ones_like(ids)).argmax())
        for fill, token in (("padding (baseline)", 0), ("[MASK]", 4)):
            lost = []
            for area in Masking().areas:
                masked = ids.clone()
                masked[0, order[: max(1, int(area * (len(order) + 1) + 0.5 + 1e-9))]] = token
                lost.append(probability(model, ids, predicted) - probability(model, masked, predicted))
            areas = torch.tensor(Masking().areas)
            expected = torch.trapezoid(torch.cat(lost), areas) / (areas[-1] - areas[0])
            torch.testing.assert_close(found[fill][b].float(), expected, rtol=1e-4, atol=1e-6)


def test_effects_of_single_tokens(model, tokenizer):
    """Oracle: one sentence and one token at a time."""
    judge = texts._TextJudge(model, model.encoder.get_input_embeddings(), tokenizer, TEXTS)
    effects = judge.effects()
    for b, text in enumerate(TEXTS):
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        predicted = int(model(ids, torch.ones_like(ids)).argmax())
        clean = probability(model, ids, predicted).log()
        for place in range(1, ids.shape[1] - 1):
            masked = ids.clone()
            masked[0, place] = tokenizer.mask_token_id
            expected = (probability(model, masked, predicted).log() - clean).abs()
            torch.testing.assert_close(effects[b, place : place + 1], expected, rtol=1e-3, atol=1e-5)
    assert (effects[~judge.free] == 0).all()
    agreement = judge.agreement(token_values(model, tokenizer).result)
    assert agreement[2] is None and all(-1 <= a <= 1 for a in agreement[:2])  # "bad" alone ranks nothing


def test_text_where_it_can_be_had(tmp_path, monkeypatch, tokenizer):
    lines = [f"{a} film {b} film {a}\t{label}" for a, b, label in [("good", "truly", 1), ("bad", "dull", 0)] * 12]
    file = tmp_path / "sentences.tsv"
    file.write_text("short\t1\n" + "\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(sections, "has_text", lambda setting: setting.sentences is not None)
    monkeypatch.setattr(texts, "text_encoder", lambda: (BagOfWords(), tokenizer))
    setting = Setting(Store(tmp_path / "store", {}), quick=True, sentences=file)
    pieces = [piece for piece in DOMAINS.measurements(setting) if piece.key.startswith("text")]
    records = {piece.key: piece.compute() for piece in pieces}
    assert len(records) == 3 and all(r["quality"] == [1.0] for r in records.values())
    section = DOMAINS.section(records)
    assert "all-MiniLM-L6-v2" in section and "| text, [MASK] |" in section and "ReLU" not in section


def test_sentences_need_the_encoder(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "ENCODER", "a_package_that_nobody_has")
    setting = Setting(Store(tmp_path / "store", {}), quick=True, sentences=tmp_path / "any.tsv")
    assert not any("text" in piece.key for piece in DOMAINS.measurements(setting))
