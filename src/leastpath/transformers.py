"""Hugging Face models: texts through their embeddings, images through their processors.

The model is called as it always is, with token ids; only the embedding's answer is replaced along the path. Padding
and, unless asked otherwise, special tokens stay what they are, so their attribution is exactly zero.
"""

from __future__ import annotations

import html
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from leastpath._support.checks import check_integer, write_number
from leastpath._support.files import write_atomically
from leastpath.attribution import attribute
from leastpath.heads import Head, ReplacedTokens, Text, find_head, input_device
from leastpath.removal.verdict import headline
from leastpath.report.tokens import colour, text_html
from leastpath.result.attribution import Attribution
from leastpath.result.status import Note, Outcome, Status
from leastpath.score.arguments import per_example
from leastpath.score.calls import Output, leave_untouched
from leastpath.score.score import Score, bind_paths, rows_of, with_classes

TextBaseline = Literal["pad", "mask", "zero"]
CERTAIN, ALMOST = 0.8, 0.9  # a baseline that gives a class with so much, and so much of what the text gives it
MOST_TRIED = 64  # words, where it does
ImageBaseline = Literal["black", "white", "mean"]


@dataclass(frozen=True, repr=False, kw_only=True)
class _Explained:
    """What explanations of texts and of images have in common."""

    target: Tensor
    """(batch,) the class explained; −1 where the model has a single output."""
    target_names: tuple[str, ...]
    """Its name in the model's configuration."""
    scores: Tensor
    """(batch,) of the inputs."""
    base_values: Tensor
    """(batch,) of the baselines: `base_values + Σ values` is the score, up to the completeness gap."""
    result: Attribution
    """All that is known: values with padding, lengths, certificates, a status for each input."""


@dataclass(frozen=True, repr=False, kw_only=True)
class TextExplanation(_Explained):
    """Attributions of texts, token by token. Tuples have one entry per text; padding is left out of all of them.

    Example:
        >>> import leastpath.transformers
        >>> piece = leastpath.transformers.Piece("good", " ", (1,))
        >>> piece.text + piece.space
        'good '
    """

    tokens: tuple[tuple[str, ...], ...]
    """As the tokenizer writes them, special tokens included."""
    values: tuple[Tensor, ...]
    """(tokens,) each: summed over the embedding's dimensions. Zero for special tokens, unless they were explained."""
    words: tuple[tuple[str, ...], ...]
    """Sub-words merged, as they stand in the text; special tokens are words of their own."""
    word_values: tuple[Tensor, ...]
    """(words,) each: summed over a word's tokens."""
    probabilities: Tensor
    """(batch,) that the model gives to the class explained; NaN where it has a single output."""
    pieces: tuple[tuple[Piece, ...], ...]
    """What is shown: the words if `merge_words` was asked for, else the tokens, with the space that follows them."""
    shown_values: tuple[Tensor, ...]
    """(pieces,) each."""
    score: Score
    """What was explained, as a function of the token ids: `explained.score(explained.inputs)` are the scores. With
    `inputs` and `baselines`, measures of `leastpath.evaluation` and other solvers take it."""
    inputs: Tensor
    """(batch, length) token ids, with padding."""
    baselines: Tensor
    """(batch, length, dimensions) where the embeddings start; (batch, m, length, dimensions) for several."""

    @property
    def target_name(self) -> str:
        """The class explained, where it is the same for all texts."""
        return self.target_names[0] if len(set(self.target_names)) == 1 else "the explained class"

    def display_tokens(self, text: int) -> list[str]:
        """What is shown of one text, each piece with the space that follows it."""
        return [piece.text + piece.space for piece in self.pieces[text]]

    def to_html(self, path: str | Path | None = None) -> str:
        """The texts as HTML, red for tokens that raise the score, blue for those that lower it; written to `path`.

        Above each text stand its support, that of the straight line and the status. All texts share one scale.
        """
        end = max(float(values.abs().max()) for values in self.shown_values) or 1.0
        texts = [self._text_html(b, end) for b in range(len(self.values))]
        title = f"What speaks for and against {html.escape(self.target_name)}"
        body = f"<h3>{title}</h3>{_legend_html(end)}{''.join(texts)}"
        style = "font-family: sans-serif; line-height: 1.9; max-width: 52rem; margin: 0 auto; padding: 0 1rem"
        page = f'<div style="{style}">{body}</div>'
        if path is not None:
            head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
            write_atomically(Path(path), f"{head}{page}".encode())
        return page

    def _repr_html_(self) -> str:
        return self.to_html()

    def _text_html(self, text: int, end: float) -> str:
        said = headline(self.result.status[text : text + 1])
        tested = html.escape(f"{said[:1].upper()}{said[1:]}")
        probability = float(self.probabilities[text])
        share = "" if math.isnan(probability) else f"probability {write_number(probability)}, "
        score, start = write_number(float(self.scores[text])), write_number(float(self.base_values[text]))
        scores = f"score {score}, at the baseline {start}"
        head = f"<small><strong>{tested}</strong><br>{html.escape(self.target_names[text])}: {share}{scores}</small>"
        return f"<p>{head}<br>{text_html(self.display_tokens(text), self.shown_values[text], scale=end, join='')}</p>"

    def __repr__(self) -> str:
        lengths = [len(tokens) for tokens in self.tokens]
        what = f"{len(lengths)} texts of {min(lengths)} to {max(lengths)} tokens"
        return f"TextExplanation({headline(self.result.status)}; {what}; {self.result!r})"


@dataclass(frozen=True)
class Piece:
    """A token or word of a text, the white space behind it, and the positions of its tokens.

    Example:
        >>> Piece("unbelievable", " ", (3, 4, 5)).positions
        (3, 4, 5)
    """

    text: str
    space: str
    positions: tuple[int, ...]


@dataclass(frozen=True, repr=False, kw_only=True)
class ImageExplanation(_Explained):
    """Attributions of images, in the space that the processor makes of them.

    Example:
        >>> import leastpath.transformers
        >>> [field for field in leastpath.transformers.ImageExplanation.__dataclass_fields__][-2:]
        ['values', 'pixel_values']
    """

    values: Tensor
    """(batch, channels, height, width)."""
    pixel_values: Tensor
    """(batch, channels, height, width) what the processor made of the images: what the model saw."""

    @property
    def heat(self) -> Tensor:
        """(batch, height, width): summed over channels."""
        return self.values.sum(1)

    def __repr__(self) -> str:
        return f"ImageExplanation({headline(self.result.status)}; {len(self.values)} images; {self.result!r})"


def explain(
    model: nn.Module,
    tokenizer: Any,
    texts: Text | Sequence[Text],
    target: int | str | Sequence[int] | Tensor | None = None,
    *,
    baseline: TextBaseline | int | tuple[TextBaseline | int, ...] | None = None,
    output: Output | None = None,
    merge_words: bool = False,
    support: bool = True,
    keep_special: bool = True,
    max_length: int | None = None,
    embedding: nn.Module | None = None,
    batch_size: int | None = None,
    **settings: Any,
) -> TextExplanation:
    """Explain what a text classifier, tagger, reader or masked model says, token by token.

    The head is recognised. A model for token classification has an explanation for each entity that it finds, one for
    question answering explains log p of start and end of the answer to (question, context), a masked model the word at
    the mask, one for multiple choice the chosen text of (text, [choice, …]), and a model without a head the cosine
    similarity of a pair, with one explanation for each side. What generates text is for `leastpath.language`.

    Args:
        model: a model for sequence classification or one of the above, or any module that takes `input_ids` and returns
            logits.
        tokenizer: its tokenizer.
        texts: one text, or several; a pair of texts is a tuple.
        target: the class, by index or by its name in the model's configuration, or one index per text. None: the
            predicted class. Taggers: a label; readers: the answer's words; masked models: a word; multiple choice: the
            number of a choice.
        baseline: where tokens start: the embedding of the "pad" token, of the "mask" token, "zero", or of a token id.
            A tuple of these averages over several. None: ("mask", "pad"), or what the tokenizer has of them, as the
            study of truth chose (docs/truth.md); where these give the class already, a word that does not. The status
            says so.
        output: what is explained: "log_softmax" of the logits by default, "raw" for a model of one output.
        merge_words: show words rather than tokens. Both are always in the result.

    Rarely needed:
        support: test the result: does the class lose probability when the tokens that come out first are replaced?
        keep_special: leave [CLS], [SEP] and the like as they are: zero attribution. False: they start at the baseline.
        max_length: cut longer texts; by default at what the tokenizer allows.
        embedding: the module that turns ids into vectors, where the model does not name it itself.
        batch_size: rows in one model call.
        settings: method, metric, geometry, tolerance, n_steps, max_gradients, seed, progress, …: as in
            `leastpath.attribute`.

    Example:
        >>> import pytest
        >>> transformers = pytest.importorskip("transformers")
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> words = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "good": 2, "bad": 3}, unk_token="[UNK]"))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> tokenizer = transformers.PreTrainedTokenizerFast(
        ...     tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
        >>> config = transformers.BertConfig(
        ...     vocab_size=4, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
        >>> model = transformers.BertForSequenceClassification(config).eval()
        >>> import leastpath as lp
        >>> explained = explain(model, tokenizer, ["good", "not bad"], method=lp.StraightLine())
        >>> explained.tokens
        (('good',), ('[UNK]', 'bad'))
    """
    given: Any = texts
    batch: list[Text] = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, tuple)) else [given]
    embedding = embedding or embedding_of(model)
    device = input_device(model, embedding)
    head = _find_head(model, tokenizer, batch, target, max_length, device)
    batch = head.texts
    encoded, names = tokenize(model, tokenizer, batch, max_length)
    ids = encoded["input_ids"].to(device)  # (batch, length)
    there = encoded["attention_mask"].to(device).bool()
    special = encoded["special_tokens_mask"].to(device).bool()
    free = there & ~special if keep_special else there
    _check_free(batch, free)
    others = [encoded[name].to(device) for name in names]
    wrapped = head.wrapper(model, embedding, names, head.read)
    rows = tuple(map(per_example, (free, *others, *(part.to(device) for part in head.extra))))
    score = Score(wrapped, layer=wrapped.probe, additional_forward_args=rows, batch_size=batch_size)
    logits = score.outputs(ids)
    wrapped.cuts = _may_cut(score, ids, logits, there)
    score = with_classes(score, _read_target(model, head.target, logits), output or head.output, logits)
    starts = usual_baselines(tokenizer) if baseline is None else _as_tuple(baseline)
    start = _join_starts([start_vectors(embedding, ids, free, baseline_id(one, tokenizer)) for one in starts])
    plain = _common_tokens(tokenizer) if baseline is None else {}
    start, notes = _leave_the_class(score, ids, free, start, plain, embedding)
    labels = _token_labels(free, start.shape[-1])
    result = attribute(score, ids, start, groups=labels, support=support, **settings)
    result = replace(result, status=tuple(_add_note(*both) for both in zip(result.status, notes, strict=True)))
    assert isinstance(result.values, Tensor)
    per_token, each = result.values.sum(-1).cpu(), list(enumerate(batch))  # (batch, length)
    tokens = tuple(token_pieces(tokenizer, encoded, b, text) for b, text in each)
    words = tuple(_word_pieces(tokenizer, encoded, b, text) for b, text in each)
    values, word_values = (tuple(map(_sum_pieces, per_token, pieces)) for pieces in (tokens, words))
    spelled = [tokenizer.convert_ids_to_tokens(row) for row in encoded["input_ids"].tolist()]
    return TextExplanation(
        **(_answers(model, score, ids, result) | ({} if head.names is None else {"target_names": head.names})),
        tokens=tuple(tuple(spelled[b][p.positions[0]] for p in pieces) for b, pieces in enumerate(tokens)),
        values=values,
        words=tuple(tuple(p.text for p in pieces) for pieces in words),
        word_values=word_values,
        probabilities=_probabilities(logits, score.target),
        pieces=words if merge_words else tokens,
        shown_values=word_values if merge_words else values,
        score=score,
        inputs=ids,
        baselines=start,
    )


def _find_head(
    model: nn.Module, tokenizer: Any, batch: list[Text], target: Any, max_length: int | None, device: torch.device
) -> Head:
    """What the model's head makes of the texts; it may ask the model."""

    def encode(texts: list[Text]) -> Any:
        return tokenize(model, tokenizer, texts, max_length)[0]

    def run(encoded: Any) -> Any:
        names = tokenize(model, tokenizer, batch, max_length)[1]
        inputs = {name: encoded[name].to(device) for name in ("input_ids", *names)}
        with leave_untouched(model, inputs["input_ids"]):
            return model(**inputs)

    return find_head(model, tokenizer, batch, target, encode, run)


def _may_cut(score: Score, ids: Tensor, logits: Tensor, there: Tensor) -> bool:
    """Whether the shortest text has the same logits without padding, so that calls may end where their texts do."""
    wrapped: Any = score.model
    row = int(there.sum(1).argmin())
    if type(wrapped).forward is not ReplacedTokens.forward or bool(there[row].all()):
        return False
    wrapped.cuts = True
    one, alone, _ = rows_of(score, ids, None, [row])
    apart = (one.outputs(alone)[0] - logits[row]).abs().max()
    return bool(apart <= 1e-3 * logits.abs().max().clamp_min(1e-3))


def explain_image(
    model: nn.Module,
    processor: Any,
    images: Any,
    target: int | str | Sequence[int] | Tensor | None = None,
    *,
    baseline: ImageBaseline | float | Tensor | tuple[ImageBaseline | float | Tensor, ...] = "black",
    output: Output | None = None,
    batch_size: int | None = None,
    **settings: Any,
) -> ImageExplanation:
    """Explain what an image classifier says, pixel by pixel of what its processor makes of the image.

    Args:
        model: a model for image classification, or any module that takes `pixel_values` and returns logits.
        processor: its image processor.
        images: PIL images, arrays (height, width, 3) or whatever else the processor takes; one or a list.
        target: the class, by index or name, or one index per image. None: the predicted class.
        baseline: a "black" or "white" image, which goes through the processor too; "mean", the processor's zero; a
            number or a tensor in the processor's space. A tuple of these averages over several: ("black", "mean").
        output: what is explained: "log_softmax" of the logits by default, "raw" for a model of one output.

    Rarely needed:
        batch_size: images in one model call.
        settings: method, metric, geometry, tolerance, n_steps, max_gradients, seed, progress, …: as in
            `leastpath.attribute`.

    Example:
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).eval()
        >>> def processor(images, return_tensors):
        ...     return {"pixel_values": torch.stack([torch.tensor(image).permute(2, 0, 1) / 255 for image in images])}
        >>> import leastpath as lp
        >>> picture = torch.full((2, 2, 3), 200).numpy()
        >>> explain_image(model, processor, [picture], target=1, method=lp.StraightLine()).heat.shape
        torch.Size([1, 2, 2])
    """
    batch = list(images) if isinstance(images, (list, tuple)) else [images]
    if not batch:
        raise ValueError("images is empty: pass at least one image")
    parameter = next(model.parameters())
    pixels = _process_images(processor, batch).to(parameter.device, parameter.dtype)  # (batch, channels, height, width)
    start = _join_starts([_image_start(processor, pixels, one) for one in _as_tuple(baseline)])
    score = Score(model, batch_size=batch_size)
    logits = score.outputs(pixels)
    score = with_classes(score, _read_target(model, target, logits), output, logits)
    result = attribute(score, pixels, start, **settings)
    assert isinstance(result.values, Tensor)
    return ImageExplanation(values=result.values, pixel_values=pixels, **_answers(model, score, pixels, result))


def _legend_html(end: float) -> str:
    """The colours in words, each on its own ground."""
    ends = ((-end, "lowers the score"), (0.0, "no effect"), (end, "raises the score"))
    spans = [
        f'<span style="background:{colour(at, end)};color:#000">&nbsp;{number} {words}&nbsp;</span>'
        for at, words in ends
        if (number := write_number(at, 2, sign=True))
    ]
    return f"<div><small>{' '.join(spans)}</small></div>"


def _as_tuple(baseline: Any) -> tuple[Any, ...]:
    """The baselines that were asked for, one or several."""
    if isinstance(baseline, tuple) and not baseline:
        raise ValueError('baseline is an empty tuple: name at least one, as in ("mask", "pad")')
    return baseline if isinstance(baseline, tuple) else (baseline,)


def _join_starts(starts: list[Tensor]) -> Tensor:
    """One baseline (batch, *features) as it is, several as (batch, m, *features)."""
    return starts[0] if len(starts) == 1 else torch.stack(starts, 1)


# ---- texts -------------------------------------------------------------------------------------------------------


def tokenize(model: nn.Module, tokenizer: Any, texts: list[Text], max_length: int | None) -> tuple[Any, list[str]]:
    """The tokenizer's answer, and which parts of it, besides the ids, the model takes."""
    check_integer("max_length", max_length, 1, or_none=", or None for what the tokenizer allows")
    if not callable(tokenizer):
        got = type(tokenizer).__name__
        raise ValueError(f"tokenizer is a {got}, expected the model's own: AutoTokenizer.from_pretrained(folder)")
    if not texts or not all(_is_text(text) for text in texts):
        raise ValueError(
            "texts must be a string, a pair of strings, or a list of these: explain(model, tokenizer, […])"
        )
    pairs = isinstance(texts[0], tuple)
    if any(isinstance(text, tuple) != pairs for text in texts):
        raise ValueError("texts mixes single texts and pairs: explain them in two calls")
    columns = tuple(map(list, zip(*texts, strict=True))) if pairs else (texts,)
    if len(texts) > 1 and getattr(tokenizer, "pad_token_id", None) is None:
        raise ValueError(
            "the tokenizer has no pad token, so texts of different length make no batch: set one, as in "
            "tokenizer.pad_token = tokenizer.eos_token, or explain one text at a time"
        )
    encoded = tokenizer(
        *columns, padding=len(texts) > 1, truncation=True, max_length=max_length, return_tensors="pt",
        return_special_tokens_mask=True, return_attention_mask=True,
    )  # fmt: skip
    length, most = encoded["input_ids"].shape[1], count_positions(model)
    if length > most:
        raise ValueError(
            f"a text has {length} tokens, and the model has positions for {most}: cut it with max_length={most}"
        )
    accepted = inspect.signature(model.forward).parameters
    anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in accepted.values())
    known = [name for name in ("attention_mask", "token_type_ids") if name in encoded]
    return encoded, [name for name in known if name in accepted or (anything and name == "attention_mask")]


def _check_free(texts: list[Text], free: Tensor) -> None:
    """Refuse texts without a token to explain: free is (batch, length)."""
    bare = (~free.bool()).all(1).nonzero()[:, 0].tolist() if free.numel() else list(range(len(texts)))
    if bare:
        which = f"text {bare[0]}, {texts[bare[0]]!r},"
        raise ValueError(
            f"{which} has no token to explain: it is empty, or max_length leaves only special tokens. Drop it, raise "
            "max_length, or explain special tokens too with keep_special=False"
        )


def count_positions(model: nn.Module) -> float:
    """How many tokens a model can tell apart by their place; endless where its configuration has no limit."""
    most = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if not isinstance(most, int) or most < 1:
        return math.inf
    places = [m for name, m in model.named_modules() if name.endswith("position_embeddings")]
    # RoBERTa and its like count places from the one behind the padding's.
    lost = [m.padding_idx + 1 for m in places if isinstance(m, nn.Embedding) and m.padding_idx is not None]
    return most - max(lost, default=0)


def _is_text(text: Any) -> bool:
    return isinstance(text, str) or (
        isinstance(text, tuple) and len(text) == 2 and all(isinstance(part, str) for part in text)
    )


def embedding_of(model: nn.Module) -> nn.Module:
    getter: Callable[[], Any] | None = getattr(model, "get_input_embeddings", None)
    found = getter() if getter is not None else None
    if isinstance(model, str):
        raise ValueError(f"the model is the name {model!r}: load it first, by AutoModel….from_pretrained({model!r})")
    if not isinstance(found, nn.Module):
        raise ValueError(
            f"{type(model).__name__} does not name its embedding: pass it, as in "
            "explain(…, embedding=model.encoder.get_input_embeddings())"
        )
    return found


def usual_baselines(tokenizer: Any) -> tuple[TextBaseline, ...]:
    """Mask and padding, or what the tokenizer has of them; vectors of zeros if it has neither."""
    wanted: tuple[TextBaseline, ...] = ("mask", "pad")
    return tuple(name for name in wanted if getattr(tokenizer, f"{name}_token_id", None) is not None) or ("zero",)


def baseline_id(baseline: TextBaseline | int, tokenizer: Any) -> int | None:
    """The token that texts start from; None for vectors of zeros."""
    if isinstance(baseline, int) and not isinstance(baseline, bool):
        return baseline
    if baseline not in get_args(TextBaseline):
        raise ValueError(f"baseline={baseline!r} is unknown: use one of {list(get_args(TextBaseline))} or a token id")
    if baseline == "zero":
        return None
    found = getattr(tokenizer, f"{baseline}_token_id", None)
    if found is None:
        raise ValueError(f'the tokenizer has no {baseline} token: pass baseline="zero", or a token id')
    return int(found)


def start_vectors(embedding: nn.Module, ids: Tensor, free: Tensor, token: int | None) -> Tensor:
    """The embeddings of the texts with the free tokens replaced: (batch, length, dimensions)."""
    embedded = Score(embedding).outputs
    vectors = embedded(ids)
    start = torch.zeros_like(vectors) if token is None else embedded(torch.full_like(ids, token))
    return torch.where(free[..., None], start, vectors)


def _common_tokens(tokenizer: Any) -> dict[int, str]:
    """Some ordinary words of the vocabulary, spread over it, by their ids."""
    special = set(tokenizer.all_special_ids)
    words = {
        token: word
        for word, token in sorted(tokenizer.get_vocab().items(), key=lambda pair: pair[1])
        if token not in special and word.strip("Ġ▁").isalpha()
    }
    chosen = list(words)[:: max(1, len(words) // MOST_TRIED)][:MOST_TRIED]
    return {token: words[token].strip("Ġ▁") for token in chosen}


def _leave_the_class(
    score: Score, ids: Tensor, free: Tensor, start: Tensor, others: dict[int, str], embedding: nn.Module
) -> tuple[Tensor, list[Note | None]]:
    """The starts, another one for each text whose own give its class already; and a note for each such text.

    Between two points that the model says the same of nothing changes, so values vanish. The others are tokens that
    stand in every free place; taken is the one whose probability of the class is next to that of a guess.
    """
    notes: list[Note | None] = [None] * len(ids)
    if score.target is None or score.output != "log_softmax":
        return start, notes
    several = start if start.ndim == 4 else start[:, None]  # (batch, m, length, width)
    here, there = score(ids).exp(), _score_starts(score, ids, several).exp().mean(1)
    guess = 1 / score.outputs(ids).shape[-1]
    given = ((there >= CERTAIN) & (there >= ALMOST * here)) | ((here >= 0.5) & (there > here))
    for b in given.nonzero()[:, 0].tolist():
        own, row = rows_of(score, ids, None, [b])[0], ids[[b]]
        words = f"the baseline gives the class already ({float(there[b]):.0%}, the text {float(here[b]):.0%})"
        notes[b] = Note(Outcome.FLAT, f"{words}, so that little is left to explain: choose another baseline=")
        if not others:
            continue
        tried = torch.cat([start_vectors(embedding, row, free[[b]], token) for token in others])[None]
        found = _score_starts(own, row, tried).exp()[0]  # (tried,)
        best = int((found - guess).abs().argmin())
        if float(found[best]) < ALMOST * float(here[b]):
            several = several.clone()
            several[b] = tried[0, best]
            word = list(others.values())[best]
            said = f"{words}: tokens start from {word!r} instead, which gives it {float(found[best]):.0%}"
            notes[b] = Note(Outcome.SOLVER_NOTE, said)
    return several if start.ndim == 4 else several[:, 0], notes


def _score_starts(score: Score, ids: Any, starts: Tensor) -> Tensor:
    """The score of each start (batch, m, length, width): (batch, m)."""
    with leave_untouched(score.model, ids):
        bound, points, _, m = bind_paths(score, ids, starts)
        return bound.values(points, torch.arange(len(points))).detach().reshape(-1, m)


def _add_note(status: Status, note: Note | None) -> Status:
    """After what the test says."""
    return status if note is None else Status((*status.notes[:1], note, *status.notes[1:]))


def _token_labels(free: Tensor, width: int) -> Tensor:
    """What removal takes together (batch, length, width): the vector of each free token; −1, never, for the others."""
    places = torch.arange(free.shape[1], device=free.device)
    return torch.where(free, places, -1)[..., None].expand(-1, -1, width)


def _sum_pieces(values: Tensor, pieces: Iterable[Piece]) -> Tensor:
    """(length,) -> (pieces,)."""
    return torch.stack([values[list(piece.positions)].sum() for piece in pieces])


def token_pieces(tokenizer: Any, encoded: Any, b: int, text: Text) -> tuple[Piece, ...]:
    """The tokens of one text that are no padding."""
    positions = encoded["attention_mask"][b].nonzero()[:, 0].tolist()
    return _cut_pieces(tokenizer, encoded, b, text, [(i,) for i in positions])


def _word_pieces(tokenizer: Any, encoded: Any, b: int, text: Text) -> tuple[Piece, ...]:
    """The words of one text: neighbouring tokens that the tokenizer cut from one word."""
    if not getattr(tokenizer, "is_fast", False):
        return token_pieces(tokenizer, encoded, b, text)
    groups: list[tuple[int, ...]] = []
    last: tuple[Any, Any] | None = None
    words, sequences = encoded.word_ids(b), encoded.sequence_ids(b)
    for i in encoded["attention_mask"][b].nonzero()[:, 0].tolist():
        key = (sequences[i], words[i])
        if words[i] is not None and key == last:
            groups[-1] = (*groups[-1], i)
        else:
            groups.append((i,))
        last = key
    return _cut_pieces(tokenizer, encoded, b, text, groups)


def _cut_pieces(tokenizer: Any, encoded: Any, b: int, text: Text, groups: list[tuple[int, ...]]) -> tuple[Piece, ...]:
    """Each group of positions as it stands in the text; a special token stands nowhere and is written out."""
    ids = encoded["input_ids"][b].tolist()
    if not getattr(tokenizer, "is_fast", False):
        return tuple(Piece(" ".join(tokenizer.convert_ids_to_tokens([ids[i] for i in g])), " ", g) for g in groups)
    offsets, sequences = encoded[b].offsets, encoded.sequence_ids(b)
    pieces = []
    for at, group in enumerate(groups):
        sequence = sequences[group[0]]
        if sequence is None:
            pieces.append(Piece(tokenizer.convert_ids_to_tokens(ids[group[0]]), " ", group))
            continue
        source = text[sequence] if isinstance(text, tuple) else text
        begin, end = offsets[group[0]][0], offsets[group[-1]][1]
        following = groups[at + 1][0] if at + 1 < len(groups) else None
        touches = following is not None and sequences[following] == sequence and offsets[following][0] <= end
        pieces.append(Piece(source[begin:end].strip(), "" if touches else " ", group))
    return tuple(pieces)


# ---- images ------------------------------------------------------------------------------------------------------


def _process_images(processor: Any, images: list[Any]) -> Tensor:
    made = processor(images=images, return_tensors="pt")
    pixels = made.get("pixel_values")
    if not isinstance(pixels, Tensor) or pixels.ndim != 4:
        raise ValueError(
            "the processor gives no pixel_values (batch, channels, height, width): explain what it gives with "
            "leastpath.attribute(lp.Score(model, target), …)"
        )
    return pixels


def _image_start(processor: Any, pixels: Tensor, baseline: Any) -> Tensor:
    """One baseline, shaped like the pixels; a tensor of another shape is for `attribute` to judge."""
    if isinstance(baseline, Tensor):
        return baseline.to(pixels).expand_as(pixels) if baseline.shape[1:] == pixels.shape[1:] else baseline
    if isinstance(baseline, (int, float)) and not isinstance(baseline, bool):
        return torch.full_like(pixels, baseline)
    if not isinstance(baseline, str) or baseline not in get_args(ImageBaseline):
        raise ValueError(
            f"baseline={baseline!r} is unknown: use one of {list(get_args(ImageBaseline))}, a number or a tensor"
        )
    if baseline == "mean":
        return torch.zeros_like(pixels)
    import numpy as np  # an image that every processor takes

    side = max(pixels.shape[2:])
    plain = np.full((side, side, 3), 255 if baseline == "white" else 0, dtype=np.uint8)
    return _process_images(processor, [plain]).to(pixels).expand_as(pixels)


# ---- classes -----------------------------------------------------------------------------------------------------


def _read_target(model: nn.Module, target: Any, logits: Tensor) -> Any:
    """The target with a label as its class index, for logits (batch, classes)."""
    if logits.ndim != 2:
        raise ValueError(
            f"the model returns {tuple(logits.shape)}, expected (batch, classes): use a model with a classification "
            "head, as AutoModelForSequenceClassification or AutoModelForImageClassification give"
        )
    if not isinstance(target, str):
        return target
    named = {str(name): int(i) for name, i in (getattr(_config(model), "label2id", None) or {}).items()}
    if target not in named:
        raise ValueError(f"target={target!r} is none of the model's labels {list(named)[:20]}")
    return named[target]


def _answers(model: nn.Module, score: Score, inputs: Tensor, result: Attribution) -> dict[str, Any]:
    """What every explanation says of its classes and scores."""
    scores = score(inputs)
    classes = score.target if isinstance(score.target, Tensor) else torch.full((len(inputs),), -1)
    labels = getattr(_config(model), "id2label", None) or {}
    names = tuple("score" if i < 0 else str(labels.get(i, f"class {i}")) for i in classes.tolist())
    base = scores - result.score_change
    return {"target": classes.cpu(), "target_names": names, "scores": scores, "base_values": base, "result": result}


def _probabilities(logits: Tensor, classes: Any) -> Tensor:
    """(batch,) of the class explained; NaN for a model of one output."""
    if classes is None:
        return torch.full((len(logits),), torch.nan)
    return logits.float().softmax(1).gather(1, classes[:, None])[:, 0].cpu()


def _config(model: nn.Module) -> Any:
    return getattr(model, "config", None)
