"""`python -m studies.findings`: every study that the given data allow, and the page that tells what they found."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from markdown_it import MarkdownIt
from typer import Option

from leastpath._support.files import write_atomically
from leastpath.account.run import Run
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.report import Report
from studies.findings.asides import put_aside
from studies.findings.catalogue import STUDIES
from studies.findings.charts import draw_first_table
from studies.findings.config import Setting
from studies.findings.headlines import against_expected
from studies.findings.page import DATA, findings_page, full_page
from studies.findings.study import Record, Study
from studies.findings.winners import WINNERS, measured_by


def command(
    studies: Annotated[str | None, Option(help="Names separated by commas. Default: all that the data allow.")] = None,
    photographs: Annotated[Path | None, Option(help="Folder of pictures for EfficientNet-lite0.")] = None,
    sentences: Annotated[Path | None, Option(help="File of lines: a sentence, a tab, 0 or 1.")] = None,
    moons: Annotated[Path | None, Option(help="Folder of a finished `python -m studies.moons`, for its table.")] = None,
    voc: Annotated[Path | None, Option(help="Folder of a finished `python -m studies.voc`, for its table.")] = None,
    solvers: Annotated[Path | None, Option(help="Results of benchmarks/solvers.py, for their table.")] = None,
    truth: Annotated[Path | None, Option(help="Folder of a finished `python -m studies.truth`, for who wins.")] = None,
    quick: Annotated[bool, Option("--quick", help="Look at little, to see that everything runs.")] = False,
    out: Annotated[Path | None, Option(help="Folder of the run. Default: out/findings, numbered where taken.")] = None,
    resume: Annotated[bool, Option("--resume", help="Go on with an interrupted run: nothing is done twice.")] = False,
    save: Annotated[
        Path | None, Option(help="Write findings.md and _generated/findings.json to this folder too.")
    ] = None,
    rewrite: Annotated[
        Path | None, Option(help="Only write this folder's findings.md anew, from its _generated/findings.json.")
    ] = None,
) -> None:
    """What the paper claims or leaves open, measured: sign, metric, baseline, output, domains, nets, a shortcut.

    Small networks on data that come with scikit-learn, and more where data are given. The page is written from the
    results alone. Complete: about 40 minutes of one CPU.
    """
    if rewrite is not None:
        rewrite_page(rewrite, truth)
        return
    folder = out or default_folder("findings-quick" if quick else "findings", resume)
    run = RunFolder.open(folder, "findings", {"quick": quick}, resume=resume)
    setting = Setting(run.store, quick, photographs, sentences, moons, voc, solvers, truth)
    run_findings(run, setting, studies.split(",") if studies else None, progress=True)
    if save is not None:
        write_documentation(save, finished(run))
        write_atomically(save / "_generated" / "findings.json", (run.path / "findings.json").read_bytes())
    if quick:
        print("Not compared with expected.toml: a quick run looks at too little.")
    else:
        print(against_expected(finished(run)))
    print(f"page: {run.path / 'findings.md'}")


def run_findings(
    run: RunFolder, setting: Setting, names: Sequence[str] | None = None, *, progress: bool = False
) -> str:
    """Do what is left of the studies and write findings.json, findings.md and report.html; the page as Markdown.

    Args:
        run: the folder.
        setting: what the studies may use.
        names: of studies; None: all.
        progress: show a bar.

    Example:
        >>> run_findings(RunFolder.open("out/findings", "findings", {"quick": True}), setting)  # doctest: +SKIP
    """
    studies = chosen_studies(names)
    work = [(study, measurement) for study in studies.values() for measurement in study.measurements(setting)]
    todo = [(study, piece) for study, piece in work if piece.reads or _key(study, piece.key) not in run.store]
    with Run(progress=progress).bar("studies", len(todo)) as bar:
        for study, piece in todo:
            run.store.write(_key(study, piece.key), piece.compute())
            bar.advance(1, f"{study.name}: {piece.key}")
    found = finished(run)
    run.write("findings.json", _json_of(found))
    page = full_page(chosen_studies(None), found)
    run.write("findings.md", page)
    Report("Findings").raw(MarkdownIt().enable("table").render(page.partition("\n")[2])).write(run.path / "report.html")
    return page


def rewrite_page(folder: Path, truth: Path | None = None) -> None:
    """Write findings.md and its tables from the kept results: after a change of the words, or of how studies tell them.

    Args:
        folder: of the documentation.
        truth: folder of a newer truth.json, which who wins where is then read from.

    Example:
        >>> rewrite_page(Path("docs"), Path("docs/_generated"))  # doctest: +SKIP
    """
    kept = folder / "_generated" / "findings.json"
    found = json.loads(kept.read_text(encoding="utf-8"))
    if truth is not None:
        newer = {WINNERS.name: {piece.key: piece.compute() for piece in measured_by(truth)}}
        found = {name: newer.get(name) or found[name] for name in STUDIES if name in newer or name in found}
        write_atomically(kept, _json_of(found).encode())
    write_documentation(folder, found)


def write_documentation(folder: Path, found: Mapping[str, Mapping[str, Record]]) -> None:
    """Write findings.md, its picture, its tables as CSV, and how they were measured, which no page of the site repeats.

    Example:
        >>> write_documentation(Path("docs"), finished(run))  # doctest: +SKIP
    """
    data = folder / DATA
    data.mkdir(parents=True, exist_ok=True)
    page = findings_page(STUDIES, found)
    write_atomically(folder / "findings.md", page.encode())
    draw_first_table(page, folder / "_generated" / "finding_who_wins_where.png")
    names = {study.title: study.name for study in STUDIES.values()}
    write_atomically(data / "README.md", put_aside(full_page(STUDIES, found), names, data).encode())


def chosen_studies(names: Sequence[str] | None) -> Mapping[str, Study]:
    """The studies of these names, or all; in the order of the page.

    Example:
        >>> list(chosen_studies(["voc", "moons"]))
        ['moons', 'voc']
    """
    unknown = sorted({name.strip() for name in names or ()} - STUDIES.keys())
    if unknown:
        raise ValueError(f"no study is called {unknown[0]!r}: use some of {', '.join(STUDIES)}")
    wanted = {name.strip() for name in names} if names else STUDIES.keys()
    return {name: study for name, study in STUDIES.items() if name in wanted}


def finished(run: RunFolder) -> dict[str, dict[str, Record]]:
    """All records of a run: name of the study -> key of the measurement -> record.

    Example:
        >>> finished(run)["sign"]["noise=0.15"]  # doctest: +SKIP
    """
    found: dict[str, dict[str, Record]] = {}
    for name in chosen_studies(None):
        for key in run.store.keys():  # noqa: SIM118
            study, colon, unit = key.partition(": ")
            if colon and study == name:
                found.setdefault(name, {})[unit] = dict(run.store.read(key).record)
    return found


def _json_of(found: Mapping[str, Mapping[str, Record]]) -> str:
    """One line a record: to be kept under version control."""
    studies = [
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f"{json.dumps(key)}: {json.dumps(record, ensure_ascii=False)}" for key, record in records.items())
        + "\n}"
        for name, records in found.items()
    ]
    return "{\n" + ",\n".join(studies) + "\n}\n"


def _key(study: Study, measurement: str) -> str:
    return f"{study.name}: {measurement}"
