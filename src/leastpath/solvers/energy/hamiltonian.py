"""The same energy as `Variational`, sampled by Hamiltonian Monte Carlo instead of fitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from leastpath._support.checks import Count, Range
from leastpath._support.optional import import_optional
from leastpath._support.threads import ONE_AT_A_TIME, own_draws
from leastpath.account.run import Bar, Budget, Run
from leastpath.geometry.metric import Metric
from leastpath.geometry.path import Path
from leastpath.result.status import Note, Outcome
from leastpath.score.score import BoundScore
from leastpath.solvers.energy.energy import EnergySettings, Knots, PathEnergy, ScoreUndefined, polylines, solver_budget
from leastpath.solvers.solution import LINE, Solution, Stop, join_blocks

Kernel = Literal["nuts", "hmc"]
R_HAT_LIMIT = 1.1
FIRST_NOISE = 0.1  # where chains start around the line, in units of the spread
TRAJECTORY = 1.5  # length for "hmc", in units of the spread: about a quarter of a period decorrelates most


@dataclass(frozen=True)
class Hamiltonian(EnergySettings):
    """Samples paths with density exp(−E/T), E the paper's energy, by NUTS or HMC. Needs `leastpath[svi]`.

    The path is the mean of all draws. The single draw of least energy has a lower energy but makes a worse path: in
    many dimensions every draw has noise in every coordinate, which makes its polyline long. The leapfrog's force is a
    finite difference, and the accept step uses the energy itself, so draws are exact.

    Expect NOT_CONVERGED on ReLU networks at the default β: their energy has more minima than a chain can leave, and
    R-hat shows it. `Variational` smooths the energy and is the better choice there. On smooth scores chains converge.

    Args:
        n_samples: draws kept of each chain.
        warmup: draws of each chain that are dropped first, while step size and mass adapt.
        n_chains: one after the other, from different places; R-hat compares them.
        n_points: knots between the ends. A leapfrog step costs two gradients per knot.
        beta_scale, beta, sign, as_printed, endpoint_weight, spread, fd_step: as in `Variational`.

    Rarely needed:
        kernel: "nuts" or "hmc".
        max_tree_depth: at most 2 ** this leapfrog steps per draw.
        target_accept: acceptance rate that the step size adapts to.
        n_paths: draws whose attributions give `result.path_spread`; 0: none. Each is integrated.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(8 * (x[:, 0] - x[:, 1] ** 2)))
        >>> solver = lp.Hamiltonian(n_samples=4, warmup=2, n_points=4, max_tree_depth=1, n_paths=2)
        >>> result = lp.attribute(score, torch.ones(1, 2), method=solver)
        >>> result.path[0].shape, sorted(result.stats)[:4]
        (torch.Size([6, 2]), ['acceptance', 'beta', 'chance', 'divergences'])
    """

    n_samples: Annotated[int, Range(least=4)] = 100
    warmup: Annotated[int, Range(least=0)] = 100
    n_chains: Annotated[int, Range(least=2)] = 2
    n_points: Knots = 20
    kernel: Kernel = "nuts"
    max_tree_depth: Count = 5
    target_accept: Annotated[float, Range(above=0, below=1)] = 0.8
    n_paths: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_paths < 0 or self.n_paths == 1 or self.n_paths > self.n_samples * self.n_chains:
            raise ValueError(f"n_paths={self.n_paths}: expected 0, or 2 to n_samples · n_chains")

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline of n_points + 2 knots for each example, one example at a time.

        The energy fixes what is sampled; `metric` only measures the result.
        """
        pyro = import_optional("pyro", "Hamiltonian needs Pyro", "svi")
        budget, n_paths = solver_budget(run.budget(score), self.n_points, self.n_paths)
        total, stop, parts = len(start) * self.n_chains * (self.warmup + self.n_samples), Stop(run), []
        with torch.enable_grad(), run.bar("hamiltonian", total) as bar:  # the sampler's positions need gradients
            for b in range(len(start)):
                draws = _Draws(self, score, b, start[b : b + 1], end[b : b + 1], stop, budget)
                with stop.catch():
                    if not stop.caught:
                        draws.draw(pyro, bar)
                parts.append((torch.tensor([b]), draws.solution(n_paths)))
        return join_blocks(parts)


class _OverBudget(Exception):
    """The next leapfrog step would cost more than is left."""


@dataclass
class _Half:
    """Running mean and sum of squared deviations of half a chain; keeping all draws would need too much memory."""

    count: int = 0
    mean: Tensor = field(default_factory=lambda: torch.zeros(()))
    squares: Tensor = field(default_factory=lambda: torch.zeros(()))

    def add(self, draw: Tensor) -> None:
        self.count += 1
        moved = draw - self.mean
        self.mean = self.mean + moved / self.count
        self.squares = self.squares + moved * (draw - self.mean)


def split_r_hat(halves: list[_Half]) -> float:
    """The largest R-hat over all coordinates; NaN if a half is missing or too short for a variance."""
    if len(halves) < 2 or min(half.count for half in halves) < 2:
        return float("nan")
    n = min(half.count for half in halves)
    within = torch.stack([half.squares / (half.count - 1) for half in halves]).mean(0)
    between = torch.stack([half.mean for half in halves]).var(0)
    ratio = ((n - 1) / n * within + between) / within
    # A coordinate that never moved has converged, unless the chains are at different values.
    return float(torch.where((within == 0) & (between == 0), torch.ones_like(ratio), ratio).max().sqrt())


class _Draws:
    """All chains of one example."""

    def __init__(
        self, solver: Hamiltonian, score: BoundScore, example: int, start: Tensor, end: Tensor, stop: Stop,
        budget: Budget,
    ) -> None:  # fmt: skip
        self.solver, self.score, self.example, self.run, self.stop = solver, score, example, stop.run, stop
        self.start, self.end, self.budget = start, end, budget
        self.energy: PathEnergy | None = None
        self.ended: str | ScoreUndefined = ""
        self.halves: list[_Half] = []
        self.total = torch.zeros(1, solver.n_points, *start.shape[1:], dtype=score.work_dtype, device=start.device)
        self.kept: list[Tensor] = []  # evenly spaced draws, for the spread
        self.acceptance: list[float] = []
        self.count = self.divergences = 0

    def draw(self, pyro: Any, bar: Bar) -> None:
        """Run the chains until they are done, the budget is spent or someone interrupts."""
        solver = self.solver
        budgets = [self.budget.share((chain + 1) / solver.n_chains) for chain in range(solver.n_chains)]
        try:
            if not self.budget.affords(3 * solver.n_points, self.example):
                raise _OverBudget
            examples = torch.tensor([self.example])
            self.energy = PathEnergy.of(self.score, examples, self.start, self.end, solver.n_points, solver)
            for chain, budget in enumerate(budgets):
                # Pyro keeps state for the whole program, and draws from the global generator.
                with ONE_AT_A_TIME, own_draws(self.run.seed * 1_000_003 + chain), pyro.validation_enabled(False):
                    self._chain(pyro, chain, budget, bar)
        except _OverBudget:
            self.ended = "budget"
        except ScoreUndefined as error:
            self.ended = error
            self.count = 0

    def _chain(self, pyro: Any, chain: int, budget: Budget, bar: Bar) -> None:
        solver, energy = self.solver, self.energy
        assert energy is not None

        def potential(position: dict[str, Tensor]) -> Tensor:
            if not budget.affords(2 * solver.n_points, self.example):
                raise _OverBudget
            value = energy.reduce(position["deviation"] * solver.spread)[0]
            bar.advance(0, f"example {self.example}, chain {chain + 1}, E/T {float(value.detach()):.3g}")
            return value

        common = {"potential_fn": potential, "target_accept_prob": solver.target_accept}
        if solver.kernel == "nuts":
            kernel = pyro.infer.mcmc.NUTS(max_tree_depth=solver.max_tree_depth, **common)
        else:
            kernel = pyro.infer.mcmc.HMC(trajectory_length=TRAJECTORY, **common)
        # Positions are in units of the spread, so that a step size of one is a good start.
        position = {"deviation": FIRST_NOISE * self.run.noise(energy.line.shape[1:], energy.line, chain)[None]}
        halves = [_Half(), _Half()]
        try:
            kernel.initial_params = position
            kernel.setup(solver.warmup)
            for step in range(-solver.warmup, solver.n_samples):
                if solver.kernel == "hmc":  # rough energies need tiny steps: the trajectory shrinks with them
                    kernel.trajectory_length = min(TRAJECTORY, 2**solver.max_tree_depth * float(kernel.step_size))
                position = kernel.sample(position)
                if step >= 0:
                    self._add(position["deviation"].detach() * solver.spread, step, halves)
                bar.advance()
        except _OverBudget:
            self.ended = "budget"
        finally:
            self.halves += halves
            if halves[0].count:
                said = kernel.diagnostics()
                self.divergences += len(said["divergences"])
                self.acceptance.append(float(said["acceptance rate"]))

    def _add(self, deviation: Tensor, step: int, halves: list[_Half]) -> None:
        n, wanted = self.solver.n_samples, max(1, self.solver.n_paths)
        if step < n // 2:
            halves[0].add(deviation)
        elif step >= n - n // 2:
            halves[1].add(deviation)
        if (self.count + 1) * wanted // (n * self.solver.n_chains) > len(self.kept):
            self.kept.append(deviation)
        self.total = self.total + deviation
        self.count += 1

    def solution(self, n_paths: int) -> Solution:
        """The mean path, `n_paths` draws, notes and diagnostics; the straight line where there are no draws."""
        rates, energy = self.acceptance, self.energy
        stats = {
            "r_hat": split_r_hat(self.halves),
            "divergences": self.divergences,
            "acceptance": sum(rates) / len(rates) if rates else float("nan"),
            "draws": self.count,
            "beta": float("nan") if energy is None else float(energy.beta),
        }
        notes = (self._note(stats["r_hat"], stats["acceptance"]),)
        rows = {name: torch.tensor([value]) for name, value in stats.items()}
        if energy is None or not self.count:
            line = Path.straight(self.start, self.end)
            return Solution(line, (notes,), rows, samples=(line,) * n_paths)
        mean = self.total / self.count
        drawn = self.kept or [mean]  # draws of a chain that ended early are used again
        mean_path, *samples = (
            polylines(self.start, energy.knots(deviation), self.end, torch.ones(1, dtype=torch.bool))
            for deviation in (mean, *(drawn[k % len(drawn)] for k in range(n_paths)))
        )
        return Solution(mean_path, (notes,), rows, samples=tuple(samples))

    def _note(self, r_hat: float, rate: float) -> Note:
        solver = self.solver
        told = f"R-hat {r_hat:.3f} and {self.divergences} divergences in {self.count} draws"
        wanted = solver.n_samples * solver.n_chains
        short = f"after {self.count} of {wanted} draws" + ("" if self.count else f": {LINE}")
        if isinstance(self.ended, ScoreUndefined):
            return self.ended.note
        if self.stop.caught:
            return self.stop.note(f"interrupted {short}")
        if self.ended == "budget":
            sentence = f"sampling was ended by max_gradients={self.run.max_gradients} {short}"
            return Note(Outcome.BUDGET_SPENT, f"{sentence}; raise it, or lower n_points")
        if r_hat <= R_HAT_LIMIT and not self.divergences:
            return Note(Outcome.SOLVER_NOTE, f"the chains agree: {told}, acceptance {rate:.0%}")
        remedy = f"the chains have not converged ({R_HAT_LIMIT} and 0 are expected); raise warmup and n_samples"
        return Note(Outcome.NOT_CONVERGED, f"{told}: {remedy}")
