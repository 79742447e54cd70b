# %% [markdown]
# # A text
#
# Words have no gradient, their embeddings have: `layer=` explains the output of a layer
# instead of the input. The model here is a small one, trained on sentences made of a
# few words, so that the right answer is known: "not" turns the word after it round. For
# Hugging Face models see [Text](../../text.md).

# %%
import torch
from torch import nn

import leastpath as lp
from leastpath.evaluation import profile_paths
from leastpath.report import path_profile, text

GOOD, BAD, PLAIN = (
    ["good", "great", "fine"],
    ["bad", "awful", "dull"],
    ["the", "film", "was", "really", "today"],
)
VOCABULARY = ["<pad>", "not", *GOOD, *BAD, *PLAIN]
ids_of = {word: i for i, word in enumerate(VOCABULARY)}


def sentence(generator):
    """Six words, one judgement that "not" may turn round; is it favourable?"""

    def pick(words):
        return words[int(torch.randint(len(words), (), generator=generator))]

    favourable, negated = (
        bool(torch.randint(2, (), generator=generator)) for _ in range(2)
    )
    judgement = [pick(GOOD if favourable != negated else BAD)]
    rest = [pick(PLAIN) for _ in range(5 - negated)]
    place = int(torch.randint(len(rest) + 1, (), generator=generator))
    words = rest[:place] + ["not"] * negated + judgement + rest[place:]
    return words, int(favourable)


class Reader(nn.Module):
    """Embeddings, a convolution over neighbouring words, the mean of what it finds."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), 8)
        self.convolution = nn.Conv1d(8, 24, 3, padding=1)
        self.head = nn.Linear(24, 2)

    def forward(self, ids, mask):
        words = self.embedding(ids) * mask[:, :, None]  # padding is nothing
        found = self.convolution(words.transpose(1, 2)).relu()  # (batch, 24, words)
        return self.head((found * mask[:, None]).sum(2) / mask.sum(1, keepdim=True))


generator = torch.Generator().manual_seed(0)
pairs = [sentence(generator) for _ in range(1500)]
ids = torch.tensor([[ids_of[word] for word in words] for words, _ in pairs])
labels = torch.tensor([label for _, label in pairs])

torch.manual_seed(0)
model, everything = Reader(), torch.ones(len(ids), ids.shape[1])
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(6):
    for rows in torch.randperm(1200).split(64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(
            model(ids[rows], everything[rows]), labels[rows]
        ).backward()
        optimizer.step()
model.eval()
right = model(ids[1200:], everything[1200:]).argmax(1) == labels[1200:]
print(f"accuracy on 300 sentences not seen: {right.float().mean():.1%}")

# %% [markdown]
# ## Explain sentences of different length
#
# The mask is a further argument of the model, one row a sentence:
# `additional_forward_args` passes it along. The baseline is the sentence of padding,
# token 0, given as raw inputs; activations could be given as well.

# %%
sentences = [
    ["the", "film", "was", "not", "bad", "today"],
    ["really", "not", "good"],
    ["great", "film"],
]
batch = torch.tensor(
    [[ids_of[w] for w in words] + [0] * (6 - len(words)) for words in sentences]
)
mask = (batch != 0).float()

score = lp.Score(
    model,
    target=1,
    output="logit_margin",
    layer=model.embedding,
    additional_forward_args=mask,
)
straight = lp.attribute(score, batch, 0, method=lp.StraightLine())
bent = lp.attribute(score, batch, 0, method=lp.ElasticBand(groups="tokens"))
print(
    straight.values.shape,
    "log-odds of favourable:",
    [round(v, 2) for v in score(batch).tolist()],
)

# %% [markdown]
# One number per word is the sum over its embedding; `text` does that (and `text_html`
# the same for web pages). Red speaks for "favourable", blue against.

# %%
for b, words in enumerate(sentences):
    figure = text(
        words,
        bent.values[b, : len(words)],
        title=f"log-odds {float(score(batch)[b]):+.1f}",
        width=5,
    )
    figure.savefig(f"words-{b}.png", dpi=110)
print(
    "padding gets",
    straight.values[1, 3:].abs().max().item(),
    "and",
    bent.values[1, 3:].abs().max().item(),
)

# %% [markdown]
# ## Straight against bent, in embedding space
#
# Along the band every word goes from padding to its embedding on a schedule of its own.
# It bends little here, and the story is the same: "not" turns the word after it round.

# %%
for name, result in {"straight line": straight, "elastic band": bent}.items():
    per_word = zip(sentences[0], result.values[0].sum(1).tolist(), strict=True)
    print(name, "cancellation", [round(v, 2) for v in result.cancellation.tolist()])
    print("   ", {word: round(value, 2) for word, value in per_word})
profiles = profile_paths(score, {"elastic band": bent}, inputs=batch)
path_profile(profiles).savefig("words-profile.png", dpi=110)
