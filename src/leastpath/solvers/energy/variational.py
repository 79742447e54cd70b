"""The paper's method for high dimension: the energy of a path, minimised by stochastic variational inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leastpath._support.rows import per_row
from leastpath.bound import BoundScore
from leastpath.budget import Budget
from leastpath.metric import Metric
from leastpath.run import Bar, Run
from leastpath.solution import Solution
from leastpath.solvers.energy.energy import (
    LINE,
    PathEnergy,
    ScoreUndefined,
    Sign,
    check_energy_settings,
    imported_pyro,
    polylines,
    solver_budget,
    undefined_note,
)
from leastpath.status import Note, Outcome

WINDOW = 100  # iterations that the loss is averaged over before it is compared
BLOCK_ELEMENTS = 2**23  # numbers of the paths solved at once: Adam, the guide and its gradients hold a dozen such


@dataclass(frozen=True)
class Variational:
    """Minimises the paper's energy Σ d(γᵢ, γ⁰ᵢ) + β‖∇f(γᵢ)‖ by variational inference. Needs `leastpath[svi]`.

    A normal distribution with a mean and a scale for every coordinate of every knot is fitted to exp(−E/T) by the
    evidence lower bound (Pyro's Trace_ELBO) and Adam. Its means are the path; its scales give `result.path_spread`.

    The energy mixes a distance with a gradient norm, so what β is right depends on the units of both: with the paper's
    rule, explaining 10·f multiplies the push by 100, and a score with tiny gradients (a softmax) hardly bends the path.
    Raise `beta_scale` there, or set `beta`.

    Args:
        n_iterations: at most; examples whose loss no longer falls stop earlier.
        n_points: knots between the ends. An iteration costs two gradients a knot.
        beta_scale: the paper's rule, β = beta_scale × mean ‖∇f‖ along the example's straight line.
        beta: β itself, for all examples, instead of the rule.
        sign: "away" from steep ground, as the paper's prose has it, or "toward" it, as its equation has it.

    Rarely needed:
        as_printed: the equations to the letter: the minus sign (`sign` is ignored) and p(γ) ∝ exp(−E), that is T = 1
            in the units of the inputs (`spread` then only says where the scales begin).
        endpoint_weight: the paper's w, on deviations of the first and last tenth of the knots. The ends themselves
            are not parameters: they cannot move.
        spread: how far sampled paths stray from the line where nothing pushes them, as a share of its length; sets T.
            Also the first scale. Below about 0.1 the path no longer sees past a plateau of the gradient norm.
        lr: of Adam, in units of the root-mean-square difference between the two ends.
        lr_decay: the last iteration's learning rate as a share of the first's.
        tolerance: an example has converged when its loss, averaged over 100 iterations, falls by less than this share
            of its energy, or by less than what its noise explains. Zero: run all iterations.
        fd_step: step of the finite difference of gradients, in the same units as `lr`.
        n_samples: paths drawn from the fitted distribution for `result.path_spread`; 0: none. Each is integrated.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(8 * (x[:, 0] - x[:, 1] ** 2)))
        >>> solver = lp.Variational(n_iterations=5, n_points=4, n_samples=2)
        >>> result = lp.attribute(score, torch.ones(1, 2), solver=solver)
        >>> result.path[0].shape, result.path_spread.shape
        (torch.Size([6, 2]), torch.Size([1, 2]))
    """

    n_iterations: int = 1000
    n_points: int = 50
    beta_scale: float = 1.0
    beta: float | None = None
    sign: Sign = "away"
    as_printed: bool = False
    endpoint_weight: float = 0.0
    spread: float = 0.3
    lr: float = 1e-2
    lr_decay: float = 0.1
    tolerance: float = 1e-3
    fd_step: float = 0.1
    n_samples: int = 4

    def __post_init__(self) -> None:
        check_energy_settings(self)
        if self.n_iterations < 1 or self.lr <= 0 or self.tolerance < 0:
            raise ValueError(
                f"n_iterations={self.n_iterations} and lr={self.lr} must be positive, tolerance={self.tolerance} not "
                "negative"
            )
        if not 0 < self.lr_decay <= 1:
            raise ValueError(f"lr_decay={self.lr_decay} must be in (0, 1]: 1 keeps the learning rate")
        if self.n_samples < 0 or self.n_samples == 1:
            raise ValueError(f"n_samples={self.n_samples}: a deviation needs two paths; 0 draws none")

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline of n_points + 2 knots for each example.

        The energy fixes what is minimised: `metric` is what the result's length is measured in, nothing more.
        """
        pyro = imported_pyro("Variational")
        budget, n_samples = solver_budget(run.budget(score), self.n_points, self.n_samples)
        task = _Task(self, score, run, budget, n_samples, pyro)
        per_block = max(1, BLOCK_ELEMENTS // (self.n_points * score.n_features))
        blocks = torch.arange(len(start)).split(per_block)
        fits: list[_Fit] = []
        with torch.enable_grad(), run.bar("variational", len(start)) as bar:  # the guide's parameters need gradients
            for examples in blocks:
                rows = examples.to(start.device)
                interrupted = bool(fits) and fits[-1].interrupted
                fits += task.fitted(examples, start[rows], end[rows], bar, interrupted)
        bent = torch.cat([fit.bent for fit in fits])
        ends_with = torch.cat([fit.knots for fit in fits])
        samples = tuple(
            polylines(start, torch.cat([fit.samples[k] for fit in fits]), end, bent) for k in range(n_samples)
        )
        stats = {name: torch.cat([fit.stats[name] for fit in fits]) for name in fits[0].stats}
        notes = tuple(note for fit in fits for note in fit.notes)
        return Solution(polylines(start, ends_with, end, bent), notes, stats, samples=samples)


# ---- one block of examples ---------------------------------------------------------------------------------------


@dataclass
class _Fit:
    """What came out for a block of examples."""

    knots: Tensor  # (block, n_points, *features)
    samples: Tensor  # (n_samples, block, n_points, *features)
    bent: Tensor  # (block,) on the CPU: False where the straight line is used
    notes: list[tuple[Note, ...]]
    stats: dict[str, Tensor]
    interrupted: bool = False


@dataclass(frozen=True)
class _Task:
    """One call of the solver."""

    solver: Variational
    score: BoundScore
    run: Run
    budget: Budget
    n_samples: int
    pyro: Any

    def fitted(self, examples: Tensor, start: Tensor, end: Tensor, bar: Bar, interrupted: bool) -> list[_Fit]:
        """A block. One whose score fails away from the line is taken apart: a batch gives what a loop gives."""
        if interrupted:
            return [self._straight(examples, start, end, INTERRUPTED_EARLIER, interrupted=True)]
        n_iterations = self._affordable(examples)
        if n_iterations < 1:
            return [self._straight(examples, start, end, self._unaffordable())]
        try:
            energy = PathEnergy.of(self.score, examples, start, end, self.solver)
        except KeyboardInterrupt:
            return [self._straight(examples, start, end, INTERRUPTED_EARLIER, interrupted=True)]
        guide = _Guide(self, energy)
        try:
            return [guide.optimised(n_iterations, bar)]
        except ScoreUndefined as error:
            if len(examples) == 1:
                return [self._straight(examples, start, end, undefined_note(error))]
        parts = zip(examples.split(1), start.split(1), end.split(1), strict=True)
        fits: list[_Fit] = []
        for part in parts:
            fits += self.fitted(*part, bar, bool(fits) and fits[-1].interrupted)
        return fits

    def _affordable(self, examples: Tensor) -> int:
        """Iterations that the budget still allows: a block that is taken apart has spent a part of it."""
        n = self.solver.n_points
        return int(min(self.solver.n_iterations, self.budget.keeping(n).least_left(examples) / (2 * n)))

    def _straight(self, examples: Tensor, start: Tensor, end: Tensor, note: Note, interrupted: bool = False) -> _Fit:
        batch, n = len(examples), self.solver.n_points
        knots = start.unsqueeze(1).expand(batch, n, *start.shape[1:]).to(self.score.work_dtype)  # not visited
        stats = {
            "loss": torch.full((batch,), torch.nan, device=start.device, dtype=knots.dtype),
            "beta": torch.full((batch,), torch.nan, device=start.device, dtype=knots.dtype),
            "iterations": torch.zeros(batch, dtype=torch.long),
            "scale": torch.zeros_like(knots),
        }
        samples = knots.expand(self.n_samples, *knots.shape)
        return _Fit(knots, samples, torch.zeros(batch, dtype=torch.bool), [(note,)] * batch, stats, interrupted)

    def _unaffordable(self) -> Note:
        return Note(
            Outcome.BUDGET_SPENT,
            f"a budget of max_gradients={self.run.max_gradients} pays for no iteration of {2 * self.solver.n_points}: "
            f"{LINE}; raise it, or lower n_points",
        )


INTERRUPTED_EARLIER = Note(Outcome.INTERRUPTED, f"interrupted before the path was bent: {LINE}")


class _Guide:
    """The fit of one block: Pyro's model and guide, and the examples that are still at work."""

    def __init__(self, task: _Task, energy: PathEnergy) -> None:
        self.task, self.energy, self.pyro = task, energy, task.pyro
        self.active = torch.arange(len(energy))
        self.active_energy = energy
        self.normal, self.noise = _drawn_normal(task.pyro.distributions), torch.zeros(())
        self.step = 0
        self.loss = self.scale_of_loss = torch.zeros(0)
        self.kept_loc = torch.zeros_like(energy.line)
        self.kept_scale = torch.full_like(energy.line, task.solver.spread)
        self.windows = _Windows(len(energy), task.solver.tolerance)
        self.failed = torch.zeros(len(energy), dtype=torch.bool)
        self.converged = torch.zeros(len(energy), dtype=torch.bool)
        self.iterations = torch.zeros(len(energy), dtype=torch.long)

    # ---- Pyro's part ---------------------------------------------------------------------------------------------

    def model(self) -> None:
        """p(deviation) ∝ exp(−E/T): no prior but the energy."""
        dist, line = self.pyro.distributions, self.active_energy.line
        real = dist.constraints.independent(dist.constraints.real, line.ndim - 1)
        with self.pyro.plate("examples", len(line)):
            deviation = self.pyro.sample("deviation", dist.ImproperUniform(real, line.shape[:1], line.shape[1:]))
            energy = self.active_energy.reduced(deviation, backward=self.step % 2 == 1)
            self.scale_of_loss = energy.detach().abs()
            self.loss = self.loss + energy.detach()
            self.pyro.factor("energy", -energy.nan_to_num(0, 0, 0))  # an example that failed must not spoil the sum

    def guide(self) -> None:
        """q(deviation): a normal distribution for every coordinate of every knot, all independent."""
        dist, line, rows = self.pyro.distributions, self.energy.line, self.active.to(self.energy.line.device)
        loc = self.pyro.param("loc", lambda: torch.zeros_like(line))[rows]
        first = self.task.solver.spread
        scale = self.pyro.param("scale", lambda: torch.full_like(line, first), constraint=dist.constraints.positive)
        scale = scale[rows]
        # The part of the loss that noise does not enter; the rest of log q is the same in every iteration.
        self.loss = -scale.detach().log().reshape(len(rows), -1).sum(1)
        with self.pyro.plate("examples", len(rows)):
            normal = self.normal(loc, scale, self.noise.expand_as(loc))
            self.pyro.sample("deviation", normal.to_event(line.ndim - 1))

    # ---- the loop ------------------------------------------------------------------------------------------------

    def optimised(self, n_iterations: int, bar: Bar) -> _Fit:
        """Iterate until every example has converged, the iterations are used up, or someone interrupts."""
        solver, interrupted = self.task.solver, False
        with self.pyro.get_param_store().scope():  # what the user keeps there is not ours to touch
            gamma = solver.lr_decay ** (1 / solver.n_iterations)
            optimiser = self.pyro.optim.ExponentialLR(
                {"optimizer": torch.optim.Adam, "optim_args": {"lr": solver.lr}, "gamma": gamma}
            )
            svi = self.pyro.infer.SVI(self.model, self.guide, optimiser, self.pyro.infer.Trace_ELBO())
            try:
                for step in range(n_iterations):
                    self.step = step
                    self.noise = self.task.run.noise(self.energy.line.shape[1:], self.energy.line, self.step)
                    svi.step()
                    optimiser.step()
                    self._judge(bar)
                    if not len(self.active):
                        break
            except KeyboardInterrupt:
                interrupted = True
            self._keep(self.active)
        bar.advance(len(self.active))
        return self._fit(interrupted)

    def _judge(self, bar: Bar) -> None:
        """After a step: examples that failed or have converged leave the work."""
        self.iterations[self.active] = self.step + 1
        failed = ~torch.isfinite(self.loss).cpu()
        self.failed[self.active[failed]] = True
        stop = self.windows.add(self.loss.cpu(), self.scale_of_loss.cpu(), self.active)
        self.converged[self.active[stop & ~failed]] = True
        if (stop | failed).any():
            self._keep(self.active[stop | failed])
            self.active = self.active[~(stop | failed)]
            self.active_energy = self.energy.select(self.active)
            bar.advance(int((stop | failed).sum()))
        bar.advance(0, f"step {self.step + 1}, {len(self.active)} at work, loss {float(self.loss.mean()):.3g}")

    def _keep(self, rows: Tensor) -> None:
        store = self.pyro.get_param_store()
        if "loc" in store and "scale" in store:  # an interruption may come before the first step has made them
            rows = rows.to(self.kept_loc.device)
            self.kept_loc[rows], self.kept_scale[rows] = store["loc"].detach()[rows], store["scale"].detach()[rows]

    def _fit(self, interrupted: bool) -> _Fit:
        solver, energy = self.task.solver, self.energy
        finite = torch.isfinite(self.kept_loc).flatten(1).all(1) & torch.isfinite(self.kept_scale).flatten(1).all(1)
        self.failed |= ~finite.cpu()
        shape = energy.line.shape[1:]
        samples = [
            energy.knots(self.kept_loc + self.kept_scale * self.task.run.noise(shape, energy.line, draw))
            for draw in range(solver.n_iterations, solver.n_iterations + self.task.n_samples)
        ]
        stats = {
            "loss": self.windows.mean.to(energy.line),
            "beta": energy.beta,
            "iterations": self.iterations,
            "scale": self.kept_scale * per_row(energy.unit, energy.line),
        }
        knots = energy.knots(self.kept_loc)
        notes = [self._notes(b, interrupted) for b in range(len(energy))]
        drawn = torch.stack(samples) if samples else knots.new_zeros(0, *knots.shape)
        return _Fit(knots, drawn, ~self.failed, notes, stats, interrupted)

    def _notes(self, b: int, interrupted: bool) -> tuple[Note, ...]:
        solver, done = self.task.solver, int(self.iterations[b])
        if self.failed[b]:
            sentence = f"the gradient became NaN or infinite after {done} iterations: {LINE}; lower beta_scale or lr"
            return (Note(Outcome.FELL_BACK, sentence),)
        if self.converged[b] or solver.tolerance == 0:
            return ()
        fall = f"its loss still fell by {float(self.windows.fall[b]):.2g} of its energy in {WINDOW}"
        if interrupted:
            return (Note(Outcome.INTERRUPTED, f"interrupted after {done} of {solver.n_iterations} iterations"),)
        if done < solver.n_iterations:
            sentence = (
                f"the search was ended by max_gradients={self.task.run.max_gradients} after {done} of "
                f"{solver.n_iterations} iterations; raise it"
            )
            return (Note(Outcome.BUDGET_SPENT, sentence),)
        if done < 2 * WINDOW:
            fall = f"fewer than the {2 * WINDOW} that convergence is judged by"
        return (Note(Outcome.NOT_CONVERGED, f"stopped after {done} iterations, {fall}; raise n_iterations"),)


class _Windows:
    """Means of each example's loss over the last two windows of iterations, and whether it still falls."""

    def __init__(self, batch: int, tolerance: float) -> None:
        self.tolerance, self.count = tolerance, 0
        self.sums = torch.zeros(3, batch, dtype=torch.float64)  # of the loss, its square, its scale
        self.mean = torch.full((batch,), torch.nan, dtype=torch.float64)
        self.error = torch.full((batch,), torch.inf, dtype=torch.float64)
        self.fall = torch.full((batch,), torch.inf, dtype=torch.float64)

    def add(self, loss: Tensor, scale: Tensor, rows: Tensor) -> Tensor:
        """One iteration of examples `rows` (k,): which of them have converged (k,)."""
        self.count += 1
        loss, scale = loss.double(), scale.double()
        self.sums[:, rows] += torch.stack([loss, loss**2, scale])
        if self.count % WINDOW:
            return torch.zeros(len(rows), dtype=torch.bool)
        mean, square, scale = self.sums[:, rows] / WINDOW
        error = ((square - mean**2).clamp_min(0) / WINDOW).sqrt()  # of the mean
        fall = (self.mean[rows] - mean).nan_to_num(torch.inf)  # endless in the first window
        noise = 2 * torch.hypot(error, self.error[rows])
        self.fall[rows] = fall / scale.clamp_min(torch.finfo(scale.dtype).tiny)
        self.mean[rows], self.error[rows], self.sums[:, rows] = mean, error, 0
        if self.tolerance == 0 or self.count == WINDOW:
            return torch.zeros(len(rows), dtype=torch.bool)
        return fall <= torch.maximum(self.tolerance * scale, noise)


def _drawn_normal(dist: Any) -> Callable[[Tensor, Tensor, Tensor], Any]:
    """A normal distribution whose standard normal numbers are given: Pyro would draw from the global generator."""

    class Drawn(dist.Normal):  # type: ignore[misc]
        def __init__(self, loc: Tensor, scale: Tensor, noise: Tensor) -> None:
            super().__init__(loc, scale)
            self.noise = noise

        def rsample(self, sample_shape: torch.Size = torch.Size()) -> Tensor:  # noqa: B008
            return self.loc + self.scale * self.noise

        def expand(self, batch_shape: torch.Size, _instance: Any = None) -> Drawn:
            return Drawn(*(part.expand(batch_shape) for part in (self.loc, self.scale, self.noise)))

    return Drawn
