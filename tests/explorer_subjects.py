"""Small sources of every kind for the explorer's tests, and a client that talks to a server without a socket."""

import time
from contextlib import contextmanager

import pandas as pd
import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import seeded
from leastpath.explorer.safety import Gate
from leastpath.explorer.server import application
from leastpath.explorer.session import Session
from leastpath.explorer.sources.tables import TableSource
from leastpath.explorer.sources.tensors import TensorSource


def picture_net(channels: int = 3) -> nn.Module:
    """(n, channels, 12, 10) -> 4 classes, smooth."""
    layers = (lambda: nn.Conv2d(channels, 4, 3)), nn.Tanh, nn.Flatten, (lambda: nn.Linear(4 * 10 * 8, 4))
    return seeded(lambda: nn.Sequential(*(layer() for layer in layers))).eval().requires_grad_(False)


def picture_source(channels: int = 3, **more) -> TensorSource:
    images = seeded(lambda: torch.rand(2, channels, 12, 10))
    return TensorSource(lp.Score(picture_net(channels)), images, **more)


def table_frame() -> pd.DataFrame:
    numbers = seeded(lambda: torch.randn(12)).tolist()
    return pd.DataFrame({"age": [30 + 5 * x for x in numbers], "job": ["cook", "pilot", "nurse"] * 4})


def table_source() -> TableSource:
    net = seeded(lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).eval())
    frame = table_frame()
    return TableSource(lambda x: net(x / 10), frame[:3], frame, classes=["poor", "rich"])


def text_parts():
    """(model, tokenizer) of five words, one of which is cut in two."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "##s", "a"]
    inner = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]",
        mask_token="[MASK]",
    )  # fmt: skip
    config = transformers.BertConfig(
        vocab_size=10, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1},
    )  # fmt: skip
    return seeded(lambda: transformers.BertForSequenceClassification(config).eval()), tokenizer


def text_source():
    from leastpath.explorer.sources.texts import TextSource

    return TextSource(*text_parts(), ["a good films", "bad film"])


@contextmanager
def served(session):
    """A client of a session's server, by its right name."""
    starlette = pytest.importorskip("starlette.testclient")
    try:
        yield starlette.TestClient(application(session, Gate.of("127.0.0.1")), base_url="http://127.0.0.1:80")
    finally:
        session.close()


@contextmanager
def session_over(source, **how):
    session = Session(source, **how)
    try:
        yield session
    finally:
        session.close()


def finished(session, method: str, stiffness=None, **about) -> str:
    """The key of a method's result, waited for."""
    task = session.start({"method": method, "stiffness": stiffness, "about": about})
    assert task.finished.wait(120)
    assert task.state == "done", task.said
    return task.result


def asked(client, method: str, **more) -> dict:
    """The same through the server: the result."""
    task = client.post("/api/explain", json={"method": method, **more}).json()["task"]
    while (status := client.get(f"/api/tasks/{task}").json())["state"] == "running":
        time.sleep(0.02)
    assert status["state"] == "done", status
    return client.get(f"/api/results/{status['result']}").json()
