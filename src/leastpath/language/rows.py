"""Rows: methods whose model calls serve every token of an answer at once, leaving words out or letting them enter.

The score is the sum of the model's columns, one for each token of the answer. A forward gives them all, so that what
each feature does to each token costs no more than what it does to their sum: `result.stats["rows"]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from leastpath._support.checks import check_integer
from leastpath.features.groups import Groups
from leastpath.geometry.path import Path
from leastpath.methods.method import Explained, Problem, method
from leastpath.methods.shapley import RowGroups
from leastpath.score.score import BoundScore


@method("Leave one out", "How the score falls without each word, all others as they are.", fits=("tokens",))
def leave_one_out(
    problem: Problem, *, groups: Groups = None, log_p: Tensor | None = None, n_answer: int | None = None
) -> Explained:
    """Leave one out: the fall of the score where a group of tokens is replaced by the baseline's.

    What does not differ from its baseline costs nothing. The fall is shared evenly by a group's tokens.

    Args:
        groups: what is left out together, one after another. None: tokens.
        log_p: (length,) of each token after those before it. A group's fall is multiplied by its surprise, the
            probability that something else would stand there: what the words before it have said already counts little.
        n_answer: of one example: so many columns are those of the answer, all others of its contrast. What surprise
            leaves of a fall is divided by 1 + the nats that both lose on average, also over baselines: what every next
            word needs, grammar, is not what a contrast asks for. The value is the mean of the fall itself, which stands
            removal best, and of this, which finds the cause most often, both of one size.
    """
    rows, counts = [], []
    lost, surprise = (torch.full(problem.end.shape[:2], x, dtype=torch.float64) for x in (0, 1))  # (rows, length)
    for row, places in enumerate(_moving_groups(problem, groups)):
        start, end = problem.start[row], problem.end[row]
        points = torch.stack([end, *(torch.where(_here(place, end), start, end) for place in places)])
        outputs = problem.bound.outputs(points, torch.full((len(points),), row)).cpu()  # (groups + 1, columns)
        falls = outputs[0] - outputs[1:]
        for place, fall in zip(places, falls.double(), strict=True):
            if n_answer is not None:
                lost[row, place] = (fall[:n_answer].sum() - fall[n_answer:].sum()) / 2  # a contrast's sign is turned
            if log_p is not None:
                surprise[row, place] = -log_p[place].double().sum().expm1().cpu()
        rows.append(_spread(falls, places, len(end)))
        counts.append(len(places))
        problem.bar.advance()
    how = "each of {} groups of tokens left out once" + ", by surprise" * (log_p is not None)
    how += ", and over what both answers lose" * (n_answer is not None)
    weights = surprise / (1 + lost.mean(0).clamp_min(0))
    weighted = [row * weight for row, weight in zip(rows, weights, strict=True)]
    if n_answer is not None and rows:
        sizes = [torch.stack(each).mean(0).sum(0).abs().sum() for each in (rows, weighted)]
        share = sizes[0] / sizes[1].clamp_min(torch.finfo(torch.float64).tiny)
        weighted = [(one + share * other) / 2 for one, other in zip(rows, weighted, strict=True)]
    return _explained(problem, weighted, [how.format(n) for n in counts])


@method("Token staircases", "One word after another enters and gets what is gained.", complete=True, fits=("tokens",))
def token_staircase(problem: Problem, *, n_orders: int = 1, groups: Groups = None) -> Explained:
    """Staircases of tokens: the mean over orders in which groups of tokens enter, each with its reverse.

    Every order adds up to the change of score: sampled Shapley values. Each baseline has orders of its own.

    Args:
        n_orders: per baseline, each with its reverse.
        groups: what enters together. None: tokens.
    """
    check_integer("token_staircase: n_orders", n_orders, 1)
    generator = torch.Generator().manual_seed(problem.seed)
    rows, counts = [], []
    for row, places in enumerate(_moving_groups(problem, groups)):
        total = torch.zeros(())
        for _ in range(n_orders):
            order = torch.randperm(len(places), generator=generator)
            total = total + sum(_climb(problem, row, places, each) for each in (order, order.flip(0))) / (2 * n_orders)
        rows.append(_spread(total, places, len(problem.end[row])))
        counts.append(len(places))
        problem.bar.advance()
    return _explained(problem, rows, [f"{2 * n_orders} orders of {n} groups of tokens" for n in counts])


def _climb(problem: Problem, row: int, places: Sequence[Tensor], order: Tensor) -> Tensor:
    """What each group adds when groups enter in an order: (groups, columns), in the groups' own order."""
    start, end = problem.start[row], problem.end[row]
    points, here = [start], torch.zeros(len(end), dtype=torch.bool)
    for group in order.tolist():
        here = here | _here(places[group], end)[:, 0].cpu()
        points.append(torch.where(here[:, None].to(end.device), end, start))
    gained = problem.bound.outputs(torch.stack(points), torch.full((len(points),), row)).cpu().diff(dim=0)
    return torch.empty_like(gained).index_copy_(0, order, gained)


def _moving_groups(problem: Problem, groups: Groups) -> Iterator[list[Tensor]]:
    """For each row the positions of the groups of tokens that differ from their baseline."""
    members = RowGroups.of(problem, groups).members[..., 0]  # (rows, length)
    moves = (problem.end != problem.start).any(-1).cpu()
    for own, moving in zip(members, moves, strict=True):
        each = [(own == k).nonzero()[:, 0] for k in range(int(own.max()) + 1)]
        yield [places for places in each if bool(moving[places].any())]


def _here(places: Tensor, like: Tensor) -> Tensor:
    """(length, 1) bool, true at some positions."""
    mask = torch.zeros(len(like), 1, dtype=torch.bool, device=like.device)
    mask[places.to(like.device)] = True
    return mask


def _spread(of_groups: Tensor, places: Sequence[Tensor], length: int) -> Tensor:
    """(groups, columns) shared evenly by the tokens of each group: (columns, length)."""
    rows = torch.zeros(of_groups.shape[1] if of_groups.ndim > 1 else 0, length, dtype=torch.float64)
    for numbers, own in zip(of_groups.double(), places, strict=True):
        rows[:, own] = (numbers / len(own))[:, None]
    return rows


def _explained(problem: Problem, rows: list[Tensor], told: list[str]) -> Explained:
    """Values (rows, length, width) as the sum over columns, and the columns by themselves for the result."""
    columns, width = torch.stack(rows), problem.bound.shape[-1]  # (rows, columns, length)
    values = (columns.sum(1)[..., None] / width).expand(-1, -1, width).to(problem.end)
    return Explained(values, {"rows": problem.mean(columns)}, told)


def rows_along(bound: BoundScore, path: Path, rows: Sequence[int], n_steps: int) -> Tensor:
    """What each token of the answer gets along the paths of some rows, by the midpoint rule: (columns, length), mean.

    One forward serves all columns; each has a backward of its own through it.
    """
    found = []
    for row in rows:
        knots = path[row].to(bound.device, bound.work_dtype)  # (knots, length, width)
        steps = knots.diff(dim=0)
        each = max(1, round(n_steps / len(steps)))
        at = (torch.arange(each, dtype=knots.dtype, device=knots.device) + 0.5) / each
        points = (knots[:-1, None] + at[:, None, None] * steps[:, None]).flatten(0, 1)
        moved = (steps / each).repeat_interleave(each, 0)
        found.append(_integrate_columns(bound, points, moved, row))
    return torch.stack(found).mean(0)


def _integrate_columns(bound: BoundScore, points: Tensor, moved: Tensor, row: int) -> Tensor:
    total: Tensor | None = None
    for some in torch.arange(len(points)).split(bound.batch_size):
        owners = torch.full((len(some),), row)
        bound.count_gradients(owners)
        with torch.inference_mode(False), torch.enable_grad():
            leaf = points[some].to(bound.dtype).detach().requires_grad_()
            columns = bound.whole_output(leaf, owners).sum(0)  # (columns,)
            each = [torch.autograd.grad(one, leaf, retain_graph=True)[0] for one in columns]
        gained = torch.stack([(one * moved[some]).sum((0, 2)).double().cpu() for one in each])
        total = gained if total is None else total + gained
    assert total is not None
    return total
