"""The paper's method for high dimension: the energy of a path, minimised by stochastic variational inference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from torch import Tensor

from leastpath._support.checks import Count, NotNegative, Positive, Range
from leastpath._support.optional import import_optional
from leastpath._support.rows import per_row
from leastpath._support.threads import ONE_AT_A_TIME
from leastpath.account.run import Bar, Budget, Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.result.status import Note, Outcome
from leastpath.score.score import BoundScore
from leastpath.solvers.energy.energy import EnergySettings, Knots, PathEnergy, ScoreUndefined, polylines, solver_budget
from leastpath.solvers.solution import LINE, Solution, Stop, join_blocks

WINDOW = 100  # iterations that the loss is averaged over before it is compared
# Numbers in the paths solved at once: Adam, the guide and its gradients hold a dozen such tensors.
BLOCK_ELEMENTS = 2**23


@dataclass(frozen=True)
class Variational(EnergySettings):
    """Minimises the paper's energy Σ d(γᵢ, γ⁰ᵢ) + β‖∇f(γᵢ)‖ by variational inference. Needs `leastpath[svi]`.

    A normal distribution with a mean and a scale for every coordinate of every knot is fitted to exp(−E/T) by the
    evidence lower bound (Pyro's Trace_ELBO) and Adam. Its means are the path; its scales give `result.path_spread`.

    The energy adds a distance to a gradient norm, so the right β depends on the units of both. With the paper's rule,
    explaining 10·f makes the gradient term 100 times larger, and a score with tiny gradients (a softmax) hardly bends
    the path: raise `beta_scale` there, or set `beta`.

    Args:
        n_iterations: at most; examples whose loss no longer falls stop earlier.
        n_points: knots between the ends. An iteration costs two gradients per knot.
        beta_scale: the paper's rule, β = beta_scale × mean ‖∇f‖ along the example's straight line.
        beta: β itself, for all examples, instead of the rule.
        sign: "away" from a steep score, as the paper's text says, or "toward" it, as its equation says.

    Rarely needed:
        as_printed: the equations to the letter: the minus sign (`sign` is ignored) and p(γ) ∝ exp(−E), so T = 1 in the
            units of the inputs (`spread` is then only the first scale).
        endpoint_weight: the paper's w, for deviations of the first and last tenth of the knots. The ends themselves
            are not parameters and cannot move.
        spread: sets T, and the first scale: how far sampled paths are from the line under a constant gradient norm, as
            a share of the line's length. Below about 0.1 the path cannot leave a plateau of the gradient norm.
        lr: of Adam, in units of the root-mean-square difference between the two ends.
        lr_decay: the last iteration's learning rate as a share of the first's.
        tolerance: an example has converged when its loss, averaged over 100 iterations, falls by less than this share
            of its energy, or by less than its noise. Zero: run all iterations.
        fd_step: step of the finite difference of gradients, in the same units as `lr`.
        n_samples: paths drawn from the fitted distribution for `result.path_spread`; 0: none. Each is integrated.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(8 * (x[:, 0] - x[:, 1] ** 2)))
        >>> solver = lp.Variational(n_iterations=5, n_points=4, n_samples=2)
        >>> result = lp.attribute(score, torch.ones(1, 2), method=solver)
        >>> result.path[0].shape, result.path_spread.shape
        (torch.Size([6, 2]), torch.Size([1, 2]))
    """

    n_iterations: Count = 1000
    n_points: Knots = 50
    lr: Positive = 1e-2
    lr_decay: Annotated[float, Range(above=0, most=1, hint="1 keeps the learning rate")] = 0.1
    tolerance: NotNegative = 1e-3
    n_samples: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_samples < 0 or self.n_samples == 1:
            raise ValueError(f"n_samples={self.n_samples}: a deviation needs two paths; 0 draws none")

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline of n_points + 2 knots for each example.

        The energy fixes what is minimised; `metric` only measures the result.
        """
        pyro = import_optional("pyro", "Variational needs Pyro", "svi")
        budget, n_samples = solver_budget(run.budget(score), self.n_points, self.n_samples)
        per_block = max(1, BLOCK_ELEMENTS // (self.n_points * score.n_features))
        with torch.enable_grad(), run.bar("variational", len(start)) as bar:  # the guide's parameters need gradients
            task = _Inference(self, score, run, budget, n_samples, pyro, bar)
            for examples in torch.arange(len(start)).split(per_block):
                rows = examples.to(start.device)
                task.fit(examples, start[rows], end[rows])
        return join_blocks(task.parts)


@dataclass
class _Inference:
    """One call of the solver."""

    solver: Variational
    score: BoundScore
    run: Run
    budget: Budget
    n_samples: int
    pyro: Any
    bar: Bar
    parts: list[tuple[Tensor, Solution]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stop = Stop(self.run)

    def fit(self, examples: Tensor, start: Tensor, end: Tensor) -> None:
        """A block of examples. If the score fails away from the line, they are fitted again, each alone.

        So a batch gives what a loop gives. The block that failed has spent a part of the budget.
        """
        n = self.solver.n_points
        n_iterations = int(min(self.solver.n_iterations, self.budget.keeping(n).least_left(examples) / (2 * n)))
        note: Note | None = None
        if n_iterations < 1 and not self.stop.caught:
            sentence = f"the budget max_gradients={self.run.max_gradients} is too small for one iteration of {2 * n}"
            note = Note(Outcome.BUDGET_SPENT, f"{sentence}: {LINE}; raise it, or lower n_points")
        elif not self.stop.caught:
            try:
                with self.stop.catch():
                    energy = PathEnergy.of(self.score, examples, start, end, self.solver.n_points, self.solver)
                    self.parts.append((examples, _Guide(self, energy).fit(n_iterations, start, end)))
                    return
            except ScoreUndefined as error:
                note = error.note
                if len(examples) > 1:
                    for part in zip(examples.split(1), start.split(1), end.split(1), strict=True):
                        self.fit(*part)
                    return
        note = note or self.stop.note(f"interrupted before the path was bent: {LINE}")
        self.parts.append((examples, self._straight(start, end, note)))

    def _straight(self, start: Tensor, end: Tensor, note: Note) -> Solution:
        batch, line = len(start), Path.straight(start, end)
        unknown = torch.full((batch,), torch.nan, dtype=self.score.work_dtype, device=start.device)
        stats = {
            "loss": unknown,
            "beta": unknown,
            "iterations": torch.zeros(batch, dtype=torch.long),
            "scale": unknown.new_zeros(batch, self.solver.n_points, *start.shape[1:]),
        }
        return Solution(line, ((note,),) * batch, stats, samples=(line,) * self.n_samples)


class _Guide:
    """The fit of one block: Pyro's model and guide, and the examples that are still optimised."""

    def __init__(self, task: _Inference, energy: PathEnergy) -> None:
        self.task, self.energy, self.pyro = task, energy, task.pyro
        self.active = torch.arange(len(energy))
        self.active_energy = energy
        self.noise = torch.zeros(())
        self.step = 0
        self.loss = self.scale_of_loss = torch.zeros(0)
        self.kept_loc = torch.zeros_like(energy.line)
        self.kept_scale = torch.full_like(energy.line, task.solver.spread)
        self.windows = _Windows(len(energy), task.solver.tolerance)
        self.failed = torch.zeros(len(energy), dtype=torch.bool)
        self.converged = torch.zeros(len(energy), dtype=torch.bool)
        self.iterations = torch.zeros(len(energy), dtype=torch.long)

    def model(self) -> None:
        """p(deviation) ∝ exp(−E/T): no prior but the energy."""
        dist, line = self.pyro.distributions, self.active_energy.line
        real = dist.constraints.independent(dist.constraints.real, line.ndim - 1)
        with self.pyro.plate("examples", len(line)):
            deviation = self.pyro.sample("deviation", dist.ImproperUniform(real, line.shape[:1], line.shape[1:]))
            energy = self.active_energy.reduce(deviation, backward=self.step % 2 == 1)
            self.scale_of_loss = energy.detach().abs()
            self.loss = self.loss + energy.detach()
            self.pyro.factor("energy", -energy.nan_to_num(0, 0, 0))  # an example that failed must not make the sum NaN

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
            deviation = loc + scale * self.noise  # drawn here: Pyro would use the global generator
            density = dist.Normal(loc, scale).to_event(line.ndim - 1).log_prob(deviation)
            self.pyro.sample("deviation", dist.Delta(deviation, density, event_dim=line.ndim - 1))

    def fit(self, n_iterations: int, start: Tensor, end: Tensor) -> Solution:
        """Iterate until every example has converged, the iterations are used up, or the user interrupts."""
        solver, task = self.task.solver, self.task
        # Pyro keeps its parameters and handlers for the whole program: one thread at a time, and the user's stay.
        with ONE_AT_A_TIME, self.pyro.get_param_store().scope():
            gamma = solver.lr_decay ** (1 / solver.n_iterations)
            optimiser = self.pyro.optim.ExponentialLR(
                {"optimizer": torch.optim.Adam, "optim_args": {"lr": solver.lr}, "gamma": gamma}
            )
            svi = self.pyro.infer.SVI(self.model, self.guide, optimiser, self.pyro.infer.Trace_ELBO())
            with task.stop.catch():
                for step in range(n_iterations):
                    self.step = step
                    self.noise = task.run.noise(self.energy.line.shape[1:], self.energy.line, step)
                    svi.step()
                    optimiser.step()
                    self._judge(task.bar)
                    if not len(self.active):
                        break
            self._keep(self.active)
        task.bar.advance(len(self.active))
        return self._solution(start, end)

    def _judge(self, bar: Bar) -> None:
        """After a step: examples that failed or have converged leave."""
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
        bar.advance(0, f"step {self.step + 1}, {len(self.active)} examples, loss {float(self.loss.mean()):.3g}")

    def _keep(self, rows: Tensor) -> None:
        store = self.pyro.get_param_store()
        if "loc" in store and "scale" in store:  # an interruption may come before the first step has made them
            rows = rows.to(self.kept_loc.device)
            self.kept_loc[rows], self.kept_scale[rows] = store["loc"].detach()[rows], store["scale"].detach()[rows]

    def _solution(self, start: Tensor, end: Tensor) -> Solution:
        solver, energy, loc, scale = self.task.solver, self.energy, self.kept_loc, self.kept_scale
        finite = torch.isfinite(loc).flatten(1).all(1) & torch.isfinite(scale).flatten(1).all(1)
        self.failed |= ~finite.cpu()

        def path(deviation: Tensor) -> Path:
            return polylines(start, energy.knots(deviation), end, ~self.failed)

        def draw(number: int) -> Path:
            return path(loc + scale * self.task.run.noise(energy.line.shape[1:], energy.line, number))

        stats = {
            "loss": self.windows.mean.to(energy.line),
            "beta": energy.beta,
            "iterations": self.iterations,
            "scale": scale * per_row(energy.unit, energy.line),
        }
        samples = tuple(draw(solver.n_iterations + k) for k in range(self.task.n_samples))
        return Solution(path(loc), tuple(self._notes(b) for b in range(len(energy))), stats, samples=samples)

    def _notes(self, b: int) -> tuple[Note, ...]:
        solver, done = self.task.solver, int(self.iterations[b])
        if self.failed[b]:
            sentence = f"the gradient became NaN or infinite after {done} iterations: {LINE}; lower beta_scale or lr"
            return (Note(Outcome.FELL_BACK, sentence),)
        if self.converged[b] or solver.tolerance == 0:
            return ()
        if self.task.stop.caught:
            return (self.task.stop.note(f"interrupted after {done} of {solver.n_iterations} iterations"),)
        if done < solver.n_iterations:
            ended = f"the search was ended by max_gradients={self.task.run.max_gradients} after {done}"
            return (Note(Outcome.BUDGET_SPENT, f"{ended} of {solver.n_iterations} iterations; raise it"),)
        fall = f"its loss still fell by {float(self.windows.fall[b]):.2g} of its energy in {WINDOW}"
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
        fall = (self.mean[rows] - mean).nan_to_num(torch.inf)  # infinite in the first window
        noise = 2 * torch.hypot(error, self.error[rows])
        self.fall[rows] = fall / scale.clamp_min(torch.finfo(scale.dtype).tiny)
        self.mean[rows], self.error[rows], self.sums[:, rows] = mean, error, 0
        if self.tolerance == 0 or self.count == WINDOW:
            return torch.zeros(len(rows), dtype=torch.bool)
        return fall <= torch.maximum(self.tolerance * scale, noise)
