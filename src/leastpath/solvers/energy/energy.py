"""The paper's energy of a path: stay near the straight line, keep away from a steep score.

    E(γ) = Σᵢ d(γᵢ, γ⁰ᵢ) ± β c(γᵢ) + w Σ_{i near an end} d(γᵢ, γ⁰ᵢ)

with d the Euclidean distance to the same knot of the straight line γ⁰ and c = ‖∇f‖. No knot's term depends on another
knot, so the energy is not the length of the path: the integrator measures lengths afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from leastpath._support.checks import Positive, Range, Settings
from leastpath._support.rows import norms, per_row
from leastpath.account.run import Budget
from leastpath.geometry.path import Path
from leastpath.result.status import Note, Outcome
from leastpath.score.score import BoundScore
from leastpath.solvers.solution import LINE

Sign = Literal["away", "toward"]
Weight = Annotated[float, Range(least=0, hint='the direction is chosen by sign="away"')]
Knots = Annotated[int, Range(least=1, hint="a path needs at least one knot between its ends")]
EDGE_SHARE = 0.1  # the paper counts the first and last tenth of a path as its ends


@dataclass(frozen=True, kw_only=True)
class EnergySettings(Settings):
    """What defines the energy, for both of its solvers; `Variational` explains each."""

    beta_scale: Weight = 1.0
    beta: Weight | None = None
    sign: Sign = "away"
    as_printed: bool = False
    endpoint_weight: Weight = 0.0
    spread: Positive = 0.3
    fd_step: Positive = 0.1


class ScoreUndefined(Exception):
    """The score has no finite value somewhere off the straight line."""

    @property
    def note(self) -> Note:
        """For an example whose score fails there."""
        reason = str(self).splitlines()[0]  # Pyro appends its shapes
        return Note(Outcome.FELL_BACK, f"away from the straight line {reason}; {LINE}")


def _gradient(score: BoundScore, points: Tensor, examples: Tensor) -> Tensor:
    try:
        return score.gradients(points, examples)[1]
    except ValueError as error:  # the line itself has been evaluated before, so the call is valid
        raise ScoreUndefined(str(error)) from error


class GradientNorm(torch.autograd.Function):
    """c(x) = ‖∇f(x)‖, differentiable although the score only gives first derivatives.

    ∇c = H u with u = ∇f/‖∇f‖, as the finite difference (∇f(x + h u) − ∇f(x))/h. It costs one more gradient and no
    second-order graph. It sees the kinks of ReLU networks, between which the exact ∇c is zero.
    """

    @staticmethod
    def forward(ctx: Any, points: Tensor, score: BoundScore, examples: Tensor, step: Tensor) -> Tensor:
        """points (rows, *features), examples (rows,), step h (rows,) -> (rows,)."""
        gradient = _gradient(score, points, examples)
        norm = norms(gradient, 1)
        if ctx.needs_input_grad[0]:
            step = per_row(step, points)
            direction = gradient / per_row(norm.clamp_min(torch.finfo(norm.dtype).tiny), gradient)
            ahead = _gradient(score, points + step * direction.nan_to_num(0, 0, 0), examples)
            ctx.save_for_backward((ahead - gradient) / step)
        return norm

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        """(rows,) -> (rows, *features)."""
        (slope,) = ctx.saved_tensors
        # A slope that is not finite counts as zero; the norm that comes with it tells whether the example has failed.
        return per_row(grad_output, slope) * slope.nan_to_num(0, 0, 0), None, None, None


@dataclass(frozen=True)
class PathEnergy:
    """The energy of deviations from the straight lines of some examples.

    Deviations are *relative*: in units of the root-mean-square difference between an example's ends, so that one
    learning rate serves inputs of any scale. `reduced` is E/T, the negative logarithm of the density that is sampled.
    """

    score: BoundScore
    examples: Tensor  # (batch,) on the CPU
    line: Tensor  # (batch, n_points, *features) the straight lines' knots
    unit: Tensor  # (batch,) root-mean-square difference between the ends; zero where they coincide
    beta: Tensor  # (batch,)
    temperature: Tensor  # (batch,)
    direction: int  # sign of the gradient term: +1 away from a steep score, −1 toward it
    weights: Tensor  # (n_points,) of the distances: 1, and 1 + w near the ends
    fd_step: float

    @classmethod
    def of(
        cls, score: BoundScore, examples: Tensor, start: Tensor, end: Tensor, n: int, settings: EnergySettings
    ) -> PathEnergy:
        """For n knots of `examples` (batch,) from start to end (batch, *features). Costs n gradients each, for β."""
        start, end, batch = start.to(score.work_dtype), end.to(score.work_dtype), len(start)
        t = (torch.arange(1, n + 1, device=start.device) / (n + 1)).to(start.dtype)
        line = torch.lerp(start.unsqueeze(1), end.unsqueeze(1), per_row(t[None], start.unsqueeze(1)))
        gradient = score.gradients(line.flatten(0, 1), examples.repeat_interleave(n))[1]
        steepness = norms(gradient, 1).view(batch, n).mean(1)
        beta = settings.beta_scale * steepness if settings.beta is None else torch.full_like(steepness, settings.beta)
        length = norms(end - start, 1)
        # For a constant gradient norm, exp(−d/T) in D dimensions has mean distance D·T: T makes it spread · length.
        temperature = settings.spread * length / score.n_features
        if settings.as_printed:
            temperature = torch.ones_like(length)
        i = torch.arange(n, device=start.device)
        edge = (i < EDGE_SHARE * n) | (n - 1 - i < EDGE_SHARE * n)
        return cls(
            score, examples, line, length / score.n_features**0.5, beta,
            torch.where(length > 0, temperature, torch.ones_like(length)),
            -1 if settings.as_printed or settings.sign == "toward" else 1,
            1 + settings.endpoint_weight * edge.to(start.dtype), settings.fd_step,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.line)

    def select(self, rows: Tensor) -> PathEnergy:
        """Some of the examples: rows (k,)."""
        on_device = rows.to(self.line.device)
        fields = {name: getattr(self, name)[on_device] for name in ("line", "unit", "beta", "temperature")}
        return replace(self, examples=self.examples[rows.cpu()], **fields)

    def energy(self, deviation: Tensor, backward: bool = False) -> Tensor:
        """E of relative deviations (batch, n_points, *features): (batch,). Two gradients per knot, or one without grad.

        `backward` takes the finite difference against the gradient's direction: a kink may lie on either side.
        """
        batch, n = self.line.shape[:2]
        offset = deviation * per_row(self.unit, deviation)
        unit = torch.where(self.unit > 0, self.unit, torch.ones_like(self.unit))
        step = (unit * (-self.fd_step if backward else self.fd_step)).repeat_interleave(n)
        points = (self.line + offset).flatten(0, 1)
        owners = self.examples.repeat_interleave(n)
        steepness: Tensor = GradientNorm.apply(points, self.score, owners, step)  # type: ignore[no-untyped-call]
        return norms(offset, 2) @ self.weights + self.direction * self.beta * steepness.view(batch, n).sum(1)

    def reduce(self, deviation: Tensor, backward: bool = False) -> Tensor:
        """E/T of relative deviations (batch, n_points, *features): (batch,)."""
        return self.energy(deviation, backward) / self.temperature

    def knots(self, deviation: Tensor) -> Tensor:
        """Relative deviations (batch, n_points, *features) as points of the input space."""
        return self.line + deviation * per_row(self.unit, deviation)


def polylines(start: Tensor, knots: Tensor, end: Tensor, bent: Tensor) -> Path:
    """From start through knots (batch, n_points, *features) to end; straight for those that are not `bent` (batch,)."""
    points = torch.cat([start.unsqueeze(1), knots.to(start.dtype), end.unsqueeze(1)], dim=1)
    kept = torch.ones(points.shape[:2], dtype=torch.bool)
    kept[~bent.cpu(), 1:-1] = False
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), kept.sum(1).cumsum(0)])
    return Path(points.flatten(0, 1), torch.arange(kept.numel())[kept.flatten()], offsets)


def solver_budget(budget: Budget, n_points: int, n_samples: int) -> tuple[Budget, int]:
    """The solver's part of the budget of a call, and how many sampled paths the rest can integrate.

    The integrals get half of the budget, or less if a few gradients per segment cost less.
    """
    left = budget.with_reserved.least_left()
    path = 3 * (n_points + 1)  # a first look at every segment, and a check of what it saw
    if 2 * (1 + n_samples) * path > left / 2:
        n_samples = 0
    kept = min(left / 2, 2 * (1 + n_samples) * path)
    return budget.at_most(left - kept), n_samples
