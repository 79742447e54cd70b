"""`leastpath explore`: pictures, rows, texts, prompts or a saved result in the browser.

`leastpath explore cat.jpg`, `leastpath explore table.csv --model weights.safetensors --model-class net:Net --row 12`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from leastpath.commands.classifier import imagenet_classes
from leastpath.commands.explain_prompt import SMOLLM2, load_language_model
from leastpath.commands.explore_samples import sample_source
from leastpath.commands.files import (
    TABLES,
    fill_empty,
    kind_of_file,
    names_in,
    picture_files,
    read_frame,
    read_labels,
    separator_of,
)
from leastpath.commands.model_files import GivenModel
from leastpath.commands.options import ExploreOptions
from leastpath.explorer.prompts import PromptSession, PromptSource
from leastpath.explorer.saved import SavedSession
from leastpath.explorer.server import Explorer
from leastpath.explorer.session import Session, session_of
from leastpath.explorer.sources.tables import TableSource
from leastpath.explorer.sources.tensors import TensorSource
from leastpath.explorer.sources.texts import TextSource
from leastpath.explorer.subject import SubjectSource
from leastpath.features.images import PICTURES, read_image
from leastpath.result.attribution import load
from leastpath.score.score import Score

MOST = 200  # pictures at once
MOST_ROWS = 50  # of a table, where none is named


def run_explore(options: ExploreOptions) -> None:
    """Open the explorer with what the command line names.

    Example:
        >>> run_explore(ExploreOptions(sample="digits"))  # doctest: +SKIP
    """
    files = options.inputs
    methods = None if options.methods is None else names_in(options.methods)
    session: Session | SavedSession | PromptSession
    if options.prompt is not None or options.model_dir is not None:
        session = PromptSession(prompt_of(options))
    elif files and files[0].suffix == ".safetensors":
        session = SavedSession(load(files[0]), files[0].name)
    elif not files and not options.text:
        source, sentence = sample_source(options.sample)
        print(sentence)
        session = session_of(source, methods=methods, sentence=sentence)
    else:
        session = session_of(source_of(options), methods=methods)
    explorer = Explorer(session, options.host, options.port)
    print(f"The explorer is at {explorer.url}\nEnd it with Ctrl-C.", flush=True)
    with suppress(KeyboardInterrupt):
        if not options.no_open:
            explorer.open()
    explorer.wait()


def prompt_of(options: ExploreOptions) -> PromptSource:
    """The prompt that the options name, and its model."""
    folder = options.model_dir
    if options.prompt is None or folder is None:
        raise ValueError(
            'a prompt needs its model: leastpath explore --prompt "The capital of France is" --model-dir DIR'
        )
    if not folder.is_dir() and str(folder) != SMOLLM2:
        raise ValueError(f"--model-dir {folder} is not a folder: pass one that save_pretrained wrote, or {SMOLLM2}")
    if options.inputs or options.text:
        raise ValueError("--prompt and files or --text cannot be shown together: start two explorers")
    recipe = (
        "from leastpath.commands.explain_prompt import SMOLLM2, load_language_model", "",
        f"model, tokenizer = load_language_model(Path({str(folder)!r}))",
    )  # fmt: skip
    return PromptSource(
        *load_language_model(folder), options.prompt, options.continuation, options.contrast,
        max_new_tokens=options.max_new_tokens, recipe=("from pathlib import Path", *recipe),
    )  # fmt: skip


def source_of(options: ExploreOptions) -> SubjectSource:
    """What the options name: texts, a table or pictures."""
    files, model = options.inputs, GivenModel(options)
    if options.text:
        if files:
            raise ValueError("--text and files cannot be shown together: start two explorers")
        pair, recipe = model.load_for_texts(), model.lines(for_texts=True)
        return TextSource(*pair, list(options.text), target=options.target, recipe=recipe)
    labels = None if options.labels is None else read_labels(options.labels)
    if kind_of_file(files[0]) == "table":
        if len(files) > 1 or not model.is_given:
            raise ValueError(
                "a table is shown by itself and needs its model: leastpath explore table.csv --model "
                "weights.safetensors --model-class package.module:Class --row 12"
            )
        return _table(files[0], options, model, labels)
    if options.row:
        raise ValueError(f"--row is for tables ({', '.join(TABLES)}), and {files[0].name} is none")
    return _pictures(files, options, model, labels)


def _pictures(
    files: Sequence[Path], options: ExploreOptions, model: GivenModel, labels: Sequence[str] | None
) -> SubjectSource:
    found: dict[str, Path] = {}
    pixels: list[Tensor] = []
    for picture, is_named in _picture_files(files)[:MOST]:
        try:
            pixels.append(read_image(picture, options.size, **options.reading))
        except ValueError as error:
            if is_named:
                raise
            print(f"Left out: {error}")  # one broken file does not spoil a folder
            continue
        found[picture.name if picture.name not in found else str(picture)] = picture
    if not found:
        raise ValueError(f"{files[0]} holds no pictures that can be read: they end with {', '.join(PICTURES)}")
    places = list(found.values())
    how = "".join(f", {name}={value}" for name, value in options.reading.items())

    def recipe(sample: int) -> list[str]:
        read = [
            "from leastpath.features.images import read_image",
            f"inputs = read_image({str(places[sample])!r}, {options.size}{how})",
        ]
        return [*model.lines(), *read, "score = lp.Score(model)"]

    if labels is None and not model.is_given:
        labels = imagenet_classes()
    score = Score(model.load(), options.target)
    return TensorSource(score, torch.cat(pixels), titles=list(found), classes=labels, recipe=recipe)


def _picture_files(given: Sequence[Path]) -> list[tuple[Path, bool]]:
    """Each picture once, those in folders too, and whether it was named itself."""
    files: dict[Path, bool] = {}
    for file in given:
        files.update({picture: not file.is_dir() for picture in (picture_files(file) if file.is_dir() else [file])})
    return list(files.items())


def _table(file: Path, options: ExploreOptions, model: GivenModel, labels: Sequence[str] | None) -> SubjectSource:
    rows, drop = options.row, names_in(*options.drop)
    given = read_frame(file, drop)
    filled = fill_empty(given, options.missing)
    table = filled.dropna()
    chosen = list(rows) or list(table.index[:MOST_ROWS])
    missing = [row for row in chosen if row not in table.index]
    if missing:
        last = max(table.index, default=0)
        raise ValueError(f"--row {missing[0]} is not in the table, or lacks a word: its last full row is {last}")
    left_out = f".drop(columns={drop!r})" if drop else ""
    by_tabs = "" if separator_of(file) == "," else f", sep={separator_of(file)!r}"
    fill = "" if filled is given else f".pipe(leastpath.commands.files.fill_empty, {options.missing!r})"
    recipe = (
        "import pandas",
        *(["import leastpath.commands.files"] if fill else []),
        *model.lines(),
        f"background = pandas.read_csv({str(file)!r}{by_tabs}){left_out}{fill}.dropna()",
        f"frame = background.loc[{list(rows)!r}]" if rows else f"frame = background[:{len(chosen)}]",
    )
    return TableSource(model.load(), table.loc[chosen], table, target=options.target, classes=labels, recipe=recipe)
