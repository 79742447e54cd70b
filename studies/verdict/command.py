"""`python -m studies.verdict`: explain, judge, count, and write the measured part of the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import torch
from typer import Option

from leastpath._support.files import write_atomically
from leastpath.commands.run_folder import RunFolder, default_folder
from studies.truth.command import named
from studies.truth.nets import SIZE
from studies.verdict.judging import Workshop, do_all
from studies.verdict.page import BEGIN, END, draw_rates, write_csv, write_page
from studies.verdict.results import sum_up, with_earlier
from studies.verdict.tasks import TASKS


def command(
    data: Annotated[Path | None, Option(help="Folder of shared data. Nets that need it are left out without.")] = None,
    nets: Annotated[str | None, Option(help=f"Names with commas, of: {', '.join(TASKS)}.")] = None,
    inputs: Annotated[int | None, Option(help="At most so many inputs of a net.")] = None,
    quick: Annotated[bool, Option("--quick", help="Look at little, to see that everything runs.")] = False,
    minutes: Annotated[float | None, Option(help="Stop after that long; start again with --resume.")] = None,
    out: Annotated[Path | None, Option(help="Folder of the run. Default: out/verdict, numbered where taken.")] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with an earlier run: nothing is done twice.")] = False,
    save: Annotated[Path | None, Option(help="Write the results into verdict.md and _generated here.")] = None,
    threads: Annotated[int, Option(help="Threads of torch.")] = 1,
) -> None:
    """How often is a verdict wrong? Explanations that should pass, and controls that should not, on real nets.

    Settings were chosen on even-numbered inputs; odd-numbered ones are judged here.
    """
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    folder = out or default_folder("verdict-quick" if quick else "verdict", resume)
    run = RunFolder.open(folder, "verdict", {"quick": quick, "size": SIZE}, resume=resume)
    workshop = Workshop(run.store, data, quick)
    chosen = list(named(TASKS, nets, "net").values())
    left = do_all(workshop, chosen, most=inputs or (3 if quick else None), minutes=minutes, progress=True)
    if left:
        print(f"{left} units of work are left: --resume")
    write_results(run, save)


def write_results(run: RunFolder, save: Path | None = None) -> None:
    """verdict.json, its picture and tables of all that the folder holds.

    With `save` also in the documentation, beside what it has of other inputs.
    """
    told = sum_up(run.store, TASKS)
    if save is not None and (known := save / "_generated" / "verdict.json").is_file():
        told = with_earlier(told, json.loads(known.read_text(encoding="utf-8")))
    text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    run.write("verdict.json", text)
    page = write_page(told, f"{BEGIN}{END}\n")
    run.write("verdict.md", page)
    figure = draw_rates(told)
    picture = None if figure is None else run.save_figure(figure, "verdict_rates")
    if save is not None:
        (save / "_generated").mkdir(parents=True, exist_ok=True)
        write_atomically(save / "_generated" / "verdict.json", text.encode())
        write_atomically(save / "_generated" / "verdict.csv", write_csv(told).encode())
        if picture is not None:
            write_atomically(save / "_generated" / "verdict_rates.png", picture.read_bytes())
        hand = save / "verdict.md"
        write_atomically(hand, write_page(told, hand.read_text(encoding="utf-8")).encode())
    print(page)
