"""A prompt of about thirty tokens: the default explanation beside Captum's LLMAttribution, in one run, as a ratio.

`python benchmarks/language.py [MODEL_DIR]`; without a folder on a toy model, where the model takes no time.
"""

import sys
import time
from pathlib import Path

import torch

from leastpath.commands.explain_prompt import load_language_model
from leastpath.language import explain
from leastpath.language.toy import toy_model

PROMPT = (
    "When the two of them had been in the house for a while, Mary and John went to the big tree, and John gave the "
    "small red book to"
)


def time_captum(model, tokenizer, prompt: str, forwards: int) -> tuple[float, int]:
    """Seconds and forwards of sampled Shapley values of tokens, with about as many forwards as are given."""
    from captum.attr import LLMAttribution, ShapleyValueSampling, TextTokenInput

    tokens = TextTokenInput(prompt, tokenizer, baselines=0)
    n = max(1, round(forwards / len(tokens.values)))
    begin = time.perf_counter()
    LLMAttribution(ShapleyValueSampling(model), tokenizer).attribute(tokens, target=" Mary", n_samples=n)
    return time.perf_counter() - begin, n * len(tokens.values)


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load_language_model(Path(sys.argv[1])) if len(sys.argv) > 1 else toy_model()
    explain(model, tokenizer, "the cat", " sat", support=False)  # warm
    begin = time.perf_counter()
    found = explain(model, tokenizer, PROMPT, " Mary", support=False)
    ours, forwards = time.perf_counter() - begin, int(found.result.n_forwards)
    theirs, asked = time_captum(model, tokenizer, PROMPT, forwards)
    print(f"{len(found.tokens)} tokens, {len(found.features)} words: {forwards} forwards, {ours:.1f} s")
    print(f"Captum's ShapleyValueSampling: {asked} forwards, {theirs:.1f} s")
    print(f"ratio of seconds per forward: {ours / forwards / (theirs / asked):.2f}")


if __name__ == "__main__":
    main()
