# %% [markdown]
# # An image
#
# Two explanations of one digit: along the straight line, which is Integrated Gradients,
# and along a path that `Descent` bends round steep ground. The network is a small one
# for 8 × 8 digits, trained here in a few seconds; at the end the same lines explain a
# photograph, if a pre-trained ImageNet classifier is installed.

# %%
import torch
from sklearn.datasets import load_digits
from torch import nn

import leastpath as lp
from leastpath.baselines import BASELINES, baseline
from leastpath.report import baselines_figure, heatmaps, path_film, path_profile

torch.manual_seed(0)
digits = load_digits()
images = (
    torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
)  # (1797, 1, 8, 8) in [0, 1]
labels = torch.tensor(digits.target)
train, test = slice(0, 1500), slice(1500, None)

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(512, 10),
)
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for _ in range(10):
    for rows in torch.randperm(1500).split(64):
        optimizer.zero_grad()
        nn.functional.cross_entropy(
            model(images[train][rows]), labels[train][rows]
        ).backward()
        optimizer.step()
model.eval()
right = model(images[test]).argmax(1) == labels[test]
print(f"accuracy on {len(right)} held-out digits: {right.float().mean():.1%}")

# %% [markdown]
# ## Explain three digits
#
# The score is the log-probability of the class that the network predicts, one target an
# example. The baseline is black, the value of paper.

# %%
inputs = images[test][:3]
score = lp.Score(model, model(inputs).argmax(1), output="log_softmax")
straight = lp.attribute(score, inputs, solver=lp.StraightLine())
bent = lp.attribute(score, inputs, solver=lp.Descent())

for name, result in {"straight": straight, "bent": bent}.items():
    print(f"{name}: cancellation", [round(v, 2) for v in result.cancellation.tolist()])
    print(
        f"{'':{len(name)}}  length      ", [round(v, 2) for v in result.length.tolist()]
    )
    print(f"{'':{len(name)}}  gradients   ", result.n_gradients.tolist())

heatmaps({"straight line": straight, "Descent": bent}, inputs).savefig(
    "image-maps.png", dpi=110
)

# %% [markdown]
# ## Why they differ
#
# The picture that explains the method: the score, and the norm of its gradient, along
# both paths. The length of a path is the mean of the lower curve times the distance
# walked. The line walks on steep ground to its end; the bent path leaves it at once and
# comes back only for the last steps.

# %%
path_profile(score, {"Descent": bent}, example=0).savefig("image-profile.png", dpi=110)

# %% [markdown]
# And the image along the bent path. The line would fade the digit in; the second row is
# the difference from it. In the middle stands an image that the network is entirely
# sure of, and that nobody would write: that is where the score is flat. A short path is
# not by itself a sensible one: see [what a short path is
# worth](../../choosing.md#what-a-short-path-is-worth).

# %%
path_film(bent, example=0, frames=7, score=score).savefig("image-film.png", dpi=110)

# %% [markdown]
# ## The baseline is part of the question
#
# Attributions answer "why this score rather than the score at the baseline?". Another
# baseline is another question, and gives another answer:

# %%
for kind in BASELINES.values():
    print(f"{kind.name:12} {kind.summary}")

first = lp.Score(model, int(labels[test][0]), output="log_softmax")
settings = {name: {} for name in BASELINES} | {
    "samples": {"points": images[train], "n": 5},
    "mean": {"points": images[train]},
}
baselines_figure(first, inputs[0], settings).savefig("image-baselines.png", dpi=110)

# %% [markdown]
# With several baselines an example, values are averaged, and `baseline_spread` says how
# much they depend on the choice:

# %%
several = lp.attribute(
    score,
    inputs,
    baseline("samples", inputs, points=images[train], n=8),
    solver=lp.StraightLine(),
)
print("mean spread between baselines:", several.baseline_spread.mean().item())
print("mean magnitude of the values: ", several.values.abs().mean().item())

# %% [markdown]
# ## A photograph
#
# `pip install 'leastpath[classifier]'`
# brings a pre-trained ImageNet classifier. The size is small, so that this page builds
# quickly.

# %%
try:
    from skimage import data

    from leastpath.commands.classifier import EfficientNetLite0

    classifier = EfficientNetLite0()
except ImportError as error:
    print(error)
else:
    cat = torch.tensor(data.chelsea())[:, 70:370].permute(2, 0, 1)[None].float() / 255
    cat = nn.functional.interpolate(cat, size=(96, 96), mode="area")
    target = int(classifier(cat).argmax())
    print(
        f"class {target} with probability {float(classifier(cat).softmax(1).max()):.2f}"
    )
    of_cat = lp.Score(classifier, target, output="log_softmax")
    grey = baseline("mean", cat)
    fixed = {
        "tolerance": None,
        "n_steps": 48,
    }  # quick; error control, the default, spends more
    maps = {
        "straight line": lp.attribute(
            of_cat, cat, grey, solver=lp.StraightLine(), **fixed
        ),
        "Descent": lp.attribute(
            of_cat, cat, grey, solver=lp.Descent(max_gradients=120), **fixed
        ),
    }
    for name, result in maps.items():
        print(f"{name}: cancellation {float(result.cancellation):.1f}")
        print("   ", result.status[0].value)
    heatmaps(maps, cat, overlay=True, scale="each").savefig("image-cat.png", dpi=110)
