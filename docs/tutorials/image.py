# %% [markdown]
# # An image
#
# Three explanations of a digit: along the straight line, which is Integrated Gradients;
# along an elastic band, which bends a little; and along the shortest path, which
# `Descent` finds, to see why the shortest is not the truest. The network is a small one
# for 8 × 8 digits, trained here in a few seconds. At the end a photograph is explained.

# %%
import torch
from sklearn.datasets import load_digits
from torch import nn

import leastpath as lp
from leastpath.evaluation import profile_paths, scores_along, try_baselines
from leastpath.report import baselines_figure, heatmaps, path_film, path_profile
from leastpath.score.baselines import BASELINES, baseline

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
found = {
    name: lp.attribute(score, inputs, method=solver, support=True)
    for name, solver in {
        "straight line": lp.StraightLine(),
        "elastic band": lp.ElasticBand(),
        "shortest": lp.Descent(),
    }.items()
}
for name, result in found.items():
    print(
        f"{name:13}",
        f"cancellation {result.cancellation.mean():6.2f}",
        f"length {result.length.mean():6.2f}",
        f"support {result.support.mean():+.2f}",
        f"gradients {result.n_gradients.double().mean():5.0f}",
        sep="   ",
    )

heatmaps(found, inputs).savefig("image-maps.png", dpi=110)

# %% [markdown]
# `support` is the test: how much further the probability falls when the pixels that are
# ranked first are removed than when those ranked last are. A random order has 0. The
# shortest path cancels least, and that is not what makes an explanation true.
#
# ## Why they differ
#
# The score, and the norm of its gradient, along the paths. The length of a path is the
# mean of the lower curve times the distance walked. The line walks on steep ground to
# its end; the shortest path leaves it at once and comes back only for the last steps.

# %%
bent = {name: found[name] for name in ("elastic band", "shortest")}
path_profile(profile_paths(score, bent)).savefig("image-profile.png", dpi=110)

# %% [markdown]
# And the image along the shortest path. The line would fade the digit in; the second
# row is the difference from it. In the middle stands an image that the network is
# entirely sure of, and that nobody would write: that is where the score is flat. See
# [what a short path is worth](../../choosing.md#what-a-short-path-is-worth).

# %%
scores = scores_along(score, found["shortest"], frames=7)
path_film(found["shortest"], frames=7, scores=scores).savefig("image-film.png", dpi=110)

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
tried = try_baselines(first, inputs[0], settings)
baselines_figure(tried).savefig("image-baselines.png", dpi=110)

# %% [markdown]
# With several baselines per example, values are averaged, and `baseline_spread` says
# how much they depend on the choice:

# %%
several = lp.attribute(
    score,
    inputs,
    baseline("samples", inputs, points=images[train], n=8),
    method=lp.StraightLine(),
)
print(f"mean spread between baselines: {several.baseline_spread.mean():.2f}")
print(f"mean magnitude of the values:  {several.values.abs().mean():.2f}")

# %% [markdown]
# ## A photograph
#
# `pip install 'leastpath[classifier]'`
# brings a pre-trained ImageNet classifier. The picture is small here, so that this page
# builds quickly. On photographs, random staircases from two baselines stood removal
# best: one patch after another enters, and gets what the score gains. The maps show
# smoothed magnitudes over a dimmed picture, because single pixels are hard to read.

# %%
try:
    from skimage import data

    from leastpath.commands.classifier import EfficientNetLite0, imagenet_classes

    classifier = EfficientNetLite0()
except ImportError as error:
    print(error)
else:
    from leastpath.evaluation import symmetric_relevance_gain
    from leastpath.methods import METHODS

    cat = torch.tensor(data.chelsea())[:, 70:370].permute(2, 0, 1)[None].float() / 255
    cat = nn.functional.interpolate(cat, size=(96, 96), mode="area")
    target = int(classifier(cat).argmax())
    probability = float(classifier(cat).softmax(1).max())
    print(f"{imagenet_classes()[target]}, with probability {probability:.2f}")
    of_cat = lp.Score(classifier, target, output="softmax")
    two = lp.baselines.several("black", "mean")
    maps = {
        "straight line": lp.attribute(of_cat, cat, method=lp.StraightLine()),
        "staircases": METHODS["staircase"](of_cat, cat, two),
    }
    for name, result in maps.items():
        gain = symmetric_relevance_gain(
            of_cat, cat, result.values, fill="mean", groups="patches"
        )
        print(f"{name}: support {float(gain):+.2f} with a grey fill")
    glow = {"signed": False, "view": "smooth", "overlay": True, "scale": "each"}
    heatmaps(maps, cat, **glow).savefig("image-cat.png", dpi=110)
