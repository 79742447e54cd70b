"""Does the explanation hold still? Captum's infidelity and sensitivity, and pictures under noise and under attack.

All work in the explained space, so that tuples are one joint vector. Random numbers belong to the example: a batch
gives what a loop gives, and methods are judged under the same perturbations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leastpath._support.optional import optional
from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.attribution import Attribution
from leastpath.bound import BoundScore
from leastpath.evaluation.measure import Explain, Measured, checked_attributions, generators, one_start, required_method
from leastpath.guards import Baselines, Inputs, device_of, untouched, warn_of_training_mode
from leastpath.score import Score

WINDOW = 7  # side of SSIM's window, scikit-image's default
TINY = 1e-12


@dataclass(frozen=True)
class Infidelity:
    """Captum's infidelity: mean squared error of the attributions as a linear model of small changes. Lower is better.

    The change of score under noise is predicted from attributions that are a feature's share of f(x) − f(x̄), so each
    perturbation is divided by x − x̄ (Captum's `multiply_by_inputs`; where a feature equals its baseline, by one).

    Args:
        noise: standard deviation of the noise, in deviations of the example's own values.
        n_samples: perturbations an example, one forward pass each.
        normalize: scale the attributions by the best factor first, so that only their proportions are judged.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: x @ torch.tensor([1.0, 2.0]))
        >>> inputs = torch.tensor([[1.0, 3.0]])
        >>> result = lp.attribute(score, inputs, solver=lp.StraightLine())
        >>> float(Infidelity()(score, inputs, None, result).values[0]) < 1e-10  # a linear score has no error
        True
    """

    noise: float = 0.1
    n_samples: int = 20
    normalize: bool = False
    name: str = "infidelity"
    higher_is_better: bool = False

    def __post_init__(self) -> None:
        _check_positive(self, "noise", "n_samples")

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Values (batch,): costs n_samples + 1 forward passes an example, or so (Captum repeats the clean one)."""
        metrics = _captum_metrics()
        warn_of_training_mode(score.model)
        with untouched(score.model, device_of(inputs)):
            bound = score.bind(inputs)
            attributions = checked_attributions(bound, result)
            start = one_start(bound, inputs, baselines, self.name).to(bound.work_dtype)
            end = bound.explained().to(bound.work_dtype)
            noise = _noise(inputs, seed, self.n_samples, end)  # (batch, n, …)
            noise = noise * per_row(self.noise * _deviation(end), noise)

            def perturbed(points: Tensor, _baselines: Tensor) -> Tensor:
                return points - noise.reshape(points.shape)

            def forward(points: Tensor) -> Tensor:
                return bound.values(points, torch.arange(bound.batch).repeat_interleave(len(points) // bound.batch))

            values = metrics.infidelity(
                forward,
                metrics.infidelity_perturb_func_decorator(True)(perturbed),
                end,
                attributions,
                start,
                n_perturb_samples=self.n_samples,
                normalize=self.normalize,
            )
        return Measured.of(values.double(), None, torch.as_tensor(bound.forwards_spent))


class _Again:
    """Explains changed inputs with the method under judgement, and counts what that costs."""

    def __init__(
        self, score: Score, inputs: Inputs, baselines: Baselines, explain: Explain | None, seed: int, name: str
    ) -> None:
        self._explain = required_method(explain, name)
        if score.layer is not None:
            raise ValueError(f"{name} changes the inputs, which a layer's score need not allow: explain the inputs")
        self.score, self.inputs, self.baselines, self.seed = score, inputs, baselines, seed
        self.bound = score.bind(inputs)
        self.points = self.bound.explained()
        self._gradients = torch.zeros(self.bound.batch, dtype=torch.long)
        self._forwards = torch.zeros(self.bound.batch, dtype=torch.long)

    def __call__(self, points: Tensor) -> Tensor:
        result = self._explain(self.score, self.bound.split(points), self.baselines, self.seed)
        self._gradients += result.n_gradients.cpu()
        self._forwards += result.n_forwards.cpu()
        return checked_attributions(self.bound, result)

    def noise(self, n: int, uniform: bool = False) -> Tensor:
        return _noise(self.inputs, self.seed, n, self.points, uniform)

    def measured(self, values: Tensor) -> Measured:
        forwards = self._forwards + torch.as_tensor(self.bound.forwards_spent).long()
        return Measured.of(values, None, forwards, self._gradients + torch.as_tensor(self.bound.gradients_spent).long())


class _ExplainsAnew:
    """What measures share that change the inputs and explain them again. The final classes below compare."""

    name: str

    def _values(self, again: _Again, attributions: Tensor) -> Tensor:
        raise NotImplementedError

    def __call__(
        self,
        score: Score,
        inputs: Inputs,
        baselines: Baselines,
        result: Attribution,
        *,
        seed: int = 0,
        explain: Explain | None = None,
    ) -> Measured:
        """Values (batch,)."""
        again = _Again(score, inputs, baselines, explain, seed, self.name)
        return again.measured(self._values(again, checked_attributions(again.bound, result)))


@dataclass(frozen=True)
class MaxSensitivity(_ExplainsAnew):
    """Captum's `sensitivity_max`: the largest relative change of the attributions in a small cube around the input.

    Args:
        radius: half the side of the cube, in units of the input.
        n_samples: points in the cube; each is explained anew.

    NaN where the attributions are zero everywhere.

    Example:
        >>> import leastpath as lp
        >>> from leastpath.methods import METHODS
        >>> score, inputs = lp.Score(lambda x: x @ torch.tensor([1.0, 2.0])), torch.ones(1, 2)
        >>> line = METHODS["integrated_gradients"]
        >>> bool(MaxSensitivity(radius=0.02)(score, inputs, None, line(score, inputs), explain=line).values < 0.05)
        True
    """

    radius: float = 0.02
    n_samples: int = 5
    name: str = "max_sensitivity"
    higher_is_better: bool = False
    needs_method: bool = True

    def __post_init__(self) -> None:
        _check_positive(self, "radius", "n_samples")

    def _values(self, again: _Again, attributions: Tensor) -> Tensor:
        metrics, bound = _captum_metrics(), again.bound
        shift = again.noise(self.n_samples, uniform=True) * self.radius  # (batch, n, …)

        def explanation(points: Tensor | tuple[Tensor, ...]) -> Tensor | tuple[Tensor]:
            if isinstance(points, tuple):  # the inputs themselves, whose explanation is at hand
                return (attributions,)
            rows = points.unflatten(0, (bound.batch, self.n_samples))
            return torch.stack([again(rows[:, j]) for j in range(self.n_samples)], 1).flatten(0, 1)

        def perturbed(points: tuple[Tensor, ...] | Tensor) -> Tensor:
            rows = points[0] if isinstance(points, tuple) else points
            return rows + shift.reshape(rows.shape).to(rows)

        values = metrics.sensitivity_max(explanation, again.points, perturbed, n_perturb_samples=self.n_samples)
        zero = (attributions == 0).reshape(bound.batch, -1).all(1).cpu()
        return torch.where(zero, torch.nan, values.double().cpu())


@dataclass(frozen=True)
class NoiseRobustness(_ExplainsAnew):
    """Likeness (SSIM) of the attribution's picture to that of the input with a little noise. Higher is better.

    A picture is Σ|A| over channels, divided by its 99th percentile and cut off at 1.

    Args:
        noise: standard deviation of the noise, in deviations of the image's own values.
        n_samples: noisy images, each explained anew; the value is the mean over them.

    NaN where the attributions are zero everywhere.

    Example:
        >>> import leastpath as lp
        >>> from leastpath.methods import METHODS
        >>> score, images = lp.Score(lambda x: x.flatten(1).sum(1)), torch.rand(1, 3, 16, 16)
        >>> line = METHODS["integrated_gradients"]
        >>> bool(NoiseRobustness()(score, images, None, line(score, images), explain=line).values > 0.9)
        True
    """

    noise: float = 0.05
    n_samples: int = 1
    name: str = "noise_ssim"
    higher_is_better: bool = True
    needs_method: bool = True

    def __post_init__(self) -> None:
        _check_positive(self, "noise", "n_samples")

    def _values(self, again: _Again, attributions: Tensor) -> Tensor:
        before, noise = pictures(attributions), again.noise(self.n_samples)  # (batch, n, …)
        noise = noise * per_row(self.noise * _deviation(again.points), noise)
        likeness = [ssim(before, pictures(again(again.points + noise[:, j]))) for j in range(self.n_samples)]
        return torch.stack(likeness).mean(0)


@dataclass(frozen=True)
class AttackRobustness(_ExplainsAnew):
    """Likeness (SSIM) of the attribution's picture before and after an attributional attack. Higher is better.

    The attack looks for a change of the input, at most `radius` in every value, that leaves the score (to within
    `keep` · |f(x) − f(x̄)|) and turns its gradient as far as it can: ascent on ‖∇f(x + δ) − ∇f(x)‖² along the score's
    level set. The slope of that is a finite difference of gradients, so that ReLU nets can be attacked as well. The
    attack knows nothing of the method: all methods are judged on the same inputs. One made for it can be stronger,
    and small ReLU nets have few kinks within reach, where this one is hardly stronger than noise.

    Args:
        radius: largest change of a value, in units of the input.
        steps: of the ascent; two gradients each.
        keep: how much the score may change, relative to |f(x) − f(x̄)|.

    NaN where no change was found that leaves the score, or the attributions are zero everywhere.

    Example:
        >>> import leastpath as lp
        >>> from leastpath.methods import METHODS
        >>> score, images = lp.Score(lambda x: x.flatten(1).sum(1)), torch.rand(1, 3, 16, 16)
        >>> line = METHODS["integrated_gradients"]
        >>> bool(AttackRobustness()(score, images, None, line(score, images), explain=line).values > 0.9)
        True
    """

    radius: float = 8 / 255
    steps: int = 10
    keep: float = 0.1
    name: str = "attack_ssim"
    higher_is_better: bool = True
    needs_method: bool = True

    def __post_init__(self) -> None:
        _check_positive(self, "radius", "steps", "keep")

    def _values(self, again: _Again, attributions: Tensor) -> Tensor:
        before = pictures(attributions)
        with untouched(again.score.model, device_of(again.inputs)):
            start = one_start(again.bound, again.inputs, again.baselines, self.name)
            attacked, found = self.attack(again.bound, start, again.inputs, again.seed)
        return torch.where(found.cpu(), ssim(before, pictures(again(attacked))), torch.nan)

    def attack(self, bound: BoundScore, start: Tensor, inputs: Inputs, seed: int) -> tuple[Tensor, Tensor]:
        """The attacked points (batch, *shape), and whether there is an admissible one (batch,)."""
        rows, clean = torch.arange(bound.batch), bound.explained().to(bound.work_dtype)
        value, gradient = bound.gradients(clean, rows)
        allowed = self.keep * (value - bound.values(start, rows)).abs()
        shift = self.radius * _across(_noise(inputs, seed, 1, clean, uniform=True)[:, 0], gradient).clamp(-1, 1)
        best, furthest = clean.clone(), torch.full_like(value, -1.0)
        for _ in range(self.steps):
            moved_value, turned = bound.gradients(clean + shift, rows)
            difference = turned - gradient
            distance, admissible = norms(difference, 1), (moved_value - value).abs() <= allowed
            better = admissible & (distance > furthest)
            best = torch.where(per_row(better, best), clean + shift, best)
            furthest = torch.where(better, distance, furthest)
            ahead = difference / per_row(distance.clamp_min(TINY), difference) * self.radius
            _, next_ = bound.gradients(clean + shift + ahead, rows)
            uphill = _across(next_ - turned, turned)  # H(∇f(x + δ) − ∇f(x)) up to its length, along the score's level
            further = shift + 2.5 * self.radius / self.steps * uphill / per_row(_largest(uphill), uphill)
            further = further.clamp(-self.radius, self.radius)
            shift = torch.where(per_row(admissible, shift), further, shift / 2)  # back towards the input, if need be
        return best, furthest >= 0


def pictures(attributions: Tensor) -> Tensor:
    """Σ|A| over channels, over its 99th percentile, at most 1: (batch, channels, height, width) -> (batch, height, …).

    A zero attribution has no picture: NaN.

    Example:
        >>> pictures(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 8, 8])
    """
    if attributions.ndim not in (3, 4):
        raise ValueError(
            f"pictures need attributions (batch, channels, height, width), got {tuple(attributions.shape)}: "
            "for other inputs use MaxSensitivity"
        )
    flat = attributions.abs().double().cpu()
    flat = flat.sum(1) if flat.ndim == 4 else flat
    top = torch.quantile(flat.reshape(len(flat), -1), 0.99, dim=1)
    top = torch.where(top > 0, top, flat.reshape(len(flat), -1).amax(1))  # few values, all above the percentile
    return (flat / top[:, None, None]).clamp_max(1)


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Structural similarity of pictures in [0, 1]: a, b (batch, height, width) -> (batch,). NaN where a picture is.

    Example:
        >>> ssim(torch.rand(2, 8, 8), torch.rand(2, 8, 8)).shape
        torch.Size([2])
    """
    likeness = optional("skimage.metrics", "SSIM needs scikit-image", "eval").structural_similarity
    side = min(WINDOW, (min(a.shape[1:]) - 1) // 2 * 2 + 1)  # odd, and no larger than the picture
    if side < 3:
        raise ValueError(f"pictures of {tuple(a.shape[1:])} are too small for SSIM: at least 3 × 3")
    return torch.tensor(
        [
            np.nan if np.isnan(p).any() or np.isnan(q).any() else likeness(p, q, win_size=side, data_range=1.0)
            for p, q in zip(a.double().cpu().numpy(), b.double().cpu().numpy(), strict=True)
        ],
        dtype=torch.float64,
    )


def _deviation(points: Tensor) -> Tensor:
    """Standard deviation of each row's values: (n, *shape) -> (n,)."""
    return flat_rows(points).std(1, correction=0)


def _across(steps: Tensor, gradient: Tensor) -> Tensor:
    """Steps (n, *shape) without their part along the gradient: they leave the score, to first order."""
    flat, along = flat_rows(steps), flat_rows(gradient)
    share = (flat * along).sum(1, keepdim=True) / along.square().sum(1, keepdim=True).clamp_min(TINY)
    return (flat - share * along).view_as(steps)


def _largest(points: Tensor) -> Tensor:
    """Largest magnitude of each row, above zero: (n, *shape) -> (n,)."""
    return points.reshape(len(points), -1).abs().amax(1).clamp_min(TINY)


def _noise(inputs: Inputs, seed: int, n: int, points: Tensor, uniform: bool = False) -> Tensor:
    """Standard normal, or uniform in [-1, 1], n draws for each of the points (batch, *shape): (batch, n, *shape)."""
    shape = (n, *points.shape[1:])
    draw: Callable[..., Tensor] = (lambda *a, **k: 2 * torch.rand(*a, **k) - 1) if uniform else torch.randn
    return torch.stack([draw(shape, generator=g) for g in generators(inputs, seed)]).to(points)


def _captum_metrics() -> Any:
    return optional("captum.metrics", "infidelity and sensitivity come from Captum", "captum")


def _check_positive(settings: object, *names: str) -> None:
    for name in names:
        if not getattr(settings, name) > 0:
            raise ValueError(f"{name}={getattr(settings, name)} must be positive")
