"""Baselines: where paths start. One function, `baseline`, over one table, `BASELINES`.

A baseline is part of the question: attributions answer "why this score, and not the score at the baseline?". Features
that equal the baseline get no attribution, such as black pixels on a black baseline. `several` names more than one
baseline, and attributions are the mean over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_type_hints

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from leastpath._support.checks import Blurring, Count, NotNegative, Range, as_points, check_setting, seed_of
from leastpath._support.registry import Registry
from leastpath._support.rows import draw_uniform, flat_rows
from leastpath.score.calls import Inputs, check_inputs, leave_untouched, warn_of_training_mode
from leastpath.score.score import Score, flat_baseline

Limits = tuple[float | Tensor, float | Tensor]


@dataclass(frozen=True)
class Baseline:
    """One row of the table `BASELINES`.

    Args:
        name: what `baseline` is asked for.
        summary: one sentence.
        make: `(inputs, score, **settings) -> (batch, *features)`, or `(batch, m, *features)` for several per example.
        needs_score: whether it asks the model.

    Example:
        >>> BASELINES["blur"].summary
        'The input, blurred until its details are gone; colours and layout stay.'
    """

    name: str
    summary: str
    make: Callable[..., Tensor]
    needs_score: bool = False


def baseline(name: str, inputs: Tensor, score: Score | None = None, **settings: Any) -> Tensor:
    """Make the baselines of a batch: (batch, *features), or (batch, m, *features) where an example gets several.

    Each input gets the same baselines as it would get alone, also random ones.

    Args:
        name: "black", "white", "mean", "blur", "uniform", "samples" or "max_entropy".
        inputs: (batch, *features); images are (batch, channels, height, width).
        score: needed by "max_entropy", which asks its model.
        settings: of the baseline, with the default in brackets.
            black, white: `limits`, the two ends of the values' range, numbers or tensors such as (channels, 1, 1);
            0 and 1 by default, which only works for inputs within these.
            mean: `points` (n, *features), whose mean is taken; by default the mean colour of each image.
            blur: `sigma`, in pixels; an eighth of the shorter side.
            uniform: `limits` as above, `n` per example (1), `seed` (0).
            samples: `points` (rows, *features), needed; `n` per example (5), `seed` (0).
            max_entropy: `start` (None is a blurred image, or the input itself), `closeness` (0.1) the weight of the
            mean square distance to it in units of the range, `n_steps` (100), `step_size` (0.02 of the range),
            `limits` as above, or None for values without a range.

    Example:
        >>> baseline("white", torch.rand(2, 3, 8, 8)).mean()
        tensor(1.)
        >>> baseline("samples", torch.rand(2, 4), points=torch.rand(50, 4), n=3).shape
        torch.Size([2, 3, 4])
    """
    if name not in BASELINES:
        raise ValueError(f"baseline {name!r} is unknown: use one of {list(BASELINES)}")
    given: Any = inputs
    if isinstance(given, tuple) or (isinstance(given, Tensor) and given.ndim == 1):
        raise ValueError("inputs must be a batch (batch, *features): of a tuple, make the baselines one by one")
    check_inputs(inputs, integers_allowed=False)
    row = BASELINES[name]
    if row.needs_score and not isinstance(score, Score):
        raise ValueError(f'baseline "{name}" asks the model: pass baseline("{name}", inputs, score)')
    known, kinds = list(row.make.__kwdefaults__ or ()), get_type_hints(row.make, include_extras=True)
    if unknown := [setting for setting in settings if setting not in known]:
        raise ValueError(f'baseline "{name}" has the settings {known}, got {unknown}')
    for setting, value in settings.items():
        check_setting(setting, value, kinds.get(setting, Any))  # a user's function need not have types
    return row.make(inputs.detach(), score, **settings)


Choice = str | float | Tensor | tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Several:
    """Several baselines per example, named before the inputs are known. Made by `several`.

    Example:
        >>> Several(("black", 0.5)).of(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 2, 3, 8, 8])
    """

    choices: tuple[Choice, ...]

    def of(self, inputs: Inputs, score: Score | None = None) -> Tensor:
        """The baselines of a batch (batch, *features), one row per choice and sample: (batch, m, *features)."""
        if not isinstance(inputs, Tensor):
            raise ValueError("several() names baselines of one input tensor: for a tuple of inputs pass tensors")
        return torch.cat([_as_rows(choice, inputs, score) for choice in self.choices], 1)

    def __repr__(self) -> str:
        words = (f"tensor {tuple(c.shape)}" if isinstance(c, Tensor) else repr(c) for c in self.choices)
        return f"several({', '.join(words)})"


def several(*choices: Choice) -> Several:
    """Several baselines as one choice: `attribute(score, images, several("black", "mean"))`.

    The attributions are the mean over the baselines, and `result.baseline_spread` says how much they differ.

    Args:
        choices: names as `baseline` takes them, a name with its settings `("blur", {"sigma": 3})`, numbers (also token
            ids, with a layer), or tensors: (1, *features), (batch, *features) or (batch, m, *features).

    Example:
        >>> import leastpath as lp
        >>> images = torch.rand(2, 1, 4, 4)
        >>> score = lp.Score(lambda x: x.flatten(1).sum(1))
        >>> result = lp.attribute(score, images, several("black", "white"), method=lp.StraightLine())
        >>> result.path.start.shape
        torch.Size([4, 1, 4, 4])
    """
    if len(choices) < 2:
        raise ValueError(f'several() needs two baselines or more, got {len(choices)}: several("black", "mean")')
    for choice in choices:
        name = choice[0] if isinstance(choice, tuple) and choice else choice
        if isinstance(name, str) and name not in BASELINES:
            raise ValueError(f"baseline {name!r} is unknown: use one of {list(BASELINES)}, a number or a tensor")
        if isinstance(name, bool) or not isinstance(name, (str, int, float, Tensor)):
            raise ValueError(f"a baseline is a name, a number or a tensor, got {type(name).__name__}")
    return Several(choices)


def _as_rows(choice: Choice, inputs: Tensor, score: Score | None) -> Tensor:
    """One choice as (batch, m, *features)."""
    if isinstance(choice, (str, tuple)):
        name, settings = (choice, {}) if isinstance(choice, str) else choice
        made = baseline(name, inputs, score, **settings)
        return made.unsqueeze(1) if made.ndim == inputs.ndim else made
    m = choice.shape[1] if isinstance(choice, Tensor) and choice.ndim == inputs.ndim + 1 else 1
    return flat_baseline(choice, inputs, m).unflatten(0, (len(inputs), m))


# ---- constants ---------------------------------------------------------------------------------------------------


def _black(inputs: Tensor, score: Score | None, *, limits: Limits | None = None) -> Tensor:
    return _fill(inputs, _limits_of(inputs, limits)[0])


def _white(inputs: Tensor, score: Score | None, *, limits: Limits | None = None) -> Tensor:
    return _fill(inputs, _limits_of(inputs, limits)[1])


def _mean(inputs: Tensor, score: Score | None, *, points: Tensor | None = None) -> Tensor:
    if points is not None:
        return _fill(inputs, _check_points(inputs, points).mean(0).to(inputs))
    if inputs.ndim != 4:
        raise ValueError(
            f"inputs have shape {tuple(inputs.shape)}: only images have a mean of their own, others need data: "
            'baseline("mean", inputs, points=train_inputs)'
        )
    return inputs.mean((2, 3), keepdim=True).expand_as(inputs).clone()


def _fill(inputs: Tensor, value: float | Tensor) -> Tensor:
    return torch.as_tensor(value).to(inputs).expand_as(inputs).clone()


# ---- blur --------------------------------------------------------------------------------------------------------


def _blur(inputs: Tensor, score: Score | None, *, sigma: float | None = None) -> Tensor:
    if inputs.ndim not in (3, 4):
        raise ValueError(
            f"inputs have shape {tuple(inputs.shape)}, only images can be blurred: (batch, channels, height, width). "
            'For tables take baseline("mean", inputs, points=train_inputs)'
        )
    return blur_images(inputs, min(inputs.shape[-2:]) / 8 if sigma is None else sigma)


def blur_images(images: Tensor, sigma: float) -> Tensor:
    """Images (…, height, width) convolved with a Gaussian of `sigma` pixels. Beyond the border, its pixels repeat.

    Example:
        >>> blur_images(torch.ones(1, 1, 5, 5), 2.0).allclose(torch.ones(5, 5))
        True
    """
    check_setting("sigma", sigma, Blurring)
    if sigma == 0:
        return images.clone()
    reach = max(1, round(4 * sigma))  # beyond, weights are below 1/1000 of the centre's
    offsets = torch.arange(-reach, reach + 1)
    weights = torch.exp(-((offsets.double() / sigma) ** 2) / 2)
    weights = (weights / weights.sum()).to(images)
    rows, columns = (_smoothing(size, offsets.to(images.device), weights) for size in images.shape[-2:])
    return rows @ images @ columns.T


def _smoothing(size: int, offsets: Tensor, weights: Tensor) -> Tensor:
    """(size, size): a weighted mean along an axis, as a matrix that repeats the pixels at the border."""
    seen = (torch.arange(size, device=offsets.device)[:, None] + offsets).clamp(0, size - 1)
    return weights.new_zeros(size, size).scatter_add_(1, seen, weights.expand(size, -1))


# ---- random ------------------------------------------------------------------------------------------------------


def _uniform(
    inputs: Tensor, score: Score | None, *, limits: Limits | None = None, n: Count = 1, seed: int = 0
) -> Tensor:
    low, high = (_fill(inputs[:1], end)[0] for end in _limits_of(inputs, limits))
    share = draw_uniform(seed, (n, *inputs.shape[1:]), inputs)  # the same for every example, as if it were alone
    drawn = torch.lerp(low.expand_as(share), high.expand_as(share), share)
    repeated = drawn.expand(len(inputs), *drawn.shape).clone()
    return repeated[:, 0] if n == 1 else repeated


def _samples(
    inputs: Tensor, score: Score | None, *, points: Tensor | None = None, n: Count = 5, seed: int = 0
) -> Tensor:
    if points is None:
        raise ValueError('baseline "samples" takes rows of data: pass baseline("samples", inputs, points=train_inputs)')
    points = _check_points(inputs, points)
    if n > len(points):
        raise ValueError(f"n={n} samples of {len(points)} points: pass more points or a smaller n")
    rows = torch.randperm(len(points), generator=torch.Generator("cpu").manual_seed(seed_of(seed)))[:n]
    drawn = points[rows.to(points.device)].to(inputs)  # the same for every example, as if it were alone
    return drawn.expand(len(inputs), *drawn.shape).clone()


# ---- maximum entropy ---------------------------------------------------------------------------------------------


def _max_entropy(
    inputs: Tensor, score: Score, *, start: Tensor | None = None, closeness: NotNegative = 0.1,
    n_steps: Annotated[int, Range(least=0)] = 100, step_size: NotNegative = 0.02, limits: Limits | str | None = "auto",
) -> Tensor:  # fmt: skip
    """Maximise the entropy of the model's output, with a penalty on the distance to `start`, and keep the best point.

    Adam by hand, as the score gives its own gradients. It works elementwise: a batch gives what single examples give.
    """
    if score.layer is not None:
        raise ValueError("maximum entropy is searched among inputs: pass a Score without layer=")
    warn_of_training_mode(score.model)
    if isinstance(limits, str):
        if limits != "auto":
            raise ValueError(f"limits={limits!r} is unknown: pass (low, high), or None for values without a range")
        limits = _limits_of(inputs, None)
    ends = None if limits is None else [_fill(inputs[:1], end) for end in limits]
    width = 1.0 if ends is None else (ends[1] - ends[0]).clamp_min(1e-12)
    if start is None:
        start = _blur(inputs, None) if inputs.ndim == 4 else inputs
    origin = start.to(inputs).expand_as(inputs)
    point, best = origin.clone(), origin.clone()
    highest = torch.full((len(inputs),), -torch.inf, device=inputs.device)
    drift, square = torch.zeros_like(point), torch.zeros_like(point)
    with leave_untouched(score.model, inputs):
        bound = _entropy_score(score).bind(inputs)
        examples = torch.arange(len(inputs))
        for step in range(1, int(n_steps) + 2):  # the last step only measures
            entropy, gradient = bound.gradients(point, examples)
            apart = (point - origin) / width
            value = entropy - closeness * flat_rows(apart**2).mean(1)
            better = value > highest
            highest = torch.where(better, value, highest)
            best[better] = point[better]
            uphill = gradient - closeness * 2 * apart / width / point[0].numel()
            drift, square = torch.lerp(uphill, drift, 0.9), torch.lerp(uphill**2, square, 0.99)
            move = drift / (1 - 0.9**step) / ((square / (1 - 0.99**step)).sqrt() + 1e-12)
            point = point + step_size * (1 - (step - 1) / max(1, n_steps)) * width * move
            if ends is not None:
                point = torch.maximum(torch.minimum(point, ends[1]), ends[0])
    return best


def _entropy_score(score: Score) -> Score:
    """The same model with the entropy of its prediction, in nats, as the score."""

    def entropy(output: Tensor) -> Tensor:
        if score.output == "sigmoid" or output.ndim == 1 or output.shape[1] == 1:
            logits = output.reshape(len(output), -1)
            logs = torch.stack([logsigmoid(logits), logsigmoid(-logits)])
            return -(logs.exp() * logs).sum(0).mean(1)
        logs = output.log_softmax(1)
        return -(logs.exp() * logs).sum(1)

    return replace(score, target=entropy, output="raw")


# ---- checks ------------------------------------------------------------------------------------------------------


def _limits_of(inputs: Tensor, limits: Limits | None) -> Limits:
    if limits is not None:
        return limits
    low, high = float(inputs.min()), float(inputs.max())
    if low < 0 or high > 1:
        raise ValueError(
            f"inputs range from {low:.3g} to {high:.3g}, so black and white are not 0 and 1: pass both, "
            "limits=(low, high), as numbers or as tensors of shape (channels, 1, 1)"
        )
    return 0.0, 1.0


def _check_points(inputs: Tensor, points: Tensor) -> Tensor:
    points = as_points("points", points)
    if points.shape[1:] != inputs.shape[1:]:
        features = ", ".join(map(str, ("n", *inputs.shape[1:])))
        raise ValueError(f"points have shape {tuple(points.shape)}, expected ({features}), as the inputs have")
    return points.detach()


_ROWS = (
    Baseline("black", "The lowest value everywhere: on a straight line, what is black gets no attribution.", _black),
    Baseline("white", "The highest value everywhere: on a straight line, what is white gets none.", _white),
    Baseline("mean", "The mean of the data, or of the image: no contrast, the usual brightness.", _mean),
    Baseline("blur", "The input, blurred until its details are gone; colours and layout stay.", _blur),
    Baseline("uniform", "Uniform noise, one or several draws: contrast everywhere, but no meaning.", _uniform),
    Baseline("samples", "Rows of the training data: why this row, and not those?", _samples),
    Baseline("max_entropy", "A point near the blurred input where the model is least decided.", _max_entropy, True),
)
BASELINES = Registry(
    "baseline", {row.name: row for row in _ROWS}, group="leastpath.baselines", adder="BASELINES.add"
)  # fmt: skip
"""Name -> `Baseline`, in the order in which documentation and pictures show them. `BASELINES.add` adds yours."""
