"""`leastpath explore`: pictures, rows, texts or a saved result in the browser.

`leastpath explore cat.jpg`, `leastpath explore table.csv --model weights.safetensors --model-class net:Net --row 12`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leastpath._support.optional import optional
from leastpath.commands.classifier import EfficientNetLite0, imagenet_classes
from leastpath.commands.explore_samples import sample_source
from leastpath.commands.model_files import load_model, made_by, made_model
from leastpath.commands.question import TABLES, names_in, read_frame, read_labels, separator_of
from leastpath.explorer.opening import session_of
from leastpath.explorer.saved import SavedSession
from leastpath.explorer.server import Explorer
from leastpath.explorer.session import Session
from leastpath.explorer.sources.tables import TableSource
from leastpath.explorer.sources.tensors import TensorSource
from leastpath.explorer.sources.texts import TextSource
from leastpath.explorer.subject import SubjectSource
from leastpath.features.images import PICTURES, read_image
from leastpath.result.attribution import load
from leastpath.score.score import Score

MOST = 200  # pictures or rows at once
_MODEL_FILES = "from leastpath.commands.model_files import"


def run_explore(
    inputs: list[Path] | None = None,
    *,
    text: Sequence[str] = (),
    row: Sequence[int] = (),
    sample: str | None = None,
    model: Path | None = None,
    factory: str | None = None,
    model_class: str | None = None,
    model_args: str | None = None,
    trust_model: bool = False,
    target: int | None = None,
    size: int = 224,
    labels: Path | None = None,
    drop: Sequence[str] = (),
    methods: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    no_open: bool = False,
) -> None:
    """Open the explorer with what the command line names. The arguments are explained in `commands.arguments`."""
    files = inputs or []
    offered = None if methods is None else names_in(methods)
    if files and files[0].suffix == ".safetensors":
        session: Session | SavedSession = SavedSession(load(files[0]), files[0].name)
    elif not files and not text:
        source, sentence = sample_source(sample)
        print(sentence)
        session = session_of(source, methods=offered, sentence=sentence)
    else:
        chosen = _Model(model, factory, model_class, model_args, trust_model)
        names = None if labels is None else read_labels(labels)
        source = source_of(files, text, row, chosen, target, size, names, names_in(*drop))
        session = session_of(source, methods=offered)
    explorer = Explorer(session, host, port)
    print(f"The explorer is at {explorer.url}\nEnd it with Ctrl-C.", flush=True)
    if not no_open:
        explorer.open()
    explorer.wait()


class _Model:
    """The model that the options name, loaded when it is known what for."""

    def __init__(self, file: Path | None, factory: str | None, name: str | None, args: str | None, trust: bool) -> None:
        if file is not None and factory is not None:
            raise ValueError("--model and --factory both name a model: pass one of the two")
        self.file, self.factory = file, factory
        self._how: dict[str, Any] = {"model_class": name, "arguments": args, "trust": trust}

    @property
    def is_given(self) -> bool:
        return self.file is not None or self.factory is not None

    def made(self) -> Any:
        """What the factory makes, or the file holds; an ImageNet classifier where neither is given."""
        if self.factory is not None:
            return made_model(self.factory, self._how["arguments"])
        return EfficientNetLite0() if self.file is None else load_model(self.file, **self._how)

    def for_texts(self) -> tuple[Any, Any]:
        """(model, tokenizer)"""
        if self.factory is not None:
            return _pair(made_by(self.factory, self._how["arguments"]))
        if self.file is None or not self.file.is_dir():
            raise ValueError(
                "--text needs --model FOLDER, a Hugging Face model for sequence classification, or --factory "
                "package.module:name that makes (model, tokenizer)"
            )
        library = optional("transformers", "texts need transformers", "transformers")
        try:
            tokenizer = library.AutoTokenizer.from_pretrained(self.file, local_files_only=True)
            found = library.AutoModelForSequenceClassification.from_pretrained(self.file, local_files_only=True)
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0].rstrip(" :")
            raise ValueError(f"{self.file} cannot be read as a Hugging Face model: {reason}") from error
        return found.eval(), tokenizer

    def lines(self) -> list[str]:
        """Python that makes `model`."""
        if self.factory is not None:
            return [f"{_MODEL_FILES} made_model", f"model = made_model({self._made_with()})"]
        if self.file is None:
            return ["from leastpath.commands.classifier import EfficientNetLite0", "model = EfficientNetLite0()"]
        given = "".join(f", {name}={value!r}" for name, value in self._how.items() if value)
        load_line = f"model = load_model({str(self.file)!r}{given})"
        return [f"{_MODEL_FILES} load_model", load_line]

    def text_lines(self) -> list[str]:
        """Python that makes `model` and `tokenizer`."""
        if self.factory is not None:
            return [f"{_MODEL_FILES} made_by", f"model, tokenizer = made_by({self._made_with()})"]
        return [
            "from transformers import AutoModelForSequenceClassification, AutoTokenizer",
            f"tokenizer = AutoTokenizer.from_pretrained({str(self.file)!r})",
            f"model = AutoModelForSequenceClassification.from_pretrained({str(self.file)!r}).eval()",
        ]

    def _made_with(self) -> str:
        given = self._how["arguments"]
        return f"{self.factory!r}, {given!r}" if given else repr(self.factory)


def _pair(made: Any) -> tuple[Any, Any]:
    if not isinstance(made, tuple) or len(made) != 2:
        raise ValueError("--factory for texts must make (model, tokenizer)")
    return made


def source_of(
    files: Sequence[Path],
    texts: Sequence[str],
    rows: Sequence[int],
    model: _Model,
    target: int | None,
    size: int,
    labels: Sequence[str] | None,
    drop: Sequence[str],
) -> SubjectSource:
    """What the options name: texts, a table or pictures."""
    if texts:
        if files:
            raise ValueError("--text and files cannot be shown together: start two explorers")
        return TextSource(*model.for_texts(), list(texts), target=target, recipe=model.text_lines())
    if files[0].name.lower().endswith(TABLES):
        if len(files) > 1 or not model.is_given:
            raise ValueError(
                "a table is shown by itself and needs its model: leastpath explore table.csv --model "
                "weights.safetensors --model-class package.module:Class --row 12"
            )
        return _table(files[0], rows, model, target, labels, drop)
    if rows:
        raise ValueError(f"--row is for tables ({', '.join(TABLES)}), and {files[0].name} is none")
    return _pictures(files, model, target, size, labels)


def _pictures(
    files: Sequence[Path], model: _Model, target: int | None, size: int, labels: Sequence[str] | None
) -> SubjectSource:
    found: dict[str, Path] = {}
    pixels: list[Tensor] = []
    for picture, is_named in _picture_files(files)[:MOST]:
        try:
            pixels.append(read_image(picture, size))
        except ValueError as error:
            if is_named:
                raise
            print(f"Left out: {error}")  # one broken file does not spoil a folder
            continue
        found[picture.name if picture.name not in found else str(picture)] = picture
    if not found:
        raise ValueError(f"{files[0]} holds no pictures that can be read: they end with {', '.join(PICTURES)}")
    places = list(found.values())

    def recipe(sample: int) -> list[str]:
        read = [
            "from leastpath.features.images import read_image",
            f"inputs = read_image({str(places[sample])!r}, {size})",
        ]
        return [*model.lines(), *read, "score = lp.Score(model)"]

    if labels is None and not model.is_given:
        labels = imagenet_classes()
    score = Score(model.made(), target)
    return TensorSource(score, torch.cat(pixels), titles=list(found), classes=labels, recipe=recipe)


def _picture_files(given: Sequence[Path]) -> list[tuple[Path, bool]]:
    """Each picture once, those in folders too, and whether it was named itself."""
    files: dict[Path, bool] = {}
    for file in given:
        inside = sorted(f for f in file.iterdir() if f.suffix.lower() in PICTURES) if file.is_dir() else [file]
        files.update({picture: not file.is_dir() for picture in inside})
    return list(files.items())


def _table(
    file: Path, rows: Sequence[int], model: _Model, target: int | None, labels: Any, drop: Sequence[str]
) -> SubjectSource:
    table = read_frame(file, drop).dropna()
    chosen = list(rows) or list(table.index[:50])
    missing = [row for row in chosen if row not in table.index]
    if missing:
        last = max(table.index, default=0)
        raise ValueError(f"--row {missing[0]} is not in the table, or has empty cells: its last full row is {last}")
    left_out = f".drop(columns={list(drop)!r})" if drop else ""
    by_tabs = "" if separator_of(file) == "," else f", sep={separator_of(file)!r}"
    recipe = (
        "import pandas",
        *model.lines(),
        f"background = pandas.read_csv({str(file)!r}{by_tabs}){left_out}.dropna()",
        f"frame = background.loc[{list(rows)!r}]" if rows else f"frame = background[:{len(chosen)}]",
    )
    return TableSource(model.made(), table.loc[chosen], table, target=target, classes=labels, recipe=recipe)
