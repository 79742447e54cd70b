"""`python -m studies.truth`: explain, measure, test, choose, and write the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from typer import Option

from leastpath._support.files import write_atomically
from leastpath.commands.run_folder import RunFolder, default_folder
from studies.truth.candidates import CANDIDATES, IG, LINE, Candidate
from studies.truth.choice import choose
from studies.truth.earlier import key_of, read_rows, with_earlier, with_rows, write_rows
from studies.truth.leads import SORTS
from studies.truth.nets import NETS, SIZE
from studies.truth.page import nets_page, truth_page
from studies.truth.pictures import heat_map, marks_picture
from studies.truth.problem import HALVES, Half, Net
from studies.truth.results import Rows, evidence, examples, gains_by_example, gates, summary, tests
from studies.truth.rivals import beside_rivals
from studies.truth.work import Workshop, do_all, pieces


def command(
    data: Annotated[Path | None, Option(help="Folder of shared data. Nets that need it are left out without.")] = None,
    nets: Annotated[str | None, Option(help=f"Names with commas, of: {', '.join(NETS)}.")] = None,
    methods: Annotated[str | None, Option(help=f"Names with commas, of: {', '.join(CANDIDATES)}.")] = None,
    half: Annotated[str, Option(help="development, reporting or both.")] = "both",
    images: Annotated[int | None, Option(help="At most so many examples of a net in each half.")] = None,
    quick: Annotated[bool, Option("--quick", help="Look at little, to see that everything runs.")] = False,
    minutes: Annotated[float | None, Option(help="Stop after that long; start again with --resume.")] = None,
    out: Annotated[Path | None, Option(help="Folder of the run. Default: out/truth, numbered where taken.")] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with an earlier run: nothing is done twice.")] = False,
    save: Annotated[
        Path | None, Option(help="Go on from _generated/truth.csv here, and add to it and to truth.md.")
    ] = None,
    threads: Annotated[int, Option(help="Threads of torch.")] = 1,
) -> None:
    """Which explanations stand a test? Removal, objects, a planted shortcut; nets of images, text and tables.

    Settings are chosen on one half of the examples and nets, and the tables are of the other half.
    """
    torch.set_num_threads(threads)
    if half not in (*HALVES, "both"):
        raise ValueError(f"half={half!r} is unknown: use development, reporting or both")
    chosen = named(NETS, nets, "net")
    folder = out or default_folder("truth-quick" if quick else "truth", resume)
    run = RunFolder.open(folder, "truth", {"quick": quick, "size": SIZE}, resume=resume)
    run_truth(
        run, data, list(chosen.values()), named(CANDIDATES, methods, "method"), halves_of(half),
        images=4 if quick and images is None else images, methods_named=methods is not None, minutes=minutes,
        progress=True, save=save,
    )  # fmt: skip


def run_truth(
    run: RunFolder,
    data: Path | None,
    nets: Sequence[Net],
    candidates: Mapping[str, Candidate],
    halves: Sequence[Half] = HALVES,
    *,
    images: int | None = None,
    methods_named: bool = False,
    minutes: float | None = None,
    progress: bool = False,
    save: Path | None = None,
    known: Mapping[str, Net] = NETS,
    all_candidates: Mapping[str, Candidate] = CANDIDATES,
) -> dict[str, Any]:
    """Do what is left, then write truth.json, truth.csv, the pictures and truth.md of all that the folder holds.

    Args:
        run: the folder.
        data: of shared data.
        nets: to work on.
        candidates: to work on.
        halves: to work on.
        images: at most so many examples of a net in each half.
        methods_named: the candidates were named, so that all of them are reported.
        minutes: stop after that long.
        progress: show a bar.
        save: folder of the documentation.
        known: all nets that may be in the folder.
        all_candidates: all candidates that may be in the folder.
    """
    kept = read_rows(save / "_generated" / "truth.csv", all_candidates) if save is not None else []
    workshop = Workshop(run.store, data, quick=bool(run.store.config.get("quick")), known=map(key_of, kept))
    work = list(pieces(nets, list(candidates.values()), halves, images=images, named=methods_named))
    left = do_all(workshop, work, progress=progress, minutes=minutes)
    if left:
        print(f"{len(left)} pieces of work are left, about {sum(p.seconds for p in left) / 60:.0f} minutes: --resume")
    rows = with_rows(examples(run.store, known, all_candidates), kept, list(known))
    told = told_by(rows, known, all_candidates, run)
    page = save / "_generated" / "truth.json" if save is not None else None
    if page is not None and page.is_file():
        told = with_earlier(told, json.loads(page.read_text(encoding="utf-8")))
    write_results(run, rows, told, save)
    return told


def told_by(
    rows: Sequence[Rows], nets: Mapping[str, Net], candidates: Mapping[str, Candidate], run: RunFolder
) -> dict[str, Any]:
    """All that the page needs, as JSON."""
    present = [name for name in nets if any(row["net"] == name for row in rows)]
    summaries: dict[str, Any] = {half: {} for half in HALVES}
    for half in HALVES:
        for net in present:
            by_method = {
                method: summary(own)
                for method in candidates
                if (own := [r for r in rows if (r["net"], r["half"], r["method"]) == (net, half, method)])
            }
            if by_method:
                summaries[half][net] = by_method
    return {
        "nets": {name: _of_net(nets[name], run) for name in present},
        "candidates": {name: candidate.title for name, candidate in candidates.items()},
        "summaries": summaries,
        "gates": {half: _gates_of([row for row in rows if row["half"] == half], nets, candidates) for half in HALVES},
        "tests": tests(rows),
        "choices": choices(rows, nets, candidates),
        "examples": gains_by_example(rows),
        "rivals": beside_rivals(rows, nets),
    }


def _gates_of(
    rows: Sequence[Rows], nets: Mapping[str, Net], candidates: Mapping[str, Candidate]
) -> dict[str, dict[str, float]]:
    found = {method: gates([row for row in rows if row["method"] == method], nets) for method in candidates}
    return {method: {name: round(x, 6) for name, x in of.items()} for method, of in found.items() if of}


def _of_net(net: Net, run: RunFolder) -> dict[str, Any]:
    key = f"quality {net.name}"
    quality = run.store.read(key).record if key in run.store else {}
    return {
        "title": net.title, "kind": net.kind, "gate": net.gate, "reporting_only": net.reporting_only,
        "quality": {name: round(float(value), 4) for name, value in quality.items()},
    }  # fmt: skip


def choices(rows: Sequence[Rows], nets: Mapping[str, Net], candidates: Mapping[str, Candidate]) -> dict[str, Any]:
    """What the rule chooses for each sort of input."""
    eligible = [name for name, candidate in candidates.items() if not (candidate.reference or candidate.few)]
    found = {}
    for sort in SORTS:
        development, reporting = (evidence(rows, nets, half, sort) for half in HALVES)
        if IG in development:
            choice = choose(development, reporting, eligible, reference=IG, fallback=LINE)
            means = {name: round(of.mean, 6) for name, of in development.items()}
            found[sort] = {
                "name": choice.name, "best": choice.best, "reason": choice.reason, "harms": choice.harms,
                "confirmation": choice.confirmation, "development": means,
            }  # fmt: skip
    return found


def write_results(run: RunFolder, rows: Sequence[Rows], told: Mapping[str, Any], save: Path | None) -> None:
    """truth.csv, truth.json, pictures and truth.md, in the run's folder and where the documentation is."""
    run.write("truth.json", _json_of(told))
    run.write("truth.csv", write_rows(rows))
    pictures = {
        name: run.save_figure(figure, name)
        for name, figure in (("truth_heat", heat_map(told)), ("truth_marks", marks_picture(told)))
        if figure is not None
    }
    here = run.path / "truth.md"
    run.write("truth.md", truth_page(told, here.read_text(encoding="utf-8") if here.is_file() else ""))
    run.write("truth_nets.md", nets_page(told))
    if save is not None:
        (save / "_generated").mkdir(parents=True, exist_ok=True)
        page = save / "truth.md"
        kept = page.read_text(encoding="utf-8") if page.is_file() else ""
        write_atomically(page, truth_page(told, kept).encode())
        for name in ("truth.json", "truth.csv", "truth_nets.md"):
            write_atomically(save / "_generated" / name, (run.path / name).read_bytes())
        for name, file in pictures.items():
            write_atomically(save / "_generated" / f"{name}.png", file.read_bytes())
    print(f"page: {here}")


def _json_of(told: Mapping[str, Any]) -> str:
    """A line for each part of a part: to be kept under version control."""
    parts = []
    for name, part in told.items():
        if isinstance(part, list):
            lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in part)
            parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
        else:
            inner = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in part.items())
            parts.append(f"{json.dumps(name)}: {{\n{inner}\n}}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def halves_of(half: str) -> tuple[Half, ...]:
    """What "both" stands for.

    Example:
        >>> halves_of("both")
        ('development', 'reporting')
    """
    return tuple(one for one in HALVES if half in (one, "both"))


def named(known: Mapping[str, Any], names: str | None, what: str) -> dict[str, Any]:
    """Those of these names, with commas between them, in the order of `known`; None: all.

    Example:
        >>> list(named({"a": 1, "b": 2}, "b,a", "net"))
        ['a', 'b']
    """
    if names is None:
        return dict(known)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            raise ValueError(f"no {what} is called {name!r}: use some of {', '.join(known)}")
    return {name: one for name, one in known.items() if name in wanted}
