"""What `leastpath explore` shows when nothing is given: data and models that installed packages bring along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from leastpath.commands.classifier import EfficientNetLite0, imagenet_classes
from leastpath.explorer.sources.tensors import TensorSource
from leastpath.explorer.subject import SubjectSource
from leastpath.features.images import as_tensor, square_crop
from leastpath.score.score import Score

TRAINING_STEPS = 150
Sample = tuple[SubjectSource, str]


def sample_source(name: str | None = None) -> Sample:
    """A source and a sentence that says what it is.

    Args:
        name: "photos", "digits" or "table". None: photos where their classifier is installed, else digits.
    """
    if name is None:
        try:
            return _photos()
        except ImportError:
            return _digits()
    if name not in SAMPLES:
        raise ValueError(f"no sample is called {name!r}: use one of {', '.join(SAMPLES)}")
    return SAMPLES[name]()


def _photos() -> Sample:
    from PIL import Image
    from sklearn.datasets import load_sample_image

    names = ("flower.jpg", "china.jpg")
    images = [square_crop(Image.fromarray(load_sample_image(n)), 224, Image.Resampling.BICUBIC) for n in names]
    inputs = torch.cat([as_tensor(image) for image in images]).contiguous()
    score, recipe = Score(EfficientNetLite0()), partial(_by_name, "photos")
    source = TensorSource(score, inputs, titles=names, classes=imagenet_classes(), recipe=recipe)
    return source, "Sample: two photographs that scikit-learn ships, and EfficientNet-lite0 for ImageNet."


def _digits() -> Sample:
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.as_tensor(data.images, dtype=torch.float32)[:, None] / 16
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    _train(model, images[100:], torch.as_tensor(data.target)[100:])
    titles = [f"digit {label}" for label in data.target[:20]]
    classes, recipe = [str(i) for i in range(10)], partial(_by_name, "digits")
    source = TensorSource(Score(model), images[:20], titles=titles, classes=classes, recipe=recipe)
    return source, "Sample: handwritten digits that scikit-learn ships, and a small net that was trained just now."


def _table() -> Sample:
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    rows = torch.as_tensor(data.data, dtype=torch.float32)
    rows = (rows - rows.mean(0)) / rows.std(0)
    model = nn.Sequential(nn.Linear(rows.shape[1], 16), nn.ReLU(), nn.Linear(16, 2))
    _train(model, rows[50:], torch.as_tensor(data.target)[50:])
    names, classes = [str(name) for name in data.feature_names], [str(name) for name in data.target_names]
    # First those whose answer is clear but not saturated: where it is, little is left to see.
    order = (model(rows[:50]).softmax(1).amax(1) - 0.9).abs().argsort().tolist()
    titles = [f"patient {i}" for i in order]
    source = TensorSource(
        Score(model), rows[order], names=names, classes=classes, data=rows[50:], titles=titles,
        recipe=partial(_by_name, "table"),
    )  # fmt: skip
    words = "Sample: the breast cancer table that scikit-learn ships, in standard deviations, and a small net that was"
    return source, f"{words} trained just now."


def _by_name(name: str, sample: int) -> tuple[str, str]:
    """Python that makes one of a sample's subjects: a small net is trained anew, to the same weights."""
    return f"from {__name__} import sample_source", f'subject = sample_source("{name}")[0].subject({sample})'


def _train(model: nn.Module, inputs: Tensor, labels: Tensor) -> None:
    """A few seconds of training, the same each time. Nobody else's random numbers change."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                module.reset_parameters()
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        for _ in range(TRAINING_STEPS):
            rows = torch.randint(len(inputs), (128,))
            loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows].long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval().requires_grad_(False)


SAMPLES: Mapping[str, Callable[[], Sample]] = {"photos": _photos, "digits": _digits, "table": _table}
