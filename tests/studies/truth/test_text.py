"""Sentences, under an encoder made here in place of MiniLM. Oracle: its table of embeddings."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from leastpath._support.store import Store
from studies.findings.config import Setting
from studies.truth import text

PAD, FIRST, LAST, MASK = range(4)


class Encoder(nn.Module):
    """Its hidden states are the embeddings, one for each letter."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(200, 4)
        self.config = SimpleNamespace(hidden_size=4)

    def get_input_embeddings(self):
        return self.table

    def forward(self, input_ids, attention_mask):
        return SimpleNamespace(last_hidden_state=self.table(input_ids))


class Tokenizer:
    """A token for each letter, between a first and a last one."""

    pad_token_id, mask_token_id = PAD, MASK

    def __call__(self, texts, **_):
        ids = [torch.tensor([FIRST, *map(ord, one), LAST]) for one in texts]
        ids = nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)
        special = (ids == PAD) | (ids == FIRST) | (ids == LAST)
        return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "special_tokens_mask": special.long()}


def test_letters_move_and_special_tokens_never(tmp_path, monkeypatch):
    torch.manual_seed(0)
    encoder = Encoder()
    monkeypatch.setattr(text, "find_spec", lambda name: True)
    monkeypatch.setattr(text, "text_encoder", lambda: (encoder, Tokenizer()))
    (tmp_path / "text").mkdir()
    lines = [f"{'ab'[i % 2] * (25 + i % 5)}\t{i % 2}" for i in range(60)]
    (tmp_path / "text" / "sst2_train.tsv").write_text("\n".join(["too short\t1", *lines]))
    opened = text.open_sentences(Setting(Store(tmp_path / "store", {}), quick=True), tmp_path)
    problem = opened.problem([0, 4])
    # 40 sentences train the head; all a or all b is told without a fault.
    assert opened.examples == 20 and opened.quality == {"accuracy": 1.0}
    own, table = encoder.table(problem.inputs), encoder.table.weight
    length = torch.tensor([25, 29])[:, None]
    letters = (torch.arange(31) > 0) & (torch.arange(31) <= length)
    assert torch.equal(problem.labels[..., 0] >= 0, letters)
    for at, token in enumerate((MASK, PAD)):
        expected = torch.where(letters[..., None], table[token], own)
        torch.testing.assert_close(problem.baselines[:, at], expected)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"needs text/sst2_train\.tsv in the folder of --data"):
        text.open_sentences(Setting(Store(tmp_path / "store", {})), tmp_path)
