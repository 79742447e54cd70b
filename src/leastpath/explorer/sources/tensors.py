"""Pictures and rows of numbers that are tensors already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from leastpath.explorer.subject import LayerAsInput, Start, Subject, View, adding_code, plain_subject
from leastpath.explorer.uploads import keep_together, picture_from
from leastpath.score.arguments import per_example
from leastpath.score.baselines import Several, baseline
from leastpath.score.calls import Baselines, Inputs
from leastpath.score.score import Score, flat_baseline, rows_of

_IMPORT = ("from leastpath.explorer.sources.tensors import TensorSource",)
USUAL = {"image": ("black", "zero", "mean"), "table": ("mean",), "text": ()}  # of pictures several help most
WORDS = {"mean": "mean colour", "blur": "blurred", "uniform": "noise", "zero": "zeros", "given": "as given"}


@dataclass(frozen=True)
class _Row:
    name: str
    score: Score
    inputs: Tensor  # (1, *shape)
    given: Tensor | None  # (1, m, *shape) the baselines that came with it


class TensorSource:
    """A score and a batch of inputs, one sample per row.

    Args:
        score: what is explained; a class where none is given is the predicted one.
        inputs: (batch, *features). Pictures are (batch, channels, height, width), rows (batch, features), tokens the
            ids of a score with a layer.
        baselines: as `attribute` takes them; None: zeros, and what else fits the inputs.
        names: of the features: columns of a table, or for each example its tokens.
        classes: names of the classes.
        data: (n, *features) of a table, for the baselines "mean", "median" and "samples".
        titles: of the samples.
        recipe: from a sample's number to Python lines that make `subject`, or of a picture `score` and `inputs`.

    Example:
        >>> source = TensorSource(Score(lambda x: x.sum(1)), torch.ones(2, 3), names=("a", "b", "c"))
        >>> source.kind, source.samples, list(source.subject(1).starts)
        ('table', ['example 0', 'example 1'], ['zero'])
    """

    def __init__(
        self,
        score: Score,
        inputs: Inputs,
        baselines: Baselines | Several = None,
        *,
        names: Sequence[Any] | None = None,
        classes: Sequence[str] | None = None,
        data: Tensor | None = None,
        titles: Sequence[str] | None = None,
        recipe: Callable[[int], Sequence[str]] | None = None,
    ) -> None:
        if not isinstance(inputs, Tensor):
            raise ValueError(
                f"inputs is a {type(inputs).__name__}, expected one tensor (batch, *features): the explorer shows one "
                "input; for several explain them with lp.attribute"
            )
        self.classes, self.data, self.names, self._recipe = classes, data, names, recipe
        titles = titles or [f"example {i}" for i in range(len(inputs))]
        self._rows = [_row(score, inputs, baselines, i, titles[i]) for i in range(len(inputs))]
        self._settings = {"baselines": baselines is not None, "names": names is not None, "data": data is not None}
        self._n_given = len(self._rows)
        first = self._rows[0].inputs
        self.kind: View = "image" if first.ndim == 4 else "table"
        if score.layer is not None and first.ndim == 3:
            self.kind = "text"
        if self.kind == "table" and first.ndim != 2:
            raise ValueError(
                f"inputs have shape {tuple(inputs.shape)}, expected pictures (batch, channels, height, width), rows "
                "(batch, features), or token ids with Score(…, layer=model.embedding)"
            )

    @property
    def samples(self) -> list[str]:
        """Names of all there is."""
        return [row.name for row in self._rows]

    def subject(self, sample: int) -> Subject:
        """One of the rows."""
        return self._subject(self._rows[sample], sample)

    def _subject(self, row: _Row, sample: int) -> Subject:
        names = self.names
        if names is not None and self.kind == "text" and not isinstance(names[0], str):
            names = names[sample]  # one list per example
        subject = plain_subject(
            self.kind, row.name, row.score, row.inputs, names, starts=self._starts(row), classes=self.classes,
            recipe=self._lines(row.name, sample),
        )  # fmt: skip
        return subject if subject.is_made_by_recipe else replace(subject, start_code=_start_code)

    def add(self, name: str, content: bytes, check: Callable[[Subject], Any] | None = None) -> int:
        """A picture more, of the size of the others."""
        like = self._rows[0]
        low, high = float(like.inputs.min()), float(like.inputs.max())
        if self.kind != "image" or low < 0 or high > 1:
            raise ValueError("a file can be added only where the inputs are pictures with values from 0 to 1")
        picture = picture_from(name, content, tuple(like.inputs.shape[1:])).to(like.inputs)
        score = replace(like.score, target=None) if isinstance(like.score.target, int) else like.score
        row = _Row(name, score, picture, None)
        if check is not None:
            check(self._subject(row, len(self._rows)))
        return keep_together(self._rows, [row])

    def _lines(self, name: str, sample: int) -> tuple[str, ...]:
        """The recipe of a sample. Of pictures as you gave them, what makes `score` and `inputs`; else `subject`."""
        if sample >= self._n_given:
            made = self._recipe(0) if self._recipe is not None else ("# score, inputs: as you gave them to lp.explore",)
            if any(line.startswith("subject = ") for line in made):
                made = (*made, "score, inputs = subject.score, subject.inputs")
            number = adding_code(name)
            return *_IMPORT, *made, "source = TensorSource(score, inputs)", f"subject = source.subject({number})"
        if self._recipe is not None:
            return tuple(self._recipe(sample))
        settings = [name for name, is_given in self._settings.items() if is_given]
        given = f"# {', '.join(('score', 'inputs', *settings))}: as you gave them to lp.explore"
        if self.kind == "image" and min(self._rows[sample].inputs.shape[2:]) > 1:  # else `attribute` sees a table
            rows = f"[{sample} : {sample + 1}]"
            if not self._settings["baselines"]:
                return given, f"inputs = inputs{rows}"
            return (
                given,
                f"inputs, given = inputs{rows}, baselines{rows}  # or baselines as they are, if they are for all",
            )
        more = "".join(f", {name}={name}" for name in settings)
        return *_IMPORT, given, f"subject = TensorSource(score, inputs{more}).subject({sample})"

    def _starts(self, row: _Row) -> Mapping[str, Start]:
        starts: dict[str, Start] = {}

        def add(name: str, label: str, has_curves: bool = True, **settings: Any) -> None:
            is_usual = name == "given" or (row.given is None and name in USUAL[self.kind])
            starts[name] = Start(label, lambda score: _make_start(name, row, settings), has_curves, is_usual)

        if row.given is not None:
            add("given", WORDS["given"])
        if self.kind == "image":
            in_range = float(row.inputs.min()) >= 0 and float(row.inputs.max()) <= 1
            for name in ["black", "white", "mean", "blur", "uniform"] if in_range else ["zero", "mean", "blur"]:
                add(name, WORDS.get(name, name), name in ("mean", "blur"))
            return starts
        if self.data is not None:
            add("mean", "mean of the data", points=self.data)
            add("median", "median of the data", points=self.data)
            add("samples", "rows of the data", False, points=self.data)
        if row.given is None:
            add("zero", WORDS["zero"])
        return starts


def _make_start(name: str, row: _Row, settings: Mapping[str, Any]) -> Tensor:
    if name == "given":
        assert row.given is not None
        return row.given
    if name == "median":
        return settings["points"].median(0).values[None].to(row.inputs)
    return torch.zeros_like(row.inputs) if name == "zero" else baseline(name, row.inputs, **settings)


def _row(score: Score, inputs: Tensor, baselines: Baselines | Several, i: int, name: str) -> _Row:
    """One example as a problem of its own, whose inputs are the numbers that are explained."""
    whole = baselines.of(inputs, score) if isinstance(baselines, Several) else baselines
    own, x, given = rows_of(score, inputs, whole, [i])
    assert isinstance(x, Tensor)
    if isinstance(own.target, Tensor):
        own = replace(own, target=int(own.target[0]))
    if own.layer is None:
        start = None if given is None else _several(given, x)
        return _Row(name, own, x.detach(), start)
    bound = own.bind(x)
    start, end = bound.space.ends(given)
    plain = replace(
        own, model=LayerAsInput(own.model, own.layer), layer=None,
        additional_forward_args=(per_example(x), *own.additional_forward_args),
    )  # fmt: skip
    return _Row(name, plain, end, start[:, None])


def _several(given: Any, x: Tensor) -> Tensor:
    """Baselines as (1, m, *shape)."""
    m = given.shape[1] if isinstance(given, Tensor) and given.ndim == x.ndim + 1 else 1
    return flat_baseline(given, x, m).unflatten(0, (1, m))


def _start_code(name: str) -> str:
    """A picture's baseline by its public name."""
    return {"given": "given", "zero": "torch.zeros_like(inputs)"}.get(name, f'lp.baselines.baseline("{name}", inputs)')
