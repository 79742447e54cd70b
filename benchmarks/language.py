"""Prompts: what the default explanation takes beside Captum and inseq, and whether the same definitions agree.

`python benchmarks/language.py [MODEL_DIR | smollm2 [PART …]]`; without a model on a toy, which takes no time. Parts are
time, captum, inseq, forwards and memory, all of them by default. Every figure is a ratio or a difference within this
run; seconds are those of the processor. inseq is compared where it is installed.
"""

import importlib.util
import multiprocessing
import resource
import sys
import time
import warnings
from pathlib import Path

import torch

from leastpath.commands.explain_prompt import load_language_model
from leastpath.language import Natural, explain, explaining
from leastpath.language.toy import toy_model

PROMPT = (
    "When the two of them had been in the house for a while, Mary and John went to the big tree, and John gave the "
    "small red book to"
)
SHORT, ANSWER = "the capital of France is", " Paris"
SENTENCE = "the big dog ran to the house and the cat sat on the mat . "
LONG = 2000  # tokens


def load():
    """The model that was asked for, and its tokenizer."""
    torch.set_num_threads(1)
    return load_language_model(Path(sys.argv[1])) if len(sys.argv) > 1 else toy_model(max_position_embeddings=4096)


def time_default(model, tokenizer) -> None:
    """A prompt of thirty tokens beside sampled Shapley values with about as many forwards."""
    from captum.attr import LLMAttribution, ShapleyValueSampling, TextTokenInput

    explain(model, tokenizer, "the cat", " sat", support=False)  # warm
    begin = time.process_time()
    found = explain(model, tokenizer, PROMPT, " Mary", support=False)
    ours, forwards = time.process_time() - begin, int(found.result.n_forwards)
    tokens = TextTokenInput(PROMPT, tokenizer, baselines=0)
    n = max(1, round(forwards / len(tokens.values)))
    begin = time.process_time()
    LLMAttribution(ShapleyValueSampling(model), tokenizer).attribute(tokens, target=" Mary", n_samples=n)
    theirs = time.process_time() - begin
    print(f"{len(found.tokens)} tokens, {len(found.features)} words: {forwards} forwards, {ours:.1f} s")
    print(f"Captum's ShapleyValueSampling: {n * len(tokens.values)} forwards, {theirs:.1f} s")
    each = (ours / forwards) / (theirs / (n * len(tokens.values)))
    print(f"ratio of seconds: {ours / theirs:.2f}; of seconds per forward: {each:.2f}")


def compare_captum(model, tokenizer) -> None:
    """Leaving out tokens for token 0, as FeatureAblation does, and Integrated Gradients from token 0."""
    from captum.attr import (
        FeatureAblation,
        LayerIntegratedGradients,
        LLMAttribution,
        LLMGradientAttribution,
        TextTokenInput,
    )

    settings = {"baseline": 0, "groups": "tokens", "support": False}
    tokens = TextTokenInput(SHORT, tokenizer, baselines=0)
    theirs = LLMAttribution(FeatureAblation(model), tokenizer, attr_target="log_prob").attribute(
        tokens, target=ANSWER, use_cached_outputs=False
    )
    ours = explain(model, tokenizer, SHORT, ANSWER, method="leave_one_out", **settings)
    print(f"leave one out beside Captum: apart by at most {_apart(ours.values, theirs.seq_attr):.1e}")
    layer = LLMGradientAttribution(LayerIntegratedGradients(model, model.get_input_embeddings()), tokenizer)
    theirs = layer.attribute(TextTokenInput(SHORT, tokenizer, baselines=0), target=ANSWER, n_steps=20)
    ours = explain(
        model, tokenizer, SHORT, ANSWER, method="integrated_gradients", tolerance=None, n_steps=20, **settings
    )
    print(f"Integrated Gradients beside Captum: apart by at most {_apart(ours.values, theirs.seq_attr):.1e}")


def compare_inseq(model, tokenizer) -> None:
    """Integrated Gradients from the baseline of inseq, the unknown token; its cross-entropy is −log p."""
    if importlib.util.find_spec("inseq") is None:
        print("inseq is not installed")
        return
    import inseq

    theirs = inseq.load_model(model, "integrated_gradients", tokenizer=tokenizer).attribute(
        SHORT, SHORT + ANSWER, n_steps=20, attributed_fn="crossentropy", show_progress=False
    )
    found = -theirs.sequence_attributions[0].target_attributions.sum(-1)[:, 0]
    ours = explain(
        model, tokenizer, SHORT, ANSWER, method="integrated_gradients", tolerance=None, n_steps=20, groups="tokens",
        baseline=tokenizer.unk_token_id, support=False,
    )  # fmt: skip
    print(f"Integrated Gradients beside inseq: apart by at most {_apart(ours.values, found[: len(ours.values)]):.1e}")


def _apart(ours, theirs) -> float:
    """The largest difference, over the largest value."""
    theirs = theirs.cpu().double().flatten()
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp_min(1.0))


def count_long() -> None:
    """Forwards of a prompt of 2,000 tokens, sentences and then words. Counted on the toy model, which takes no time."""
    model, tokenizer = toy_model(max_position_embeddings=4096)
    found = explain(model, tokenizer, _long_prompt(tokenizer), " the", support=False)
    print(f"{len(found.tokens)} tokens, {len(found.features)} words: {int(found.result.n_forwards)} forwards")


def _long_prompt(tokenizer) -> str:
    each = len(tokenizer(SENTENCE)["input_ids"])
    return (SENTENCE * (LONG // each)).strip()


def _peak(work: str, queue) -> None:
    """Megabytes that one process takes at most, beside what the loaded model takes."""
    model, tokenizer = load()
    prompt = _long_prompt(tokenizer)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if work == "gradient":
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        vectors = model.get_input_embeddings()(ids).detach().requires_grad_()
        model(inputs_embeds=vectors, use_cache=False, logits_to_keep=1).logits[0, -1, 0].backward()
    else:
        explaining.FORWARDS = 4  # as much memory as with 560, in less time
        explain(model, tokenizer, prompt, " the", baseline=Natural(n=1), support=False)
    queue.put((before / 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def compare_memory() -> None:
    """Peak memory of the explanation of 2,000 tokens over that of one forward with its gradient."""
    context = multiprocessing.get_context("spawn")
    peaks = {}
    for work in ("gradient", "explanation"):
        queue = context.Queue()
        process = context.Process(target=_peak, args=(work, queue))
        process.start()
        loaded, peaks[work] = queue.get()
        process.join()
        print(f"{LONG} tokens, {work}: {peaks[work]:.0f} MB at most, {loaded:.0f} MB loaded")
    print(f"ratio of peak memory: {peaks['explanation'] / peaks['gradient']:.2f}")


def main() -> None:
    warnings.filterwarnings("ignore", message="from ")
    parts = set(sys.argv[2:]) or {"time", "captum", "inseq", "forwards", "memory"}
    beside = {"time": time_default, "captum": compare_captum, "inseq": compare_inseq}
    if parts & set(beside):
        model, tokenizer = load()
    for name in [name for name in beside if name in parts]:
        beside[name](model, tokenizer)
    for name, work in {"forwards": count_long, "memory": compare_memory}.items():
        if name in parts:
            work()


if __name__ == "__main__":
    main()
