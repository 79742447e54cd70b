"""Worlds: a small model with three examples to explain, and the same world told otherwise.

The same examples in another order, one by one, in other units, with features numbered otherwise, in another type of
numbers: none of this changes what there is to explain, so an invariant explains two worlds and compares the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from helpers import cnn, flat_points, mlp, moons_net, seeded

TARGETS = torch.tensor([0, 2, 1])
ORDER = (2, 0, 1)
UNITS = torch.tensor([0.25, 3.0, 1.0, 10.0])


@dataclass(frozen=True)
class World:
    """A model of vectors or images, examples (3, *features) and what is known besides."""

    model: nn.Module
    inputs: Tensor
    baselines: Tensor
    targets: Tensor
    points: Tensor  # (n, *features), data for what asks for it
    seed: int = 0
    batch_size: int | None = None

    def __len__(self) -> int:
        return len(self.inputs)

    def take(self, rows: Sequence[int]) -> World:
        chosen = list(rows)
        return replace(self, inputs=self.inputs[chosen], baselines=self.baselines[chosen], targets=self.targets[chosen])

    def to(self, dtype: torch.dtype) -> World:
        inputs, baselines, points = (part.to(dtype) for part in (self.inputs, self.baselines, self.points))
        model = deepcopy(self.model).to(dtype)
        return replace(self, model=model, inputs=inputs, baselines=baselines, points=points)

    def renumber(self) -> World:
        """Features from last to first; of images, the columns: a mirrored picture, and the net that sees it so."""
        inputs, baselines, points = (part.flip(-1) for part in (self.inputs, self.baselines, self.points))
        return replace(self, model=mirrored(self.model), inputs=inputs, baselines=baselines, points=points)

    def numbered_back(self, values: Tensor) -> Tensor:
        return values.flip(-1)

    def rescale(self) -> World:
        """Each feature, of images each channel, in a unit of its own, and the net that reads it so."""
        model = deepcopy(self.model)
        first = next(layer for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d)))
        units = UNITS[: first.weight.shape[1]].to(self.inputs)
        units = units[:, None, None] if isinstance(first, nn.Conv2d) else units
        first.weight.data /= units
        inputs, baselines, points = (part * units for part in (self.inputs, self.baselines, self.points))
        return replace(self, model=model, inputs=inputs, baselines=baselines, points=points)


def mirrored(model: nn.Module) -> nn.Module:
    """The net whose answer to a mirrored input is the net's answer to the input."""
    twin = deepcopy(model)
    layers = list(twin.modules())
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            layer.weight.data = layer.weight.data.flip(-1)
    first = next(layer for layer in layers if isinstance(layer, nn.Linear))
    grid = (4, 3, 3) if any(isinstance(layer, nn.Conv2d) for layer in layers) else (first.in_features,)
    first.weight.data = first.weight.data.unflatten(1, grid).flip(-1).flatten(1)
    return twin


@cache
def vectors() -> World:
    """Four features, a smooth net of three classes."""
    return World(mlp(), flat_points(3, 4, 1), flat_points(3, 4, 2), TARGETS, flat_points(40, 4, 3))


@cache
def images() -> World:
    """Two channels of 6 × 6, a convolutional net."""
    inputs, baselines = (flat_points(3, 72, seed).view(3, 2, 6, 6) for seed in (1, 2))
    return World(cnn(), inputs, baselines, TARGETS, flat_points(40, 72, 3).view(40, 2, 6, 6))


@cache
def plane() -> World:
    """Two features and a trained ReLU net, steep at the border of two classes: what solvers are made for."""
    model = nn.Sequential(nn.Flatten(), moons_net()).eval()
    points = flat_points(20, seed=11)
    return World(model, flat_points(3), flat_points(3, 2, 1), torch.tensor([0, 1, 1]), points)


@cache
def strip() -> World:
    """The plane as images of two pixels."""
    world = plane()
    inputs, baselines, points = (part[:, None] for part in (world.inputs, world.baselines, world.points))
    return replace(world, inputs=inputs, baselines=baselines, points=points)


@dataclass(frozen=True)
class Texts:
    """A model of Hugging Face, its tokenizer and three texts, or prompts."""

    model: nn.Module
    tokenizer: Any
    texts: tuple[Any, ...]
    target: Any = None
    seed: int = 0
    batch_size: int | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Sequence[int]) -> Texts:
        return replace(self, texts=tuple(self.texts[row] for row in rows))

    def to(self, dtype: torch.dtype) -> Texts:
        return replace(self, model=deepcopy(self.model).to(dtype))


@cache
def texts(head: str) -> Texts:
    """A BERT of two layers with this head, and what it reads."""
    import transformers as hf

    from test_transformers import ARCHITECTURES, SMALL, tokenizer

    labels = {0: "O", 1: "B-LOC", 2: "I-LOC"}
    named = {"id2label": labels, "label2id": {name: i for i, name in labels.items()}}
    settings = named if head == "ForTokenClassification" else {"num_labels": 2} if "Question" in head else {}
    config = hf.BertConfig(**(SMALL | ARCHITECTURES["Bert"] | settings))
    model = seeded(lambda: getattr(hf, f"Bert{head}")(config)).eval()
    if head == "ForTokenClassification":
        model.classifier.bias.data = torch.tensor([-3.0, 2.0, 0.0])  # entities in every text
    single = ("a good unfunny film", "bad", "not good , not funny")
    pairs = (("good film", "not a bad film"), ("a film", "funny"), ("bad", "not good , not funny"))
    reads = {
        "ForQuestionAnswering": pairs,
        "Model": pairs,
        "ForMaskedLM": ("a [MASK] film", "[MASK]", "not good , not [MASK]"),
        "ForMultipleChoice": (("a film", ["good", "bad film"]), ("good", ["a", "funny"]), ("bad", ["not", "film , a"])),
    }
    return Texts(model, tokenizer(), reads.get(head, single))


@cache
def prompts() -> Texts:
    """A language model of two layers, and three prompts."""
    from leastpath.language.toy import toy_model

    return Texts(*toy_model(), ("the cat sat on the", "Mary gave John a", "the capital of France is"), " mat")
