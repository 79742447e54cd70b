"""The only integral: gradients along a path, with error control.

On each straight segment, its *residual* (sum of attributions minus change of score) is known exactly. But a zero
residual proves little: a symmetric bump does not show in it, and errors of two features cancel in it. So a piece counts
as known only if its attributions and its length also stay the same when it is cut in two *unequal* parts. The pieces
that change most are cut again, until every example has reached its tolerance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from leastpath._support.checks import check_setting
from leastpath.account.budget import Limits
from leastpath.account.run import Run
from leastpath.geometry.metric import Conformal, Metric
from leastpath.geometry.path import Path
from leastpath.integral.accuracy import Accuracy
from leastpath.integral.block import Block, Plan
from leastpath.integral.fixed_steps import integrate_at_fixed_steps
from leastpath.integral.pieces import KnownSegments
from leastpath.integral.refinement import refine
from leastpath.integral.result import Integral, join_integrals, unknown_integral
from leastpath.integral.weightings import PathIntegral, Weighting
from leastpath.score.bound import BoundScore
from leastpath.score.score import Score
from leastpath.score.untouched import leave_untouched

DEFAULT_MAX_GRADIENTS = 10_000  # per example, if the user gives no budget: every call comes to an end
BLOCK_ELEMENTS = 2**26  # numbers held at once while refining
PIECES_EXPECTED = 24  # of an example, for sizing blocks


def integrate(
    score: Score | BoundScore,
    path: Path,
    metric: Metric | None = None,
    *,
    accuracy: Accuracy | None = None,
    weighting: Weighting | None = None,
    max_gradients: int | Tensor | None = None,
    known: KnownSegments | None = None,
    rival: Tensor | None = None,
    run: Run | None = None,
    **words: Any,
) -> Integral:
    """Integrate the score's gradient along a path.

    Args:
        score: what is explained. A plain `Score` takes row b's target for the path of example b.
        path: one polyline per example.
        metric: what `length` is measured in (Conformal by default).
        accuracy: how exactly, `lp.Accuracy`; its fields may be given as keywords, `tolerance=0.001`. An example is done
            when |gap| ≤ tolerance · max(|Δf|, 1 % of the score's range along the path) + 64 · eps · max|f|, and when
            cutting its pieces again changes attributions and length by less than this share of Σ|attributions| and of
            the length. Up to four features a change is Σ|difference|, above it is twice the Euclidean norm. With
            `tolerance=None` exactly `n_steps` gradients are spread over the segments of a path by length.
        weighting: what a gradient adds to the attributions; weightings that are not complete need `tolerance=None`.
        max_gradients: per example, one number for all or (batch,). None: 10,000, or what fixed steps take. A path of
            more segments than that still takes one gradient per segment.
        known: segments that a solver has measured already; they are only verified.
        rival: (batch,) lengths that these are only compared with. Then 10 % is enough, or less where the two are
            close: never so little that it could change which one is longer.
        run: seed, time and progress display.
        words: fields of `accuracy`.

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
    accuracy = replace(accuracy or Accuracy(), **words)
    if not isinstance(max_gradients, Tensor):
        Limits(max_gradients)
    accuracy.check_with(weighting, max_gradients)
    with leave_untouched(score.model if isinstance(score, Score) else score.score.model, path.points):
        bound = score if isinstance(score, BoundScore) else score.bind(path.end)
        if len(path) != bound.batch:
            raise ValueError(f"a path of {len(path)} examples for a score over {bound.batch}: they must match")
        # Fixed steps end by themselves.
        default = DEFAULT_MAX_GRADIENTS if accuracy.tolerance is not None else torch.inf
        budget = torch.as_tensor(default if max_gradients is None else max_gradients).cpu().double().expand(len(path))
        plan = Plan(bound, metric or Conformal(), weighting, accuracy, budget, run, rival)
        return _integrate_blocks(plan, path, known)


def _integrate_blocks(plan: Plan, path: Path, known: KnownSegments | None) -> Integral:
    """All examples, in blocks that limit memory.

    After an interruption during refinement, later blocks are measured only once. After one during that first
    measurement, the rest is unknown; if nothing is finished, the interruption goes to the caller.
    """
    bound = plan.score
    elements = max(bound.batch_size, BLOCK_ELEMENTS // bound.n_features)
    mean_segments = max(1.0, len(path.route) / len(path) - 1)
    per_block = max(1, int(elements / max(PIECES_EXPECTED, mean_segments)))
    parts: list[Integral] = []
    interrupted = False
    with plan.run.bar("integrating", len(path)) as bar:
        for examples in torch.arange(len(path)).split(per_block):
            part = len(examples) / (len(path) - int(examples[0]))  # of the time that is left
            try:
                timed = replace(plan, run=replace(plan.run, clock=plan.run.clock.part(part)))
                block = Block.make(timed, path.select(examples), examples)
                if plan.accuracy.tolerance is None:
                    integral = integrate_at_fixed_steps(block)
                    bar.advance(len(examples))
                else:
                    integral, interrupted = refine(block, known, bar, interrupted)
            except KeyboardInterrupt:
                if not parts:
                    raise
                parts.append(unknown_integral(bound, len(path) - int(examples[0])))
                break
            parts.append(integral)
    return join_integrals(parts)
