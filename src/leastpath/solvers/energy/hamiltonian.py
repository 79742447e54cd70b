"""The same energy as `Variational`, sampled without an approximating family: Hamiltonian Monte Carlo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import torch
from torch import Tensor

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

Kernel = Literal["nuts", "hmc"]
R_HAT_LIMIT = 1.1
FIRST_NOISE = 0.1  # where chains start around the line, in units of the spread
TRAJECTORY = 1.5  # of "hmc", in units of the spread: a quarter turn decorrelates most, a whole one comes back


@dataclass(frozen=True)
class Hamiltonian:
    """Samples paths with density exp(−E/T), E the paper's energy, by NUTS or HMC. Needs `leastpath[svi]`.

    The path is the mean of all draws. The single draw of least energy would look better in the energy and worse as a
    path: in many dimensions every draw carries its share of noise in every coordinate, which makes its polyline long.
    The leapfrog's force is a finite difference, and the accept step uses the energy itself, so draws are exact.

    Expect NOT_CONVERGED on ReLU networks at the default β: their energy has more basins than a chain can leave, R-hat
    says so, and `Variational`, which smooths the energy with its scales, is the better choice there. On smooth scores
    chains settle.

    Args:
        n_samples: draws kept, a chain.
        warmup: draws thrown away before, a chain, while step size and mass adapt.
        n_chains: one after the other, from different places; R-hat compares them.
        n_points: knots between the ends. A leapfrog step costs two gradients a knot.
        beta_scale, beta, sign, as_printed, endpoint_weight, spread, fd_step: as in `Variational`.

    Rarely needed:
        kernel: "nuts" or "hmc".
        max_tree_depth: at most 2 ** this leapfrog steps a draw.
        target_accept: acceptance rate that the step size adapts to.
        n_paths: draws whose attributions give `result.path_spread`; 0: none. Each is integrated.

    Example:
        >>> import torch, leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(8 * (x[:, 0] - x[:, 1] ** 2)))
        >>> solver = lp.Hamiltonian(n_samples=4, warmup=2, n_points=4, max_tree_depth=1, n_paths=2)
        >>> result = lp.attribute(score, torch.ones(1, 2), solver=solver)
        >>> result.path[0].shape, sorted(result.stats)
        (torch.Size([6, 2]), ['acceptance', 'beta', 'divergences', 'draws', 'r_hat', 'solver_gradients'])
    """

    n_samples: int = 100
    warmup: int = 100
    n_chains: int = 2
    n_points: int = 20
    beta_scale: float = 1.0
    beta: float | None = None
    sign: Sign = "away"
    as_printed: bool = False
    endpoint_weight: float = 0.0
    spread: float = 0.3
    fd_step: float = 0.1
    kernel: Kernel = "nuts"
    max_tree_depth: int = 5
    target_accept: float = 0.8
    n_paths: int = 4

    def __post_init__(self) -> None:
        check_energy_settings(self)
        if self.kernel not in get_args(Kernel):
            raise ValueError(f"kernel={self.kernel!r} is unknown: use one of {list(get_args(Kernel))}")
        if self.n_samples < 4 or self.n_chains < 2 or self.warmup < 0 or self.max_tree_depth < 1:
            raise ValueError(
                f"n_samples={self.n_samples}, n_chains={self.n_chains}, warmup={self.warmup}, "
                f"max_tree_depth={self.max_tree_depth}: expected at least 4, 2, 0 and 1, which R-hat needs"
            )
        if not 0 < self.target_accept < 1:
            raise ValueError(f"target_accept={self.target_accept} must be between 0 and 1")
        if self.n_paths < 0 or self.n_paths == 1 or self.n_paths > self.n_samples * self.n_chains:
            raise ValueError(f"n_paths={self.n_paths}: expected 0, or 2 to n_samples · n_chains")

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> a polyline of n_points + 2 knots for each example, one example at a time.

        The energy fixes what is sampled: `metric` is what the result's length is measured in, nothing more.
        """
        pyro = imported_pyro("Hamiltonian")
        budget, n_paths = solver_budget(run.budget(score), self.n_points, self.n_paths)
        found: list[_Draws] = []
        total = len(start) * self.n_chains * (self.warmup + self.n_samples)
        with torch.enable_grad(), run.bar("hamiltonian", total) as bar:  # the sampler's positions need gradients
            for b in range(len(start)):
                draws = _Draws(self, score, b, start[b : b + 1], end[b : b + 1], run, budget)
                if found and found[-1].ended == "interrupted":
                    draws.ended = "interrupted"
                else:
                    draws.draw(pyro, bar)
                found.append(draws)
        bent = torch.tensor([draws.count > 0 for draws in found])
        samples = tuple(
            polylines(start, torch.cat([draws.sample(k) for draws in found]), end, bent) for k in range(n_paths)
        )
        diagnoses = [draws.diagnosis() for draws in found]
        stats = {name: torch.stack([d[name] for d in diagnoses]) for name in diagnoses[0]}
        notes = tuple(draws.notes(d) for draws, d in zip(found, diagnoses, strict=True))
        return Solution(
            polylines(start, torch.cat([d.mean() for d in found]), end, bent), notes, stats, samples=samples
        )


class _OverBudget(Exception):
    """The next leapfrog step would cost more than is left."""


@dataclass
class _Half:
    """Running mean and sum of squared deviations of half a chain: draws themselves would fill the memory."""

    count: int = 0
    mean: Tensor = field(default_factory=lambda: torch.zeros(()))
    squares: Tensor = field(default_factory=lambda: torch.zeros(()))

    def add(self, draw: Tensor) -> None:
        self.count += 1
        moved = draw - self.mean
        self.mean = self.mean + moved / self.count
        self.squares = self.squares + moved * (draw - self.mean)


def split_r_hat(halves: list[_Half]) -> float:
    """The largest R-hat over all coordinates; NaN where a half is missing or too short to have a variance.

    Example:
        >>> halves = [_Half(3, torch.tensor(m), torch.tensor(2.0)) for m in (0.0, 0.0, 3.0, 3.0)]
        >>> round(split_r_hat(halves), 3)  # √((2/3 · 1 + 3) / 1)
        1.915
    """
    if len(halves) < 2 or min(half.count for half in halves) < 2:
        return float("nan")
    n = min(half.count for half in halves)
    within = torch.stack([half.squares / (half.count - 1) for half in halves]).mean(0)
    between = torch.stack([half.mean for half in halves]).var(0)
    ratio = ((n - 1) / n * within + between) / within
    # A coordinate that never moved tells nothing against convergence unless the chains sit in different places.
    return float(torch.where((within == 0) & (between == 0), torch.ones_like(ratio), ratio).max().sqrt())


class _Draws:
    """All chains of one example."""

    def __init__(
        self, solver: Hamiltonian, score: BoundScore, example: int, start: Tensor, end: Tensor, run: Run, budget: Budget
    ) -> None:
        self.solver, self.score, self.example, self.run = solver, score, example, run
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
            self.energy = PathEnergy.of(self.score, examples, self.start, self.end, solver)
            for chain, budget in enumerate(budgets):
                with _seeded(self.run.seed * 1_000_003 + chain, self.start.device), pyro.validation_enabled(False):
                    self._chain(pyro, chain, budget, bar)
        except KeyboardInterrupt:
            self.ended = "interrupted"
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
            value = energy.reduced(position["deviation"] * solver.spread)[0]
            bar.advance(0, f"example {self.example}, chain {chain + 1}, E/T {float(value.detach()):.3g}")
            return value

        kernel = self._kernel(pyro, potential)
        # Positions are in units of the spread, so that a step size of one is a fair start.
        position = {"deviation": FIRST_NOISE * self.run.noise(energy.line.shape[1:], energy.line, chain)[None]}
        halves = [_Half(), _Half()]
        try:
            kernel.initial_params = position
            kernel.setup(solver.warmup)
            for step in range(-solver.warmup, solver.n_samples):
                if solver.kernel == "hmc":  # rough energies ask for tiny steps: the trajectory shrinks with them
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

    def _kernel(self, pyro: Any, potential: Any) -> Any:
        mcmc, solver = pyro.infer.mcmc, self.solver
        common = {"potential_fn": potential, "target_accept_prob": solver.target_accept}
        if solver.kernel == "nuts":
            return mcmc.NUTS(max_tree_depth=solver.max_tree_depth, **common)
        return mcmc.HMC(trajectory_length=TRAJECTORY, **common)

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

    # ---- what came out -------------------------------------------------------------------------------------------

    def mean(self) -> Tensor:
        """The mean path's knots: (1, n_points, *features)."""
        return self._knots(self.total / max(1, self.count))

    def sample(self, k: int) -> Tensor:
        """The knots of one draw: (1, n_points, *features). Those of a chain cut short come up again."""
        return self._knots(self.kept[k % len(self.kept)]) if self.kept else self.mean()

    def _knots(self, deviation: Tensor) -> Tensor:
        if self.energy is None:  # nothing was begun: the straight line is used, these are not visited
            return self.start.unsqueeze(1).expand_as(deviation).to(deviation.dtype)
        return self.energy.knots(deviation)

    def diagnosis(self) -> dict[str, Tensor]:
        """Numbers for `stats`."""
        rates = self.acceptance
        return {
            "r_hat": torch.tensor(split_r_hat(self.halves)),
            "divergences": torch.tensor(self.divergences),
            "acceptance": torch.tensor(sum(rates) / len(rates) if rates else float("nan")),
            "draws": torch.tensor(self.count),
            "beta": torch.tensor(float("nan") if self.energy is None else float(self.energy.beta)),
        }

    def notes(self, diagnosis: dict[str, Tensor]) -> tuple[Note, ...]:
        """What the user reads about this example."""
        solver, r_hat = self.solver, float(diagnosis["r_hat"])
        told = f"R-hat {r_hat:.3f} and {self.divergences} divergences in {self.count} draws"
        wanted = solver.n_samples * solver.n_chains
        short = f"after {self.count} of {wanted} draws" + ("" if self.count else f": {LINE}")
        if isinstance(self.ended, ScoreUndefined):
            return (undefined_note(self.ended),)
        if self.ended == "interrupted":
            return (Note(Outcome.INTERRUPTED, f"interrupted {short}"),)
        if self.ended == "budget":
            sentence = (
                f"sampling was ended by max_gradients={self.run.max_gradients} {short}; raise it, or lower n_points"
            )
            return (Note(Outcome.BUDGET_SPENT, sentence),)
        if r_hat <= R_HAT_LIMIT and not self.divergences:
            rate = float(diagnosis["acceptance"])
            return (Note(Outcome.SOLVER_NOTE, f"the chains agree: {told}, acceptance {rate:.0%}"),)
        remedy = f"the chains have not settled ({R_HAT_LIMIT} and 0 are expected); raise warmup and n_samples"
        return (Note(Outcome.NOT_CONVERGED, f"{told}: {remedy}"),)


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Pyro draws from the global generator: lend it one, and put the user's back."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
