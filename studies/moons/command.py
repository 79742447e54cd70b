"""`python -m studies.moons`: options, what is kept for the documentation, and the table on the screen."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table
from typer import Option

from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.methods import METHODS
from studies.moons.config import MoonsConfig
from studies.moons.experiment import run_moons
from studies.moons.table import against_expected, conclusion, method_results, table_1, winner


def command(
    quick: Annotated[
        bool, Option("--quick", help="3 noise levels × 1 seed, fewer points for the slow methods: two minutes.")
    ] = False,
    out: Annotated[
        Path | None, Option(help="Folder of the run. Default: out/moons or out/moons-quick, numbered where taken.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with an interrupted run: nothing is done twice.")] = False,
    jobs: Annotated[int | None, Option(min=1, help="Processes. Default: one a CPU.")] = None,
    methods: Annotated[
        str | None, Option(help="Names separated by commas; `leastpath methods` lists them. Default: all of Table 1.")
    ] = None,
    seeds: Annotated[str | None, Option(help="Numbers separated by commas. Default: the paper's five.")] = None,
    costly_points: Annotated[
        int | None, Option(min=2, help="Test points per net for KernelSHAP and Variational. Default: 500.")
    ] = None,
    save: Annotated[
        Path | None, Option(help="Write the table and the figures to this folder too, as the documentation shows them.")
    ] = None,
) -> None:
    """The paper's half-moons experiment: Table 1 beside the printed one, and its figures.

    Trains a small net on two half-moons for each of 13 noise levels and 5 seeds, explains 2,000 test points of each by
    ten methods, and ranks the methods by purity. Takes about 35 minutes of one CPU, divided by the number of processes.
    """
    config = MoonsConfig.quick() if quick else MoonsConfig()
    changed: dict[str, Any] = {}
    if methods is not None:
        changed["methods"] = _known_methods(methods)
    if seeds is not None:
        changed["seeds"] = _numbers(seeds)
    if costly_points is not None:
        changed["costly_points"] = costly_points
    config = replace(config, **changed)
    folder = out or default_folder("moons-quick" if quick else "moons", resume)
    run = run_moons(folder, config, resume=resume, jobs=jobs, progress=True)
    if save is not None:
        _save(run, save)
    _print_results(run, config)


def _known_methods(names: str) -> tuple[str, ...]:
    return tuple(METHODS[name.strip()].name for name in names.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"--seeds {text}: expected whole numbers separated by commas, as in --seeds 12,24") from None


def _save(run: RunFolder, folder: Path) -> None:
    """Numbers and figures as moons_*, the pictures in few colours: they are kept under version control."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run.path / "summary.json", folder / "moons_summary.json")
    for file in run.figures.glob("*.png"):
        with Image.open(file) as picture:
            picture.convert("RGB").quantize(128).save(folder / f"moons_{file.name}", optimize=True)


def _print_results(run: RunFolder, config: MoonsConfig) -> None:
    console = Console()
    if not console.is_terminal:  # piped into a file: room for whole names
        console = Console(width=120)
    table = Table(title=f"AUC-purity over noise {config.noises[0]} to {config.noises[-1]}", title_justify="left")
    frame = table_1(run.store, config)
    shown = [name for name in frame.columns if name not in ("gradients", "forwards", "CPU s a net")]
    for column in shown:
        table.add_column(column, justify="left" if column == "method" else "right")
    results = method_results(run.store, config)
    best = winner(results, config).title
    for row in frame[shown].itertuples(index=False):
        table.add_row(*map(str, row), style="bold" if row[0] == best else "")
    console.print(table)
    console.print(conclusion(results, config), soft_wrap=True)
    console.print(against_expected(results, config), soft_wrap=True)
    console.print(f"report: {run.path / 'report.html'}", soft_wrap=True)
