"""The only integral: gradients along a path, with error control.

On each straight segment, its *residual* (sum of attributions minus change of score) is known exactly. But a zero
residual proves little: a symmetric bump does not show in it, and errors of two features cancel in it. So a piece counts
as known only if its attributions and its length also stay the same when it is cut in two *unequal* parts. The pieces
that change most are cut again, until every example has reached its tolerance.
"""

from __future__ import annotations

import numbers
from dataclasses import replace

import torch
from torch import Tensor

from leastpath._support.checks import check_integer, check_setting, shown
from leastpath.account.run import Run
from leastpath.geometry.metric import Conformal, Metric
from leastpath.geometry.path import Path
from leastpath.integral.block import Block, Plan
from leastpath.integral.fixed_steps import at_fixed_steps
from leastpath.integral.pieces import KnownSegments
from leastpath.integral.refinement import refined
from leastpath.integral.result import Integral, joined_integrals, unknown_integral
from leastpath.integral.rules import check_rule
from leastpath.integral.sums import Measure
from leastpath.integral.weightings import PathIntegral, Weighting
from leastpath.score.bound import BoundScore
from leastpath.score.score import Score
from leastpath.score.untouched import leave_untouched

DEFAULT_MAX_GRADIENTS = 10_000  # an example, if the user gives no budget: every call comes to an end
BLOCK_ELEMENTS = 2**26  # numbers held at once while refining
PIECES_EXPECTED = 24  # of an example, for sizing blocks


def integrate(
    score: Score | BoundScore,
    path: Path,
    metric: Metric | None = None,
    *,
    tolerance: float | None = 0.01,
    n_steps: int | None = None,
    rule: str = "gauss_legendre",
    weighting: Weighting | None = None,
    max_gradients: int | Tensor | None = None,
    known: KnownSegments | None = None,
    only_length: bool = False,
    measure: Measure = "all",
    length_tolerance: float | None = None,
    rival: Tensor | None = None,
    run: Run | None = None,
) -> Integral:
    """Integrate the score's gradient along a path.

    Args:
        score: what is explained. A plain `Score` takes row b's target for the path of example b.
        path: one polyline per example.
        metric: what `length` is measured in (Conformal by default).
        tolerance: an example is done when |gap| ≤ tolerance · max(|Δf|, 1 % of the score's range along the path)
            + 64 · eps · max|f|, and when cutting its pieces again changes attributions and length by less than this
            share of Σ|attributions| and of the length. Up to four features a change is Σ|difference|, above it is
            twice the Euclidean norm. None: exactly `n_steps`.
        n_steps: gradients per path, spread over its segments by length. With a tolerance: where refinement starts.
        rule: "gauss_legendre", "midpoint" or "trapezoid".
        weighting: what a gradient adds to the attributions; weightings that are not complete need `tolerance=None`.
        max_gradients: per example, one number for all or (batch,). None: 10,000, or what fixed steps take. A path of
            more segments than that still takes one gradient a segment.
        known: segments that a solver has measured already; they are only verified.
        only_length: stop when the length is known, even if the attributions are not.
        measure: "values": stop when the attributions are known, even if the length is not.
        length_tolerance: accuracy of the length, where that is not to be `tolerance`.
        rival: (batch,) lengths that these are only compared with. Then 10 % is enough, or less where the two are
            close: never so little that it could change which one is longer.
        run: seed, time and progress display.

    All errors are estimates, not bounds: a change of score between all nodes can hide.

    Example:
        >>> score = Score(lambda x: (x**2).sum(1))
        >>> path = Path.straight(torch.zeros(1, 2), torch.ones(1, 2))
        >>> integrate(score, path).values
        tensor([[1., 1.]])
    """
    check_setting("path", path, Path)
    if not isinstance(score, (Score, BoundScore)):
        raise ValueError(
            f"score is a {type(score).__name__}, expected a Score: integrate(lp.Score(model, target), path)"
        )
    given: object = metric
    if isinstance(given, type) or not (given is None or isinstance(given, Metric)):
        raise ValueError(f"metric={metric!r} is not a metric: pass an instance, as in metric=lp.Conformal()")
    weighting, run = weighting or PathIntegral(), run or Run()
    check_settings(tolerance, n_steps, rule, weighting, max_gradients)
    with leave_untouched(score.model if isinstance(score, Score) else score.score.model, path.points):
        bound = score if isinstance(score, BoundScore) else score.bind(path.end)
        if len(path) != bound.batch:
            raise ValueError(f"a path of {len(path)} examples for a score over {bound.batch}: they must match")
        default = DEFAULT_MAX_GRADIENTS if tolerance is not None else torch.inf  # fixed steps end by themselves
        budget = torch.as_tensor(default if max_gradients is None else max_gradients)
        plan = Plan(
            bound, metric or Conformal(), rule, weighting, tolerance, n_steps, budget.cpu().double().expand(len(path)),
            run.max_gradients, "length" if only_length else measure, length_tolerance, rival, run.clock,
        )  # fmt: skip
        return _integrated(plan, path, known, run)


def _integrated(plan: Plan, path: Path, known: KnownSegments | None, run: Run) -> Integral:
    """All examples, in blocks that limit memory.

    After an interruption during refinement, later blocks get a first look only. After one during a first look, the rest
    is unknown; if nothing is finished, the interruption goes to the caller.
    """
    bound = plan.score
    elements = max(bound.batch_size, BLOCK_ELEMENTS // bound.n_features)
    mean_segments = max(1.0, len(path.route) / len(path) - 1)
    per_block = max(1, int(elements / max(PIECES_EXPECTED, mean_segments)))
    parts: list[Integral] = []
    interrupted = False
    with run.bar("integrating", len(path)) as bar:
        for examples in torch.arange(len(path)).split(per_block):
            part = len(examples) / (len(path) - int(examples[0]))  # of the time that is left
            try:
                timed = replace(plan, clock=plan.clock.part(part))
                block = Block.make(timed, path.select(examples), examples)
                if plan.tolerance is None:
                    integral = at_fixed_steps(block)
                    bar.advance(len(examples))
                else:
                    integral, interrupted = refined(block, known, bar, interrupted)
            except KeyboardInterrupt:
                if not parts:
                    raise
                parts.append(unknown_integral(bound, len(path) - int(examples[0])))
                break
            parts.append(integral)
    return joined_integrals(parts)


def check_settings(
    tolerance: float | None,
    n_steps: int | None,
    rule: str,
    weighting: Weighting | None = None,
    max_gradients: int | Tensor | None = None,
) -> None:
    """Raise on settings that cannot be integrated, before any gradient is spent."""
    check_rule(rule)
    check_integer("n_steps", n_steps, 1, or_none=", or None")
    if not isinstance(max_gradients, Tensor):
        check_integer("max_gradients", max_gradients, 1, or_none=", or None")
    asked: object = tolerance
    if tolerance is None and n_steps is None:
        raise ValueError("tolerance=None means fixed steps, but n_steps is None: pass n_steps=50, or tolerance=0.01")
    if tolerance is None:
        most = None if isinstance(max_gradients, Tensor) else max_gradients
        if n_steps is not None and most is not None and n_steps > most:
            raise ValueError(f"n_steps={n_steps} do not fit in max_gradients={most}: lower the one or raise the other")
        return
    if not isinstance(asked, numbers.Real):
        raise ValueError(f"tolerance={shown(asked)} must be a number between 0 and 1, or None for exactly n_steps")
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance={tolerance} must lie between 0 and 1, or be None for exactly n_steps")
    if weighting is not None and not weighting.complete:
        name = type(weighting).__name__
        raise ValueError(f"{name} is not complete, so its error cannot be controlled: pass tolerance=None, n_steps=50")
