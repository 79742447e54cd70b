# %% [markdown]
# # An image
#
# A digit, explained along the straight line, which is Integrated Gradients; along an
# elastic band, which bends a little; and along the shortest path, to see why the
# shortest is not the truest. At the end a photograph.

# %%
import torch
from sklearn.datasets import load_digits
from torch import nn

import leastpath as lp
from leastpath.evaluation import profile_paths, scores_along, try_baselines
from leastpath.report import baselines_figure, heatmaps, path_film, path_profile

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16  # in [0, 1]
labels = torch.tensor(digits.target)
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
        nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
model.eval()
right = model(images[1500:]).argmax(1) == labels[1500:]
print(f"accuracy on {len(right)} held-out digits: {right.float().mean():.1%}")

# %% [markdown]
# ## Explain three digits
#
# The score is the log-probability of the predicted class; the baseline is black.

# %%
inputs = images[1500:1503]
score = lp.Score(model, model(inputs).argmax(1), output="log_softmax")
solvers = {
    "straight line": lp.StraightLine(),
    "elastic band": lp.ElasticBand(),
    "shortest": lp.Descent(),
}
found = {name: lp.attribute(score, inputs, method=s) for name, s in solvers.items()}
for name, result in found.items():
    print(
        f"{name:13}",
        f"cancellation {result.cancellation.mean():6.2f}",
        f"length {result.length.mean():6.2f}",
        f"support {result.support.mean():+.2f}",
        sep="   ",
    )
heatmaps(found, inputs).savefig("image-maps.png", dpi=110)

# %% [markdown]
# `support` is the test by removal; a random order has 0. The shortest path cancels
# least, and that is not what makes an explanation true.
#
# ## Why they differ
#
# The score, and the norm of its gradient, along the paths. The line walks on steep
# ground to its end; the shortest path leaves it at once and comes back only for the
# last steps.

# %%
bent = {name: found[name] for name in ("elastic band", "shortest")}
path_profile(profile_paths(score, bent)).savefig("image-profile.png", dpi=110)

# %% [markdown]
# The image along the shortest path; the second row is the difference from the line. In
# the middle stands an image that the network is sure of, and that nobody would write:
# there the score is flat. See
# [what a short path is worth](../../choosing.md#what-a-short-path-is-worth).

# %%
scores = scores_along(score, found["shortest"], frames=7)
path_film(found["shortest"], frames=7, scores=scores).savefig("image-film.png", dpi=110)

# %% [markdown]
# ## The baseline is part of the question
#
# Another baseline gives another answer:

# %%
first = lp.Score(model, int(labels[1500]), output="log_softmax")
settings = {
    "black": {},
    "white": {},
    "blur": {},
    "mean": {"points": images[:1500]},
    "samples": {"points": images[:1500], "n": 5},
}
tried = try_baselines(first, inputs[0], settings)
baselines_figure(tried).savefig("image-baselines.png", dpi=110)

# %% [markdown]
# ## A photograph
#
# `pip install '.[classifier]'` brings an ImageNet classifier. The default is
# windows in context. The picture is small here, and the quality "fast", so that this
# page builds quickly.

# %%
try:
    from skimage import data

    from leastpath.commands.classifier import EfficientNetLite0, imagenet_classes

    classifier = EfficientNetLite0()
except ImportError as error:
    print(error)
else:
    cat = torch.tensor(data.chelsea())[:, 70:370].permute(2, 0, 1)[None].float() / 255
    cat = nn.functional.interpolate(cat, size=(96, 96), mode="area")
    target = int(classifier(cat).argmax())
    print(f"{imagenet_classes()[target]}: {classifier(cat).softmax(1).max():.2f}")
    of_cat, two = lp.Score(classifier, target), lp.several("black", "mean")
    maps = {
        "straight line": lp.attribute(of_cat, cat, two, method=lp.StraightLine()),
        "windows in context": lp.attribute(of_cat, cat, two, quality="fast"),
    }
    for name, result in maps.items():
        print(f"{name}: {result.status[0].value}")
    shown = {"view": "smooth", "overlay": True, "scale": "each"}
    heatmaps(maps, cat, **shown).savefig("image-cat.png", dpi=110)
