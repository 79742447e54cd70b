# %% [markdown]
# # A text
#
# Words have no gradient, their embeddings have: `layer=` explains the output of a layer
# instead of the input. The right answer is known: "not" turns the word after it round.
# For Hugging Face models see [Text](../../text.md).

# %%
import torch
from torch import nn

import leastpath as lp
from leastpath.report import text

GOOD, BAD = ["good", "great", "fine"], ["bad", "awful", "dull"]
PLAIN = ["the", "film", "was", "really", "today"]
VOCABULARY = ["<pad>", "not", *GOOD, *BAD, *PLAIN]
ids_of = {word: i for i, word in enumerate(VOCABULARY)}
generator = torch.Generator().manual_seed(0)


def draw(n):
    return int(torch.randint(n, (), generator=generator))


def sentence():
    """Six words, one judgement that "not" may turn round; is it favourable?"""
    favourable, negated = draw(2), draw(2)
    judgement = (GOOD if favourable != negated else BAD)[draw(3)]
    rest = [PLAIN[draw(5)] for _ in range(5 - negated)]
    place = draw(len(rest) + 1)
    return rest[:place] + ["not"] * negated + [judgement] + rest[place:], favourable


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


pairs = [sentence() for _ in range(1500)]
ids = torch.tensor([[ids_of[word] for word in words] for words, _ in pairs])
labels = torch.tensor([label for _, label in pairs])
torch.manual_seed(0)
model, full = Reader(), torch.ones(ids.shape)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(6):
    for rows in torch.randperm(1200).split(64):
        optimizer.zero_grad()
        said = model(ids[rows], full[rows])
        nn.functional.cross_entropy(said, labels[rows]).backward()
        optimizer.step()
model.eval()
right = model(ids[1200:], full[1200:]).argmax(1) == labels[1200:]
print(f"accuracy on 300 sentences not seen: {right.float().mean():.1%}")

# %% [markdown]
# ## Explain sentences of different length
#
# The mask is a further argument of the model, one row a sentence. The baseline is the
# sentence of padding, token 0.

# %%
sentences = ["the film was not bad today", "really not good", "great film"]
sentences = [one.split() for one in sentences]
padded = [[ids_of[w] for w in one] + [0] * (6 - len(one)) for one in sentences]
batch = torch.tensor(padded)
more = {"layer": model.embedding, "additional_forward_args": (batch != 0).float()}
score = lp.Score(model, target=1, output="logit_margin", **more)
straight = lp.attribute(score, batch, 0, method=lp.StraightLine())
print("padding gets", straight.values[1, 3:].abs().max().item())
print(straight.status[0].value)

# %% [markdown]
# `text` sums over each word's embedding. Red speaks for "favourable", blue against.

# %%
for b, words in enumerate(sentences):
    title = f"log-odds {float(score(batch)[b]):+.1f}"
    figure = text(words, straight.values[b, : len(words)], title=title, width=5)
    figure.savefig(f"words-{b}.png", dpi=110)
