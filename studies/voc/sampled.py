"""IDGI averaged over paths that are drawn around a geodesic and around the straight line.

Found on development images of the VOC experiment: squared gradients of a single path are noisy, and paths that pass
elsewhere agree on what matters. Every drawn path has the same two ends, so the average is as complete as each of them.
"""

from __future__ import annotations

import torch

from leastpath._support.rows import per_row
from leastpath.account.run import Run
from leastpath.geometry.metric import Conformal
from leastpath.geometry.path import Path
from leastpath.integral.integrator import integrate
from leastpath.integral.pieces import IDGI
from leastpath.methods import Explained, Problem, method
from leastpath.result.status import check_finished
from leastpath.solvers import Descent

DRAWS = 9000  # number of the first random draw, apart from those of the solver


@method(
    "Geodesic IDGI (sampled)", "IDGI averaged over paths drawn around a coarse geodesic and around the straight line.",
    role="weighting", complete=True,
)  # fmt: skip
def sampled_idgi(
    problem: Problem,
    *,
    n_paths: int = 2,
    spread: float = 0.2,
    resolution: int | None = 16,
    solver_gradients: int = 120,
    n_steps: int = 16,
) -> Explained:
    """IDGI's integral, averaged over bows around a geodesic and around the line.

    A bow is a path plus sin(πt) · spread · noise, white and the same along it: its ends stay.

    Args:
        problem: what is explained.
        n_paths: bows around the geodesic, and as many around the line.
        spread: deviation of a bow in its middle, in the units of the inputs; pictures lie in [0, 1].
        resolution: of the geodesic, for images; None: full, which other inputs need.
        solver_gradients: most gradients of the geodesic's solver.
        n_steps: segments of the bows around the line, one gradient each.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: torch.sigmoid(x.mean(1)))
        >>> result = sampled_idgi(score, torch.ones(1, 30), spread=0.02, resolution=None, n_steps=40)
        >>> bool(result.completeness_gap.abs() < 0.02)
        True
    """
    if n_paths < 1 or spread < 0 or n_steps < 1:
        raise ValueError(f"n_paths={n_paths} and n_steps={n_steps} must be at least 1, spread={spread} not negative")

    run = Run(problem.seed)
    solver = Descent(max_gradients=solver_gradients, resolution=resolution)
    geodesic = solver.solve(problem.bound, Conformal(), problem.start, problem.end, run)
    check_finished(note.outcome for notes in geodesic.notes or () for note in notes)
    return _averaged(problem, [geodesic.path] * n_paths + [_line(problem, n_steps)] * n_paths, spread, run)


@method(
    "IDGI (sampled lines)", "IDGI averaged over paths drawn around the straight line.", role="weighting", complete=True,
)  # fmt: skip
def line_sampled_idgi(problem: Problem, *, n_paths: int = 3, spread: float = 0.1, n_steps: int = 16) -> Explained:
    """The same around the straight line alone: what averaging does without any geodesic.

    Args:
        problem: what is explained.
        n_paths: bows around the line.
        spread: deviation of a bow in its middle, in the units of the inputs.
        n_steps: segments of a bow, one gradient each.

    Example:
        >>> import leastpath as lp
        >>> line_sampled_idgi(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2)).values.shape
        torch.Size([1, 2])
    """
    if n_paths < 1 or spread < 0 or n_steps < 1:
        raise ValueError(f"n_paths={n_paths} and n_steps={n_steps} must be at least 1, spread={spread} not negative")

    return _averaged(problem, [_line(problem, n_steps)] * n_paths, spread, Run(problem.seed))


def _line(problem: Problem, n_steps: int) -> Path:
    return Path.straight(problem.start, problem.end).subdivide(n_steps)


def _averaged(problem: Problem, bases: list[Path], spread: float, run: Run) -> Explained:
    """IDGI's integral along a bow around each of the paths, averaged."""
    total = torch.zeros_like(problem.end, dtype=problem.bound.work_dtype)
    for number, base in enumerate(bases):
        bow = bowed(base, spread, run, DRAWS + number)
        steps = int(bow.n_knots.max()) - 1  # one gradient per segment, or more on segments that are long
        part = integrate(problem.bound, bow, Conformal(), weighting=IDGI(), tolerance=None, n_steps=steps, run=run)
        check_finished(note.outcome for note in part.notes)
        total += part.values
        problem.bar.advance(len(problem) / len(bases))
    return Explained(total / len(bases))


def bowed(path: Path, spread: float, run: Run, draw: int) -> Path:
    """Every example's polyline plus sin(πt) · spread · noise; t counts knots, and the ends stay exactly.

    Example:
        >>> straight = Path.straight(torch.zeros(1, 3), torch.ones(1, 3)).subdivide(4)
        >>> bow = bowed(straight, 0.1, Run(0), 0)
        >>> torch.equal(bow.start, straight.start), torch.equal(bow[0][2], straight[0][2])
        (True, False)
    """
    lines = []
    for b in range(len(path)):
        knots = path[b]
        noise = run.noise(tuple(knots.shape[1:]), knots, draw)
        t = torch.linspace(0, 1, len(knots), dtype=knots.dtype, device=knots.device)
        height = per_row(torch.sin(torch.pi * t), knots)
        moved = knots + spread * height * noise
        moved[0], moved[-1] = knots[0], knots[-1]
        lines.append(moved)
    counts = torch.tensor([0, *(len(line) for line in lines)])
    return Path(torch.cat(lines), torch.arange(int(counts.sum())), counts.cumsum(0))
