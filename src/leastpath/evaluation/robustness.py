"""Is the explanation stable? Captum's infidelity and sensitivity, and pictures under noise and under attack.

All work in the explained space, where a tuple is one vector. Random numbers depend on the example only: a batch gives
what a loop gives, and all methods are judged under the same perturbations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import Count, Positive
from leastpath._support.optional import import_optional
from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.evaluation.measure import (
    OF_INPUTS,
    Again,
    ExplainingMeasure,
    Measured,
    NamedMeasure,
    generators,
    one_start,
    read_attributions,
)
from leastpath.features.groups import Kind
from leastpath.result.attribution import Attribution
from leastpath.score.calls import Baselines, Inputs, leave_untouched, warn_of_training_mode
from leastpath.score.score import BoundScore, Score

WINDOW = 7  # side of SSIM's window, scikit-image's default
TINY = 1e-12


@dataclass(frozen=True)
class Infidelity(NamedMeasure):
    """Squared error of the attributions as a linear model of small changes. Captum's infidelity. Lower is better.

    The change of score under noise is predicted from attributions that are a feature's share of f(x) − f(x̄), so each
    perturbation is divided by x − x̄ (Captum's `multiply_by_inputs`; where a feature equals its baseline, by one).

    Args:
        noise: standard deviation of the noise, in deviations of the example's own values.
        n_samples: perturbations per example, one forward pass each.
        normalize: scale the attributions by the best factor first, so that only their proportions are judged.

    Example:
        >>> import leastpath as lp
        >>> score, inputs = lp.Score(lambda x: x @ torch.tensor([1.0, 2.0])), torch.tensor([[1.0, 3.0]])
        >>> result = lp.attribute(score, inputs, method=lp.StraightLine())
        >>> float(Infidelity()(score, inputs, None, result).values[0]) < 1e-10  # a linear score has no error
        True
    """

    noise: Positive = 0.1
    n_samples: Count = 20
    normalize: bool = False
    higher_is_better: bool = False

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Values (batch,). Costs about n_samples + 1 forward passes per example (Captum repeats the clean one)."""
        metrics = _captum_metrics()
        warn_of_training_mode(score.model)
        with leave_untouched(score.model, inputs):
            bound = score.bind(inputs)
            attributions = read_attributions(bound, result)
            start = one_start(bound, inputs, baselines, self.name).to(bound.work_dtype)
            end = bound.space.points().to(bound.work_dtype)
            noise = self.noise * _own_noise(inputs, seed, self.n_samples, end)

            @metrics.infidelity_perturb_func_decorator(True)  # type: ignore[untyped-decorator]
            def perturb(points: Tensor, _baselines: Tensor) -> Tensor:
                return points - noise.reshape(points.shape)

            def forward(points: Tensor) -> Tensor:
                return bound.values(points, torch.arange(bound.batch).repeat_interleave(len(points) // bound.batch))

            settings = {"n_perturb_samples": self.n_samples, "normalize": self.normalize}
            values = metrics.infidelity(forward, perturb, end, attributions, start, **settings)
        return Measured.of(values.cpu().double(), None, torch.as_tensor(bound.forwards_spent))


@dataclass(frozen=True)
class _ExplainsNeighbours(ExplainingMeasure):
    """A measure that changes the inputs a little and explains them again."""

    fits: ClassVar[tuple[Kind, ...]] = OF_INPUTS

    def _values(self, near: _Neighbours, attributions: Tensor) -> Tensor:
        raise NotImplementedError

    def _judge(self, again: Again, result: Attribution) -> Measured:
        if again.score.layer is not None:
            words = "changes the inputs, which a layer's score need not allow: explain the inputs"
            raise ValueError(f"{self.name} {words}")
        near = _Neighbours(again, again.score.bind(again.inputs))
        values = self._values(near, read_attributions(near.bound, result))
        own = (torch.as_tensor(n).long() for n in (near.bound.forwards_spent, near.bound.gradients_spent))
        return Measured.of(values, None, *own)


@dataclass(frozen=True)
class _Neighbours:
    """Explains points near the inputs with the judged method."""

    again: Again
    bound: BoundScore

    @property
    def points(self) -> Tensor:
        return self.bound.space.points()

    def __call__(self, points: Tensor) -> Tensor:
        return read_attributions(self.bound, self.again(inputs=self.bound.space.split(points)))


@dataclass(frozen=True)
class MaxSensitivity(_ExplainsNeighbours):
    """Largest relative change of the attributions near the input. Captum's `sensitivity_max`. Lower is better.

    Args:
        radius: half the side of a cube around the input, in units of the input.
        n_samples: points in the cube; each is explained again.

    NaN where the attributions are zero everywhere.

    Example:
        >>> import leastpath as lp
        >>> score, inputs = lp.Score(lambda x: x @ torch.tensor([1.0, 2.0])), torch.ones(1, 2)
        >>> result = lp.attribute(score, inputs, method=lp.StraightLine())
        >>> bool(MaxSensitivity()(score, inputs, None, result, explain=lp.StraightLine()).values < 0.05)
        True
    """

    radius: Positive = 0.02
    n_samples: Count = 5
    higher_is_better: bool = False

    def _values(self, near: _Neighbours, attributions: Tensor) -> Tensor:
        metrics, bound = _captum_metrics(), near.bound
        shift = self.radius * _uniform(near.again.inputs, near.again.seed, self.n_samples, near.points)

        def explanation(points: Tensor | tuple[Tensor, ...]) -> Tensor | tuple[Tensor]:
            if isinstance(points, tuple):  # the inputs themselves, whose explanation is at hand
                return (attributions,)
            rows = points.unflatten(0, (bound.batch, self.n_samples))
            return torch.stack([near(rows[:, j]) for j in range(self.n_samples)], 1).flatten(0, 1)

        def perturb(points: tuple[Tensor, ...] | Tensor) -> Tensor:
            rows = points[0] if isinstance(points, tuple) else points
            return rows + shift.reshape(rows.shape).to(rows)

        values = metrics.sensitivity_max(explanation, near.points, perturb, n_perturb_samples=self.n_samples)
        zero = (flat_rows(attributions) == 0).all(1).cpu()
        return torch.where(zero, torch.nan, values.cpu().double())


@dataclass(frozen=True)
class NoiseRobustness(_ExplainsNeighbours):
    """Likeness (SSIM) of the attribution's picture before and after a little noise. Higher is better.

    A picture is Σ|A| over channels, divided by its 99th percentile and cut off at 1.

    Args:
        noise: standard deviation of the noise, in deviations of the image's own values.
        n_samples: noisy images, each explained again; the value is their mean.

    NaN where the attributions are zero everywhere.

    Example:
        >>> import leastpath as lp
        >>> score, images, line = lp.Score(lambda x: x.sum((1, 2, 3))), torch.rand(1, 3, 16, 16), lp.StraightLine()
        >>> result = lp.attribute(score, images, method=line)
        >>> bool(NoiseRobustness()(score, images, None, result, explain=line).values > 0.9)
        True
    """

    fits: ClassVar[tuple[Kind, ...]] = ("image",)
    noise: Positive = 0.05
    n_samples: Count = 1
    higher_is_better: bool = True

    def _values(self, near: _Neighbours, attributions: Tensor) -> Tensor:
        before = pictures(attributions)
        noise = self.noise * _own_noise(near.again.inputs, near.again.seed, self.n_samples, near.points)
        likeness = [ssim(before, pictures(near(near.points + noise[:, j]))) for j in range(self.n_samples)]
        return torch.stack(likeness).mean(0)


@dataclass(frozen=True)
class AttackRobustness(_ExplainsNeighbours):
    """Likeness (SSIM) of the attribution's picture before and after an attributional attack. Higher is better.

    The attack looks for a change of the input, at most `radius` in every value, that keeps the score (to within
    `keep` · |f(x) − f(x̄)|) and turns its gradient as far as possible. It climbs ‖∇f(x + δ) − ∇f(x)‖² along the score's
    level set, by finite differences of gradients, so that it also works on ReLU nets. It does not know the method: all
    methods are judged on the same inputs. An attack made for one method can be stronger. On small ReLU nets, which have
    few kinks within reach, this one is hardly stronger than noise.

    Args:
        radius: largest change of a value, in units of the input.
        steps: of the ascent; two gradients each.
        keep: how much the score may change, relative to |f(x) − f(x̄)|.

    NaN where no change was found that leaves the score, or the attributions are zero everywhere.

    Example:
        >>> import leastpath as lp
        >>> score, images = lp.Score(lambda x: x.flatten(1).sum(1)), torch.rand(1, 3, 16, 16)
        >>> result = lp.attribute(score, images, method=lp.StraightLine())
        >>> bool(AttackRobustness()(score, images, None, result, explain=lp.StraightLine()).values > 0.9)
        True
    """

    fits: ClassVar[tuple[Kind, ...]] = ("image",)
    radius: Positive = 8 / 255
    steps: Count = 10
    keep: Positive = 0.1
    higher_is_better: bool = True

    def _values(self, near: _Neighbours, attributions: Tensor) -> Tensor:
        before, again = pictures(attributions), near.again
        with leave_untouched(again.score.model, again.inputs):
            start = one_start(near.bound, again.inputs, again.baselines, self.name)
            attacked, found = self.attack(near.bound, start, again.inputs, again.seed)
        return torch.where(found.cpu(), ssim(before, pictures(near(attacked))), torch.nan)

    def attack(self, bound: BoundScore, start: Tensor, inputs: Inputs, seed: int) -> tuple[Tensor, Tensor]:
        """The attacked points (batch, *shape), and whether there is an admissible one (batch,)."""
        rows, clean = torch.arange(bound.batch), bound.space.points().to(bound.work_dtype)
        value, gradient = bound.gradients(clean, rows)
        allowed = self.keep * (value - bound.values(start, rows)).abs()
        shift = self.radius * _across(_uniform(inputs, seed, 1, clean)[:, 0], gradient).clamp(-1, 1)
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
            largest = flat_rows(uphill).abs().amax(1).clamp_min(TINY)
            further = shift + 2.5 * self.radius / self.steps * uphill / per_row(largest, uphill)
            further = further.clamp(-self.radius, self.radius)
            shift = torch.where(per_row(admissible, shift), further, shift / 2)  # back towards the input, if need be
        return best, furthest >= 0


def pictures(attributions: Tensor) -> Tensor:
    """Σ|A| over channels, over its 99th percentile, at most 1: (batch, channels, height, width) -> (batch, height, …).

    A zero attribution has no picture: NaN.
    """
    if attributions.ndim not in (3, 4):
        got = f"got {tuple(attributions.shape)}"
        raise ValueError(f"pictures need (batch, channels, height, width), {got}: use MaxSensitivity for other inputs")
    flat = attributions.abs().cpu().double()
    flat = flat.sum(1) if flat.ndim == 4 else flat
    top = torch.quantile(flat_rows(flat), 0.99, dim=1)
    top = torch.where(top > 0, top, flat_rows(flat).amax(1))  # few values, all above the percentile
    return (flat / top[:, None, None]).clamp_max(1)


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Structural similarity of pictures in [0, 1]: a, b (batch, height, width) -> (batch,). NaN where a picture is."""
    likeness = import_optional("skimage.metrics", "SSIM needs scikit-image", "eval").structural_similarity
    side = min(WINDOW, (min(a.shape[1:]) - 1) // 2 * 2 + 1)  # odd, and no larger than the picture
    if side < 3:
        raise ValueError(f"pictures of {tuple(a.shape[1:])} are too small for SSIM: at least 3 × 3")
    pairs = zip(a.cpu().double().numpy(), b.cpu().double().numpy(), strict=True)
    found = [likeness(p, q, win_size=side, data_range=1.0) if np.isfinite(p + q).all() else np.nan for p, q in pairs]
    return torch.tensor(found, dtype=torch.float64)


def _across(steps: Tensor, gradient: Tensor) -> Tensor:
    """Steps (n, *shape) without their part along the gradient: they do not change the score, to first order."""
    flat, along = flat_rows(steps), flat_rows(gradient)
    share = (flat * along).sum(1, keepdim=True) / along.square().sum(1, keepdim=True).clamp_min(TINY)
    return (flat - share * along).view_as(steps)


def _own_noise(inputs: Inputs, seed: int, n: int, points: Tensor) -> Tensor:
    """n draws for each point, with the deviation of the point's own values: (batch, *shape) -> (batch, n, *shape)."""
    normal = torch.stack([torch.randn(n, *points.shape[1:], generator=g) for g in generators(inputs, seed)]).to(points)
    return normal * per_row(flat_rows(points).std(1, correction=0), normal)


def _uniform(inputs: Inputs, seed: int, n: int, points: Tensor) -> Tensor:
    """n draws in [-1, 1] for each point: (batch, *shape) -> (batch, n, *shape)."""
    draws = [torch.rand(n, *points.shape[1:], generator=g) for g in generators(inputs, seed)]
    return (2 * torch.stack(draws) - 1).to(points)


def _captum_metrics() -> Any:
    return import_optional("captum.metrics", "infidelity and sensitivity come from Captum", "captum")
