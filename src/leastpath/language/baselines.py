"""Baselines: where a prompt's tokens start. Natural text, a contrast prompt, or, with a warning, what others take."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from leastpath.language.prompts import Chat, Prompt, read_prompt
from leastpath.score.score import Score

NEUTRAL_TEXTS: Mapping[str, tuple[str, ...]] = {
    "en": (
        "Then we took the bus along the river and stopped at a small shop near the bridge, where an old man was "
        "selling bread, apples and some of the flowers that his daughter had brought in from the garden that "
        "morning.",
        "In most houses of that kind the kitchen is at the back, with a wide table by the window, two or three "
        "chairs, a shelf for plates and cups, and a door which leads down a few steps into the yard.",
        "She put her coat on the chair, opened the letter and began to read it slowly, while outside the rain had "
        "almost stopped and people were walking home again with their bags under their arms.",
        "Some weeks later they met again after work, talked for a while about music, food and the weather, and "
        "agreed that it would be good to go for a longer walk in the hills when it was warmer.",
    ),
    "de": (
        "Dann nahmen wir den Bus am Fluss entlang und hielten bei einem kleinen Laden nahe der Brücke, wo ein alter"
        " Mann Brot, Äpfel und einige Blumen aus dem Garten seiner Tochter verkaufte.",
        "In den meisten Häusern dieser Art liegt die Küche hinten, mit einem breiten Tisch am Fenster, zwei oder "
        "drei Stühlen und einer Tür, die über ein paar Stufen in den Hof führt.",
        "Sie legte ihren Mantel auf den Stuhl, öffnete den Brief und begann langsam zu lesen, während draußen der "
        "Regen fast aufgehört hatte und die Leute wieder nach Hause gingen.",
    ),
    "fr": (
        "Ensuite nous avons pris le bus le long de la rivière et nous nous sommes arrêtés dans une petite boutique "
        "près du pont, où un vieil homme vendait du pain, des pommes et quelques fleurs.",
        "Dans la plupart des maisons de ce genre, la cuisine est au fond, avec une large table près de la fenêtre, "
        "deux ou trois chaises et une porte qui donne sur la cour.",
        "Elle posa son manteau sur la chaise, ouvrit la lettre et commença à la lire lentement, tandis que dehors "
        "la pluie avait presque cessé et que les gens rentraient chez eux.",
    ),
    "es": (
        "Luego tomamos el autobús a lo largo del río y paramos en una pequeña tienda cerca del puente, donde un "
        "hombre mayor vendía pan, manzanas y algunas flores del jardín de su hija.",
        "En la mayoría de las casas de este tipo la cocina está al fondo, con una mesa ancha junto a la ventana, "
        "dos o tres sillas y una puerta que lleva al patio.",
        "Ella dejó el abrigo en la silla, abrió la carta y empezó a leerla despacio, mientras fuera la lluvia casi "
        "había parado y la gente volvía a casa.",
    ),
    "zh": (
        "然后我们沿着河坐公共汽车，在桥边的一家小店停下来，一位老人在那里卖面包、苹果和一些早上从花园里带来的花。",
        "在大多数这样的房子里，厨房在后面，窗边有一张宽桌子，两三把椅子，还有一扇通向院子的门。",
        "她把外套放在椅子上，打开信慢慢地读起来，外面的雨差不多停了，人们提着袋子走回家。",
    ),
}
"""What stands for "nothing in particular", by language: everyday sentences that go with no prompt."""

USUAL_WORDS = {
    "en": frozenset(re.findall(r"\w+", "the of and is a to in that it was for on with as he she")),
    "de": frozenset(re.findall(r"\w+", "die der das und ist von ein eine nicht zu den mit wie was")),
    "fr": frozenset(re.findall(r"\w+", "le la les de et est une un des que il elle pas dans qui")),
    "es": frozenset(re.findall(r"\w+", "el la los las de y es una un que en no se con por")),
}
Token = Literal["end", "mask", "pad", "zero", "mean"]
# SmolLM2-135M, the 33 prompts of the reporting half, Integrated Gradients with 50 steps (docs/language.md).
# Where Integrated Gradients started: by how much they missed the change of score, and how often the cause came first.
MEASURED = {
    "zero": ("zeros", 292, 36),
    "mean": ("the mean embedding", 137, 24),
    "token": ("one repeated token", 111, 15),
}


@dataclass(frozen=True)
class Natural:
    """Natural texts as baselines, one for each; the result is the mean over them.

    Each text is cut, or repeated, to the length of the prompt: token by token it stands in the prompt's place.

    Args:
        texts: None: those of `NEUTRAL_TEXTS` in the language of the prompt.
        n: how many of them; None: all.

    Example:
        >>> len(Natural().of("Le chat est sur la table")), Natural(n=2).of("The cat")[0][:16]
        (3, 'Then we took the')
    """

    texts: Sequence[str] | None = None
    n: int | None = None

    def of(self, text: str) -> tuple[str, ...]:
        """The texts for a prompt."""
        if self.texts is not None and (isinstance(self.texts, str) or not self.texts):
            raise ValueError(f"Natural(texts={self.texts!r}) must be several texts: Natural(['…', '…'])")
        return tuple(self.texts or NEUTRAL_TEXTS[guess_language(text)])[: self.n]


Baseline = Natural | Token | str | int | Chat


def guess_language(text: str) -> str:
    """The language of `NEUTRAL_TEXTS` that shares most words with a text; English where none does.

    Example:
        >>> guess_language("Die Hauptstadt von Frankreich ist"), guess_language("法国的首都是"), guess_language("x = 3")
        ('de', 'zh', 'en')
    """
    if re.search(r"[\u3400-\u9fff]", text):
        return "zh"
    words = re.findall(r"\w+", text.lower())
    counts = {language: sum(word in known for word in words) for language, known in USUAL_WORDS.items()}
    best = max(counts.values())
    return "en" if counts["en"] == best else max(counts, key=lambda language: counts[language])


@dataclass(frozen=True)
class Starts:
    """Where the tokens of a prompt start: vectors (m, length, width), and what each is called."""

    vectors: Tensor
    names: tuple[str, ...]


def find_starts(
    tokenizer: Any, embedding: nn.Module, prompt: Prompt, ids: Tensor, free: Tensor,
    baseline: Baseline | Sequence[Baseline] | None,
) -> Starts:  # fmt: skip
    """Baselines as embeddings, with the tokens that are not free as they are.

    Args:
        tokenizer: of the model.
        embedding: turns ids into vectors.
        prompt: that is explained.
        ids: (1, length) of the prompt and what follows it.
        free: (1, length) bool, what may move.
        baseline: see `explain`.
    """
    embedded = Score(embedding).outputs
    own = embedded(ids)  # (1, length, width)
    vectors, names = [], []
    for one in _as_list(baseline):
        for name, start in _start(tokenizer, embedding, embedded, prompt, ids, one):
            vectors.append(torch.where(free[..., None], start.to(own), own))
            names.append(name)
    return Starts(torch.cat(vectors), tuple(names))


def _as_list(baseline: Any) -> list[Any]:
    if baseline is None:
        return [Natural()]
    if isinstance(baseline, (list, tuple)) and not (baseline and isinstance(baseline[0], Mapping)):
        if not baseline:
            raise ValueError("baseline is empty: pass at least one, or None for natural texts")
        return list(baseline)
    return [baseline]


def _start(
    tokenizer: Any, embedding: nn.Module, embedded: Any, prompt: Prompt, ids: Tensor, one: Any
) -> list[tuple[str, Tensor]]:
    """Named starts (1, length, width) of one baseline."""
    if isinstance(one, Natural):
        return [(text, embedded(_repeat(tokenizer, text, ids))) for text in one.of(prompt.text)]
    if isinstance(one, str) and one in ("zero", "mean"):
        _warn(one)
        weight = getattr(embedding, "weight", None)
        width = embedded(ids)
        if one == "zero" or not isinstance(weight, Tensor):
            return [(one, torch.zeros_like(width))]
        return [(one, weight.detach().mean(0).to(width).expand_as(width))]
    if isinstance(one, str) and one in get_args(Token):
        one = token_id(tokenizer, one)
    if isinstance(one, int) and not isinstance(one, bool):
        _warn("token")
        return [(str(tokenizer.convert_ids_to_tokens(one)), embedded(torch.full_like(ids, one)))]
    return [("contrast prompt", embedded(_align(tokenizer, prompt, ids, one)))]


def token_id(tokenizer: Any, name: str) -> int:
    """The id of the end-of-text, mask or padding token."""
    found = getattr(tokenizer, f"{'eos' if name == 'end' else name}_token_id", None)
    if found is None:
        raise ValueError(f"the tokenizer has no {name} token: use natural text, baseline=None, or a token id")
    return int(found)


def _warn(kind: str) -> None:
    start, gap, first = MEASURED[kind]
    warnings.warn(
        f"from {start} Integrated Gradients with 50 gradients missed the change of score by {gap} % in the median of "
        f"33 prompts, and the known cause came first in {first} % (random: 17 %); from natural text, baseline=None, by "
        "3 % with 25 gradients, and in 58 to 67 % (docs/language.md)",
        UserWarning,
        stacklevel=6,
    )


def _repeat(tokenizer: Any, text: str, ids: Tensor) -> Tensor:
    """The tokens of a text (1, length), from its beginning again where it is shorter."""
    own = torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"])
    if not len(own):
        raise ValueError(f"the baseline text {text!r} has no tokens: pass Natural(['…'])")
    return own[torch.arange(ids.shape[1]) % len(own)][None].to(ids.device)


def _align(tokenizer: Any, prompt: Prompt, ids: Tensor, contrast: Any) -> Tensor:
    """The tokens of a contrast prompt in the place of the prompt's, the same behind it: (1, length)."""
    if not isinstance(contrast, str) and not (isinstance(contrast, Sequence) and isinstance(contrast[0], Mapping)):
        raise ValueError(
            f"baseline={contrast!r} is unknown: use None or Natural(…) for natural text, a contrast prompt, a token "
            f"id, or one of {list(get_args(Token))}"
        )
    other = read_prompt(tokenizer, contrast)
    if len(other.ids) != len(prompt.ids):
        raise ValueError(_say_misaligned(prompt, other))
    if bool((other.ids != prompt.ids)[~prompt.free].any()):
        raise ValueError("the contrast prompt differs in tokens that are fixed, special ones or the template's own")
    if torch.equal(other.ids, prompt.ids):
        raise ValueError("the contrast prompt is the prompt itself: change the words whose effect is asked for")
    return torch.cat([other.ids[None].to(ids.device), ids[:, len(prompt.ids) :]], 1)


def _say_misaligned(prompt: Prompt, other: Prompt) -> str:
    """Where two prompts go apart, from the front and from the back."""
    mine, theirs = prompt.ids.tolist(), other.ids.tolist()
    first = next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=False)) if a != b), min(len(mine), len(theirs)))
    back = next((i for i, (a, b) in enumerate(zip(mine[::-1], theirs[::-1], strict=False)) if a != b), 0)
    back = min(back, len(mine) - first, len(theirs) - first)
    here, there = prompt.tokens[first : len(mine) - back], other.tokens[first : len(theirs) - back]
    return (
        f"the contrast prompt has {len(theirs)} tokens, the prompt {len(mine)}: they must align token by token. From "
        f"token {first} on, {list(there)} stands where the prompt has {list(here)}; choose words of as many tokens"
    )
