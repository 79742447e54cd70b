"""The measures against closed forms and loops over single examples, the study on quick settings, the words on planted
records. MiniLM is replaced by a bag of words, whose scores are known."""

import json
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, mlp, seeded
from leastpath._support.store import Store
from leastpath.evaluation.masking import Comprehensiveness, Masking
from leastpath.evaluation.measure import given_attribution
from studies.findings.config import Setting
from studies.findings.domains import numbers
from studies.findings.domains import section as sections
from studies.findings.domains import text as texts
from studies.findings.domains.case import DOMAIN
from studies.findings.domains.judging import permutation_importances, rank_agreement, removal, share_of
from studies.findings.domains.section import DOMAINS
from studies.findings.domains.text import Sentiment

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "not", "truly", "dull"]
TEXTS = ["a truly good film", "not good , a dull and bad film", "bad"]


# ---- measures ----------------------------------------------------------------------------------------------------


def test_removal_of_a_class_is_comprehensiveness():
    """Oracle: the library's measure."""
    score, inputs = lp.Score(mlp(6), torch.tensor([0, 2, 1]), "log_softmax"), flat_points(3, 6)
    start = torch.zeros_like(inputs)
    result = lp.attribute(score, inputs, start, solver=lp.StraightLine())
    masking = Masking(normalize=True)
    expected = Comprehensiveness(masking)(score, inputs, start, result).values
    torch.testing.assert_close(removal(masking, score, inputs, start, result), expected)


def test_removal_of_a_number_counts_falls_and_rises():
    """Closed form: a linear score loses the terms that are masked, largest first, whatever their sign."""
    weights, inputs = torch.tensor([4.0, -2.0, 1.0, 0.5]), torch.tensor([[1.0, 1.0, 1.0, 1.0], [-1.0, 1.0, -1.0, 1.0]])
    score, start = lp.Score(lambda x: x @ weights), torch.zeros(2, 4)
    masking = Masking((0.25, 0.5, 0.75), normalize=True)
    found = removal(masking, score, inputs, start, given_attribution(weights * inputs))
    changes = (weights * inputs).cumsum(1)[:, :3].abs()  # 4, 2, 3 and 4, 6, 7
    torch.testing.assert_close(found, ((changes[:, :2] + changes[:, 1:]) / 2).mean(1).double())


def test_importance_of_permutations():
    """Closed form: shuffling x in (y − wx)² costs w² E(x − x′)², twice the variance; what is ignored costs nothing."""
    net = nn.Linear(3, 1).eval()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[2.0, 0.0, -1.0]]))
    inputs = flat_points(4000, 3)
    found = permutation_importances(net, inputs, net(inputs).detach())
    expected = 2 * net.weight[0].detach() ** 2 * inputs.var(0)
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=1e-5)


def test_importance_takes_images_and_classes():
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[0.0, 0.0, 5.0, 0.0], [0.0, 0.0, -5.0, 0.0]]))
    images = flat_points(60, 4).view(60, 1, 2, 2)
    found = permutation_importances(net, images, net(images).argmax(1))
    assert int(found.argmax()) == 2 and (found[[0, 1, 3]] == 0).all()


def test_rank_agreement():
    """Closed form 1 − 6 Σd² / (n³ − n) of ranks without ties: d² = 1, 1, 0."""
    assert rank_agreement(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0.3, 0.2, 0.1])) == pytest.approx(0.5)
    assert rank_agreement(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([9.0, 7.0, 8.0])) == 1
    assert rank_agreement(torch.ones(3), torch.tensor([9.0, 7.0, 8.0])) is None


def test_the_straight_line_gives_nothing_to_what_rests():
    """Closed form: A = (x − x̄) · mean gradient."""
    inputs = flat_points(4, 6)
    inputs[:, ::2] = 0
    result = lp.attribute(lp.Score(mlp(6), 1, "log_softmax"), inputs, solver=lp.StraightLine())
    assert (share_of(result.values, inputs == 0) == 0).all()
    assert (share_of(result.values, inputs != 0) == 1).all()


# ---- text --------------------------------------------------------------------------------------------------------


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
    return explain(model, tokenizer, TEXTS, baseline="pad", embedding=embedding, solver=lp.StraightLine())


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


# ---- the study ---------------------------------------------------------------------------------------------------


def quick(tmp_path, **given):
    return Setting(Store(tmp_path / "store", {}), quick=True, **given)


def computed(setting, *names):
    """Records of the units of some domains, as JSON gives them back."""
    units = [unit for unit in DOMAINS.measurements(setting) if unit.key.split(",")[0] in names]
    return json.loads(json.dumps({unit.key: unit.compute() for unit in units}))


def test_a_quick_study(tmp_path, monkeypatch):
    setting = quick(tmp_path)
    records = computed(setting, *DOMAIN)
    assert len(records) == 3 + 4 + 3  # no text without sentences
    section = DOMAINS.section(records)
    assert "diabetes, Geodesic IG (graph) |" in section and "| breast cancer, another row |" in section
    assert section.count("\n| digits, ") == 3 + 3  # methods, then fills
    assert "IDGI, on the straight line, is" in section and "text" not in section
    monkeypatch.setattr(numbers, "_train", None)  # nets are kept: the same again, without training
    assert computed(setting, "diabetes") == {key: r for key, r in records.items() if r["domain"] == "diabetes"}


@pytest.mark.parametrize("name", ["breast cancer", "diabetes"])
def test_networks_explain_rows_that_no_other_explains(name):
    """Oracle: the rows themselves, brought back to one scale by their ranks within a column."""
    rows = []
    for seed in range(3):
        inputs, targets, n_train = numbers._table(name, seed)
        assert inputs[:n_train].mean(0).abs().max() < 1e-5 and len(targets) == len(inputs)
        ranks = torch.stack([column.unique(return_inverse=True)[1] for column in inputs.T], 1)
        rows += [tuple(row) for row in ranks[n_train:].tolist()]
    assert len(set(rows)) == len(rows)


def test_text_where_it_can_be_had(tmp_path, monkeypatch, tokenizer):
    lines = [f"{a} film {b} film {a}\t{label}" for a, b, label in [("good", "truly", 1), ("bad", "dull", 0)] * 12]
    file = tmp_path / "sentences.tsv"
    file.write_text("short\t1\n" + "\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(sections, "has_text", lambda setting: setting.sentences is not None)
    monkeypatch.setattr(texts, "text_encoder", lambda: (BagOfWords(), tokenizer))
    records = computed(quick(tmp_path, sentences=file), "text")
    assert len(records) == 3 and all(r["quality"] == [1.0] for r in records.values())
    section = DOMAINS.section(records)
    assert "all-MiniLM-L6-v2" in section and "| text, [MASK] |" in section and "ReLU" not in section


def test_sentences_need_the_encoder(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "ENCODER", "a_package_that_nobody_has")
    assert not any("text" in unit.key for unit in DOMAINS.measurements(quick(tmp_path, sentences=tmp_path / "any.tsv")))


# ---- the words ---------------------------------------------------------------------------------------------------


def planted(method, removals, cancellation=1.0, domain="digits"):
    n = len(next(iter(removals.values())))
    return {
        "domain": domain, "method": method, "quality": [0.9], "removal": removals, "agreement": [0.5, None],
        "length_ratio": [0.25] * n, "cancellation": [cancellation] * n, "gradients": [100.0] * n, "ok": [True] * n,
        "at_rest": [0.0] * n,
    }  # fmt: skip


def test_words_follow_the_numbers():
    """Oracle: planted differences, up with one fill, down with another, both ways with the third."""
    line = [0.5] * 8
    bent = {"black (baseline)": [0.6] * 8, "mean grey": [0.4] * 8, "neighbours": [0.6, 0.4] * 4}
    records = {
        "digits, integrated_gradients": planted("integrated_gradients", dict.fromkeys(bent, line), 2.0),
        "digits, geodesic_descent": planted("geodesic_descent", bent, 0.5) | {"at_rest": [0.4] * 8},
    }
    section = DOMAINS.section(records)
    assert "0.25 of the straight line's length (medians) and leave 0.25 of IG's cancellation" in section
    assert "clearly better than IG in 1 and clearly worse in 1 of 3 comparisons" in section
    assert "clearly better (filled with black), clearly worse (filled with mean grey)" in section
    assert "not clearly different (filled with neighbours) on digits." in section
    assert "Integrated Gradients 0%, Geodesic IG (descent) 40%" in section
    assert "IDGI" not in section and "| digits, mean grey | 0.50 | 0.40: −0.10 (p 0.008) |" in section


@pytest.mark.parametrize("method", ["integrated_gradients", "geodesic_descent"])
def test_a_method_alone(method):
    section = DOMAINS.section({f"digits, {method}": planted(method, {"mean grey": [0.5, None]})})
    assert "clearly" not in section and section.count("| digits, ") == 2
