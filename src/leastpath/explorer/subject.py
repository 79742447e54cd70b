"""Subject: one thing that the explorer can explain, whatever it is made of: a picture, a row or a text.

All of them are the same to the rest of the explorer: a score over numbers (1, *shape), the features that these numbers
belong to, what is removed together, and the baselines to choose from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from leastpath._support.threads import in_this_thread
from leastpath.features.groups import patches
from leastpath.score.score import Score

Lock = AbstractContextManager[Any]
View = Literal["image", "table", "text"]  # how a subject is shown
CLASS_OUTPUTS = ("softmax", "log_softmax", "logit_margin", "raw")
ONE_OUTPUT = ("raw", "sigmoid")


@dataclass(frozen=True)
class Start:
    """A baseline to choose: its words, how it is made, and whether curves are measured with it in place of features."""

    label: str
    make: Callable[[Any], Tensor]
    """score -> (1, *shape), or (1, m, *shape) for several."""
    has_curves: bool = True
    is_usual: bool = False
    """Whether a path begins there unless another start is chosen; several are averaged."""


@dataclass(frozen=True)
class Subject:
    """One thing to explain.

    Example:
        >>> score = Score(lambda x: x.sum(1))
        >>> subject = Subject("table", "row 0", score, torch.ones(1, 2), {}, torch.tensor([0, 1]), names=("a", "b"))
        >>> subject.by_feature(torch.tensor([[3.0, 4.0]]))
        tensor([[3., 4.]])
    """

    kind: View
    title: str
    score: Score
    """Its model takes (n, *shape); target and output are those to begin with."""
    inputs: Tensor
    """(1, *shape)"""
    starts: Mapping[str, Start]
    """Baselines by name; without a usual one, the first is."""
    units: Tensor
    """(*shape) integers: numbers with the same one are removed together, those below 0 never."""
    names: tuple[str, ...] = ()
    """Of the features: columns or tokens. Empty for pictures."""
    feature_of: Tensor | None = None
    """(*shape) the feature that each number belongs to; None: the units."""
    details: tuple[Mapping[str, Any], ...] = ()
    """More on each feature, for the page."""
    classes: Sequence[str] | None = None
    """Names of the model's classes."""
    decode: Callable[[Tensor], Tensor] | None = None
    """Points (n, *shape) as the cells of a table (n, features)."""
    recipe: Sequence[str] = field(default_factory=tuple)
    """Python lines that make `subject`, this one; or, of a picture, `score` and `inputs`."""
    start_code: Callable[[str], str] = 'subject.starts["{}"].make(score)'.format
    """The Python expression of a baseline, by its name."""

    @property
    def shape(self) -> torch.Size:
        """Of the numbers that are explained."""
        return self.inputs.shape[1:]

    @property
    def groups(self) -> Tensor | None:
        """What is removed together, for the verb; None where it is as the kind of input has it."""
        return None if self.kind == "image" else self.units[None]

    @property
    def is_made_by_recipe(self) -> bool:
        """Whether the recipe makes `subject` itself, and not its `score` and `inputs`."""
        return any(line.startswith("subject = ") for line in self.recipe)

    @property
    def grid(self) -> tuple[int, int] | None:
        """(rows, columns) of the patches of a picture."""
        if self.kind != "image":
            return None
        cells = self.units[0]
        columns = int(cells[0].max()) + 1
        return int(cells.max() + 1) // columns, columns

    def by_feature(self, numbers: Tensor) -> Tensor:
        """(n, *shape) summed over the numbers of each feature: (n, features). For a picture: over its patches."""
        index = (self.units if self.feature_of is None else self.feature_of).flatten().to(numbers.device)
        n = len(self.names) or int(index.max()) + 1
        return numbers.new_zeros(len(numbers), n).index_add_(1, index, numbers.flatten(1))

    def mask(self, removed: Tensor) -> Tensor:
        """What a request removes, over pixels (height, width) or features (n,), as (*shape) booleans."""
        expected = self.shape[1:] if self.kind == "image" else (len(self.names),)
        if tuple(removed.shape) != tuple(expected):
            raise ValueError(f"removed has shape {tuple(removed.shape)}, expected {tuple(expected)}")
        if self.kind == "image":
            return (removed > 0).expand(self.shape)
        assert self.feature_of is not None
        return (removed > 0)[self.feature_of] & (self.units >= 0)


def plain_subject(
    kind: View, title: str, score: Score, inputs: Tensor, names: Sequence[Any] | None = None, **more: Any
) -> Subject:
    """A subject over numbers as they are: a picture in patches, tokens × width, or one feature per number."""
    shape = inputs.shape[1:]
    if kind == "image":
        return Subject(kind, title, score, inputs, units=patches(*shape[1:]).expand(shape), **more)
    is_text = kind == "text"
    index = torch.arange(shape[0] if is_text else max(1, shape.numel()))
    index = index[:, None].expand(shape) if is_text else index.reshape(shape)
    n, word = int(index.max()) + 1, "token" if is_text else "feature"
    names = tuple(f"{word} {i}" for i in range(n)) if names is None else tuple(map(str, names))
    if len(names) != n:
        raise ValueError(f"names has {len(names)} entries, the inputs have {n} features: pass one for each")
    tokens: list[dict[str, Any]] = [{"word": i, "special": False, "space": " "} for i in range(n)]
    cells: list[dict[str, Any]] = [{"text": f"{cell:.4g}", "category": None} for cell in inputs.flatten().tolist()]
    return Subject(
        kind, title, score, inputs, units=index, names=names, feature_of=index,
        details=tuple(tokens if is_text else cells), decode=None if is_text else partial(torch.flatten, start_dim=1),
        **more,
    )  # fmt: skip


@runtime_checkable
class SubjectSource(Protocol):
    """Where subjects come from: several pictures, rows or texts and one model."""

    kind: View

    @property
    def samples(self) -> Sequence[str]:
        """Names of all there is."""

    def subject(self, sample: int) -> Subject:
        """One of them."""

    def add(self, name: str, content: bytes, check: Callable[[Subject], Any] | None = None) -> int:
        """One more, from a file of the user's: its number. ValueError where it cannot be read.

        `check` may refuse it, by an error: then nothing is added.
        """


def adding_code(name: str) -> str:
    """Python that adds a file to `source`, as the page did, and gives the number of its first sample."""
    return f"source.add({name!r}, Path({name!r}).read_bytes())"


class LayerAsInput(nn.Module):
    """A model over the output of one of its layers, so that threads do not see each other's points.

    Forward hooks belong to a module, not to a thread: only one thread at a time may replace a layer's output. Whoever
    calls parts of the model elsewhere holds the same `lock`.
    """

    def __init__(self, model: Callable[..., Any], layer: nn.Module, lock: Lock | None = None) -> None:
        super().__init__()
        self.model, self.layer = model, layer
        self.training = isinstance(model, nn.Module) and model.training
        self._one_at_a_time = threading.RLock() if lock is None else lock

    def forward(self, activations: Tensor, *arguments: Any) -> Any:
        """The model's output where the layer gives these activations (n, *shape)."""

        def replace_output(_module: nn.Module, _inputs: Any, output: Any) -> Any:
            return (activations, *output[1:]) if isinstance(output, tuple) else activations

        with self._one_at_a_time, self.layer.register_forward_hook(in_this_thread(replace_output)):
            return self.model(*arguments)
