"""`leastpath explore`: pictures, rows, texts or a saved result in the browser.

`leastpath explore cat.jpg`, `leastpath explore table.csv --model weights.safetensors --model-class net:Net --row 12`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from leastpath._support.optional import optional
from leastpath.attribution import load
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
from leastpath.images import PICTURES, read_image
from leastpath.score import Score

MOST = 200  # pictures or rows at once


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
            reason = str(error).partition("\n")[0]
            raise ValueError(f"{self.file} cannot be read as a Hugging Face model: {reason}") from error
        return found.eval(), tokenizer

    def lines(self) -> list[str]:
        """Python that makes `model`."""
        if self.factory is not None:
            module, _, name = self.factory.partition(":")
            given = self._how["arguments"]
            return [f"from {module} import {name}", f"model = {name}({f'**{json.loads(given)!r}' if given else ''})"]
        if self.file is None:
            return ["from leastpath.commands.classifier import EfficientNetLite0", "model = EfficientNetLite0()"]
        given = "".join(f", {name}={value!r}" for name, value in self._how.items() if value)
        load_line = f"model = load_model({str(self.file)!r}{given})"
        return ["from leastpath.commands.model_files import load_model", load_line]


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
        return TextSource(*model.for_texts(), list(texts), target=target)
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
    for file in files:
        inside = sorted(f for f in file.iterdir() if f.suffix.lower() in PICTURES) if file.is_dir() else [file]
        for picture in inside:
            found.setdefault(picture.name if picture.name not in found else str(picture), picture)
    if not found:
        raise ValueError(f"{files[0]} holds no pictures: they end with {', '.join(PICTURES)}")
    pixels = torch.cat([read_image(file, size) for file in list(found.values())[:MOST]])

    def recipe(name: str) -> list[str]:
        read = [
            "from leastpath.images import PICTURES, read_image",
            f"inputs = read_image({str(found.get(name, name))!r}, {size})",
        ]
        return [*model.lines(), *read, "score = lp.Score(model)"]

    if labels is None and not model.is_given:
        labels = imagenet_classes()
    score = Score(model.made(), target)
    return TensorSource(score, pixels, titles=list(found)[:MOST], classes=labels, recipe=recipe)


def _table(
    file: Path, rows: Sequence[int], model: _Model, target: int | None, labels: Any, drop: Sequence[str]
) -> SubjectSource:
    table = read_frame(file, drop).dropna()
    chosen = list(rows) or list(table.index[:50])
    missing = [row for row in chosen if row not in table.index]
    if missing:
        raise ValueError(f"--row {missing[0]} is not in the table, or has empty cells: it has rows 0 to {len(table)}")

    def recipe(title: str) -> list[str]:
        added, _, number = title.rpartition("row ")
        left_out = f".drop(columns={list(drop)!r})" if drop else ""
        by_tabs = "" if separator_of(file) == "," else f", sep={separator_of(file)!r}"
        frame = f"pandas.read_csv({added.removesuffix(', ')!r}).iloc[[{number}]]"  # of a file that the page was given
        read = [
            f"background = pandas.read_csv({str(file)!r}{by_tabs}){left_out}.dropna()",
            f"frame = {f'{frame}[list(background)]' if added else f'background.loc[[{number}]]'}",
        ]
        return ["import pandas", *model.lines(), *read]

    return TableSource(model.made(), table.loc[chosen], table, target=target, classes=labels, recipe=recipe)
