"""Geodesics of the data: curves through the latent space of an autoencoder that are short once they are decoded.

The decoder pulls the Euclidean metric of the inputs back to its latent space. A curve that minimises the energy of its
decoded steps is a geodesic there. Only first derivatives of the decoder are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import torch
from torch import Tensor, nn

from leastpath._support.checks import Range, Settings
from leastpath._support.rows import flat_rows, norms, per_row
from leastpath.account.run import Bar, Run
from leastpath.geometry.metric import Metric, decode, encode, energy
from leastpath.result.status import Note, Outcome
from leastpath.score.calls import leave_untouched
from leastpath.score.score import BoundScore
from leastpath.solvers.energy.energy import polylines
from leastpath.solvers.manifold.lbfgs import Lbfgs
from leastpath.solvers.shorten import inverse_laplacian
from leastpath.solvers.solution import LINE, Solution, Stop, join_blocks, straight_with_note

BLOCK_ELEMENTS = 2**22  # numbers in one call of the decoder
FIRST_MOVE = 0.1  # largest move of a knot in the first trial step, relative to the distance of the ends in latent space
FEWEST_KNOTS = 3
GRADIENTS_A_SEGMENT = 3  # of the budget
POOR = 0.5  # share of the path in its two joining pieces above which the status advises


@dataclass(frozen=True, eq=False)
class Manifold(Settings):
    """Manifold IG (Zaher et al. 2024): along a geodesic of the decoder's pull-back metric, decoded.

    Both ends are encoded, the latent line between them is bent until its decoded steps are short and even, and the
    decoded curve is joined to the exact ends by straight pieces. The status says how long these are: if they are most
    of the path, the decoder hardly shapes it. The model plays no part in the path: lengths in the result are measured
    in the metric that `attribute` is given, and gradients of the decoder are not counted as the model's.

    Args:
        encoder: (n, *features) -> (n, *latent), or a tuple whose first part is that (the mean of a VAE).
        decoder: (n, *latent) -> (n, *features).

    Rarely needed:
        n_knots: of the latent curve, its ends included.
        n_iterations: at most; each takes one gradient of the decoder a knot, and a few evaluations.
        tolerance: an example has converged when the next iteration would lower its energy by a smaller share.

    Example:
        >>> import torch, leastpath as lp
        >>> def on_circle(z):
        ...     return torch.cat([z.cos(), z.sin()], 1)
        >>> solver = lp.Manifold(lambda x: torch.atan2(x[:, 1:], x[:, :1]), on_circle, n_knots=9)
        >>> score = lp.Score(lambda x: x.prod(1))
        >>> result = lp.attribute(score, torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]), method=solver)
        >>> bool(torch.allclose(result.path[0].norm(dim=1), torch.ones(11)))
        True
    """

    encoder: Callable[[Tensor], Tensor | tuple[Tensor, ...]] = field(repr=False)
    decoder: Callable[[Tensor], Tensor] = field(repr=False)
    n_knots: Annotated[int, Range(least=FEWEST_KNOTS)] = 32
    n_iterations: Annotated[int, Range(least=0)] = 200
    tolerance: Annotated[float, Range(above=0, hint="a share of the energy, as 1e-4")] = 1e-4

    def __post_init__(self) -> None:
        for name, part in (("encoder", self.encoder), ("decoder", self.decoder)):
            if isinstance(part, type) or not callable(part):
                raise ValueError(f"{name}={part!r} is not a function: Manifold(vae.encoder, vae.decoder)")
        super().__post_init__()

    def solve(self, score: BoundScore, metric: Metric, start: Tensor, end: Tensor, run: Run) -> Solution:
        """start, end (batch, *features) -> polylines of n_knots + 2 knots; `metric` only measures the result."""
        for name, part in (("encoder", self.encoder), ("decoder", self.decoder)):
            if isinstance(part, nn.Module) and part.training:
                raise ValueError(f"the {name} is in training mode, so rows may depend on each other: {name}.eval()")
        # The integral measures every segment once, and takes twice as much to verify it.
        payable = run.budget(score).with_reserved.shared_by(GRADIENTS_A_SEGMENT).least_left()
        knots = int(min(self.n_knots, payable - 1))
        if knots < FEWEST_KNOTS:
            sentence = (
                f"max_gradients={run.max_gradients} is too small for a curve of {FEWEST_KNOTS} knots: {LINE}; raise it"
            )
            return straight_with_note(start, end, Note(Outcome.BUDGET_SPENT, sentence))
        size = max(1, BLOCK_ELEMENTS // (knots * score.n_features))
        parts, stop = [], Stop(run)
        with leave_untouched(self.encoder, start, self.decoder), run.bar("manifold", len(start)) as bar:
            for examples in torch.arange(len(start)).split(size):
                rows = examples.to(start.device)
                a, b = start[rows], end[rows]
                curves = _Curves(self, knots, a.to(score.work_dtype), b.to(score.work_dtype), stop)
                curves.bend(bar)
                parts.append((examples, curves.solution(a, b)))
        return join_blocks(parts)


def _end_note(first: float, last: float) -> Note:
    sentence = (
        f"joining baseline and input to their reconstructions takes {first:.0%} and {last:.0%} of the path's "
        "Euclidean length"
    )
    if first + last > POOR:
        sentence += ", so the decoder shapes less than half of it: fit it better, or take a baseline from the data"
    return Note(Outcome.SOLVER_NOTE, sentence)


class _Curves:
    """Latent curves of a block of examples, and their search for the least energy."""

    def __init__(self, settings: Manifold, n_knots: int, start: Tensor, end: Tensor, stop: Stop) -> None:
        self.settings, self.features, self.stop = settings, start, stop
        z = encode(settings.encoder, torch.cat([start, end]))
        self.latent_shape = z.shape[1:]
        self.ends = flat_rows(z).unflatten(0, (2, -1))  # (2, batch, latent)
        a, b = self.ends
        t = torch.linspace(0, 1, n_knots, device=z.device, dtype=z.dtype)[1:-1, None]
        line = torch.lerp(a[:, None], b[:, None], t)  # (batch, inner knots, latent)
        # If the decoder is an isometry, the Hessian of the energy is the Laplacian along the curve.
        inverse = inverse_laplacian(n_knots - 2, line)
        self.search = Lbfgs(self._energy, line, inverse, FIRST_MOVE * norms(b - a, 1), settings.tolerance)
        self.line_energy = self.search.value.clone()
        self.apart = norms(end - start, 1) > 0

    @property
    def usable(self) -> Tensor:
        """(batch,) whether there is a curve to decode."""
        return self.apart & ~self.search.failed

    def _curve(self, inner: Tensor, rows: Tensor) -> Tensor:
        a, b = self.ends[:, rows]
        return torch.cat([a[:, None], inner, b[:, None]], 1)

    def _decode_curves(self, z: Tensor) -> Tensor:
        rows = z.flatten(0, 1).unflatten(1, self.latent_shape)
        return decode(self.settings.decoder, rows, self.features).unflatten(0, z.shape[:2])

    def _energy(self, inner: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Energies (n,) of decoded curves, and their gradients by the inner knots (n, inner knots, latent)."""
        with torch.enable_grad():
            inner = inner.detach().requires_grad_()
            knots = self._decode_curves(self._curve(inner, rows))
            n = knots.shape[1] - 1
            value = energy(n * norms(knots.diff(dim=1), 2), knots.new_full((n,), 1 / n))
            if not value.requires_grad:
                raise ValueError("no gradient flows through the decoder: look for torch.no_grad() or .detach() in it")
            (gradient,) = torch.autograd.grad(value.sum(), inner)
        return value.detach().to(inner.dtype), gradient

    def bend(self, bar: Bar) -> None:
        """Lower the energies until every example has converged or its iterations are used up."""
        search, shown = self.search, 0
        with self.stop.catch():
            for _ in range(0 if self.stop.caught else self.settings.n_iterations):
                done = len(self.features) - len(search.open)
                bar.advance(done - shown, self._progress())
                shown = done
                if done == len(self.features):
                    break
                search.iterate()
        bar.advance(len(self.features) - shown, self._progress())

    def _progress(self) -> str:
        ratio = (self.search.value / self.line_energy)[self.usable & (self.line_energy > 0)]
        return f"energy {float(ratio.median()):.3f} of the latent line's" if len(ratio) else ""

    def solution(self, start: Tensor, end: Tensor) -> Solution:
        """Decoded curves between the exact ends; the straight line if there is no curve."""
        curve = self._curve(self.search.x, torch.arange(len(self.features), device=self.ends.device))
        knots = self._decode_curves(curve)
        knots = torch.where(per_row(self.usable, knots), knots, self.features[:, None])  # (batch, knots, *features)
        pieces = norms(torch.cat([start[:, None].to(knots), knots, end[:, None].to(knots)], 1).diff(dim=1), 2)
        share = pieces[:, [0, -1]] / pieces.sum(1, keepdim=True).clamp_min(torch.finfo(pieces.dtype).tiny)
        notes = tuple(
            (*notes, *((_end_note(*ends),) if curved else ()))
            for notes, ends, curved in zip(self._notes(), share.tolist(), self.usable.tolist(), strict=True)
        )
        stats = {
            "latent": curve.unflatten(2, self.latent_shape),  # (batch, knots, *latent)
            "energy": self.search.value,
            "line_energy": self.line_energy,
            "iterations": self.search.iterations,
            "end_share": share,
        }
        return Solution(polylines(start, knots, end, self.usable.cpu()), notes, stats)

    def _notes(self) -> list[tuple[Note, ...]]:
        failed = Note(Outcome.FELL_BACK, f"encoder or decoder give NaN or infinite numbers on the latent line: {LINE}")
        notes: list[tuple[Note, ...]] = []
        search = self.search
        for converged, bad, stuck, n in zip(
            *(x.tolist() for x in (search.converged, search.failed, search.stuck, search.iterations)), strict=True
        ):
            if bad:
                notes.append((failed,))
            elif converged:
                notes.append(())
            elif self.stop.caught and not stuck:
                notes.append((self.stop.note("interrupted: the best curve so far is returned"),))
            else:
                sentence = f"the latent curve was still getting shorter after {n} iterations; raise n_iterations"
                if stuck:
                    sentence = (
                        f"no step made the latent curve any shorter after {n} iterations, though its gradient promised "
                        "one: the decoder jumps or rounds there; use a smoother decoder, or float64"
                    )
                notes.append((Note(Outcome.NOT_CONVERGED, sentence),))
        return notes
