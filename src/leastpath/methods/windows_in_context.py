"""Windows in context: pictures explained by what windows are worth, in the whole picture and in parts of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from leastpath._support.rows import flat_rows
from leastpath.features.groups import kind_of
from leastpath.methods.masks import score_masks
from leastpath.methods.method import Explained, Problem, method
from leastpath.methods.windows import place_windows, spread_over_windows, window_masks

Quality = Literal["fast", "default", "best"]
AT_ONCE = 8  # examples whose walks are held in memory together
PATCHES = 16  # per side, between which agreement is measured: what people point at
SMOOTHING = 6 / 128  # of the longer side: the deviation of the Gaussian that maps are smoothed with


@dataclass(frozen=True)
class Plan:
    """What a quality spends on each baseline; sides are shares of the picture's."""

    stride: int  # windows move by a window / stride
    grids: tuple[tuple[int, int], ...]  # of cells that enter one after another: per side, and orders with reverses
    window: int = 4  # windows have the picture's side / window

    def sides(self, shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of a window, and of its step."""
        size = tuple(math.ceil(side / self.window) for side in shape[1:])
        return (shape[0], *size), (shape[0], *(max(1, side // self.stride) for side in size))

    def n_steps(self, shape: Sequence[int]) -> int:
        """Forwards of all walks."""
        return sum(2 * n_orders * (math.prod(count_cells(shape, cells)) - 1) for cells, n_orders in self.grids)


def count_cells(shape: Sequence[int], cells: int) -> tuple[int, int]:
    """Cells down and across, nearly square, with so many along the longer side."""
    down, across = (max(1, round(cells * side / max(shape[1:]))) for side in shape[1:])
    return min(down, shape[1]), min(across, shape[2])


# Chosen on nine photographs of the development half of ImageNet (docs/methods.md).
PLANS: Mapping[Quality, Plan] = {
    "fast": Plan(stride=2, grids=((4, 1),)),
    "default": Plan(stride=4, grids=((8, 2), (4, 4))),
    "best": Plan(stride=8, grids=((8, 4), (4, 8))),
}


def _cost(shape: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, int]:
    plan = PLANS[settings["quality"]]
    lines = place_windows(torch.Size(shape), *plan.sides(shape))
    return 0, math.prod(map(len, lines)) + plan.n_steps(shape)


@method(
    "Windows in context", "What windows are worth in the whole picture and in parts of it, in the logit.",
    fits=("image",), cost=_cost,
)  # fmt: skip
def windows_in_context(problem: Problem, *, quality: Quality = "default") -> Explained:
    """Windows in context: a picture's map from windows that are hidden and from cells that enter one after another.

    Two kinds of steps, from each baseline. Windows of a quarter of the side slide over the whole picture and hide what
    is behind them. And along random walks from the baseline to the picture the cells of a grid enter one by one, each
    order also backwards, so that a cell is seen in all contexts; there is a fine grid and a coarse one. The maps of
    windows and grids are smoothed, scaled to the same Σ|values| and averaged. Values do not add up to the change of
    score; `completeness_gap` says by how much.

    - **In the logit**: a softmax is read as its logit, since most steps of a saturated probability are 0. Values and
      `score_change` are in that unit, and the status says so.
    - **Baselines**: those that are given. None: black (zero) and the picture's own mean colour.
    - **No bright border**: cells are those of a grid that is shifted and wraps around, so that all are of one size.
    - **How sure**: `path_spread` is the standard error of each value from the orders, and `stats["agreement"]` the
      rank correlation of 16 × 16 patches that another seed would have, estimated from two halves of the walks.
    - **Certificate**: the mean length of the walks, which is the total variation of the score along them, over
      |change of score|. 1: no step was taken back by another.

    Args:
        quality: "fast", "default" or "best": about 50, 300 and 1,000 gradients' worth with two baselines.

    Example:
        >>> import leastpath as lp
        >>> score = lp.Score(lambda x: x[:, 0, 2:6, 2:6].sum((1, 2)))
        >>> values = windows_in_context(score, torch.ones(1, 1, 16, 16), 0.0).values[0, 0]
        >>> bool(values[3, 3] > values[12, 12])
        True
    """
    if quality not in PLANS:
        raise ValueError(f"windows_in_context: quality={quality!r} is unknown: use one of {list(PLANS)}")
    shape = problem.bound.shape
    if kind_of(problem.bound) != "image":
        raise ValueError(
            f"windows_in_context needs images (batch, channels, height, width), got {(len(problem), *shape)}: "
            'use method="staircase", or "exact_shapley" for up to 10 features'
        )
    read, said = _read_in_logit(problem)
    blocks = [
        _explain_some(read, PLANS[quality], rows) for rows in torch.arange(len(problem) // problem.m).split(AT_ONCE)
    ]
    values, error, change, certificate, agreement = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    remarks = [f"{said}another seed would agree {float(rank):.2f} (rank correlation of patches)" for rank in agreement]
    per_row = [
        part.repeat_interleave(problem.m, 0).to(problem.end.device) for part in (values, error, change, certificate)
    ]
    return Explained(
        per_row[0], {"agreement": agreement, "quality": quality}, [r for r in remarks for _ in range(problem.m)],
        per_row[2], uses_all_baselines=True, path_spread=per_row[1], certificate=per_row[3],
    )  # fmt: skip


def _read_in_logit(problem: Problem) -> tuple[Problem, str]:
    """The problem with the logit in place of a softmax, and what to say of it. The account is the same."""
    score, bound = problem.score, problem.bound
    if not isinstance(score.output, str) or score.output == "raw":
        return problem, ""
    logit = replace(score, output="raw").bind(problem.inputs, problem.m)
    logit.gradients_spent, logit.forwards_spent = bound.gradients_spent, bound.forwards_spent
    # Whoever is asked for the change of score here is asked for the logit's.
    return replace(
        problem, score=replace(score, output="raw"), bound=logit
    ), f"read in the logit, not in its {score.output}; "


def _starts(problem: Problem, examples: Tensor) -> list[tuple[Problem, Tensor]]:
    """For each baseline the problem from it, and the rows of the examples."""
    m = problem.m
    if problem.baselines is not None:
        return [(problem, examples * m + j) for j in range(m)]
    mean = problem.end.mean((2, 3), keepdim=True).expand_as(problem.end)
    return [(problem, examples), (replace(problem, start=mean), examples)]


def _explain_some(problem: Problem, plan: Plan, examples: Tensor) -> tuple[Tensor, ...]:
    """Values and their errors (n, *shape), changes of score, certificates and agreements (n,) of some examples."""
    starts = _starts(problem, examples)
    found = [_explain_from(start, plan, rows, j, len(starts)) for j, (start, rows) in enumerate(starts)]
    windows, change, length = (
        torch.stack(parts).mean(0) for parts in zip(*((of[0], of[2], of[3]) for of in found), strict=True)
    )
    windows = smooth_maps(windows)
    # For each grid the smoothed maps of all walks: (n, baselines, walks, height, width).
    grids = [smooth_maps(torch.stack([of[1][g] for of in found], 1)) for g in range(len(plan.grids))]
    means = [walks.mean((1, 2)) for walks in grids]
    scales = [_sizes(means[0]) / _sizes(each).clamp_min(torch.finfo(each.dtype).tiny) for each in (windows, *means)]

    def join(*maps: Tensor) -> Tensor:
        return torch.stack([each * scale[:, None, None] for each, scale in zip(maps, scales, strict=True)]).mean(0)

    halves = [join(windows, *(walks[:, :, half::2].mean((1, 2)) for walks in grids)) for half in (0, 1)]
    errors = [_standard_error(walks, n_orders) for walks, (_, n_orders) in zip(grids, plan.grids, strict=True)]
    # Errors of independent maps add up in squares; windows have none.
    squares = torch.stack([error * scale[:, None, None] for error, scale in zip(errors, scales[1:], strict=True)]) ** 2
    error = squares.sum(0).sqrt() / len(scales)
    shape = problem.bound.shape
    values, error = ((each / shape[0])[:, None].expand(-1, *shape) for each in (join(windows, *means), error))
    floor = 64 * problem.bound.eps * change.abs().clamp_min(1)
    certificate = torch.where(change.abs() <= floor, torch.inf, (length / change.abs()).clamp_min(1))
    return values, error, change, certificate, estimate_agreement(*halves)


Found = tuple[Tensor, list[Tensor], Tensor, Tensor]


def _explain_from(problem: Problem, plan: Plan, rows: Tensor, at: int, n_starts: int) -> Found:
    """From one baseline: the windows' map, those of each grid's walks (n, walks, …), changes and lengths."""
    shape, bound, device = problem.bound.shape, problem.bound, problem.end.device
    inside = place_windows(shape, *plan.sides(shape))[1:]
    drawn = [draw_walks(shape, *grid, problem.seed, at * len(plan.grids) + g) for g, grid in enumerate(plan.grids)]
    n_windows, ranks = math.prod(map(len, inside)), torch.cat(drawn)
    cells = [int(walks.max()) + 1 for walks in drawn]
    counts = torch.tensor([k - 1 for k, walks in zip(cells, drawn, strict=True) for _ in walks])
    walk = torch.arange(len(ranks)).repeat_interleave(counts)
    step = torch.arange(len(walk)) - (counts.cumsum(0) - counts)[walk]

    def masks(copies: Tensor) -> Tensor:
        is_window, shown = copies < n_windows, torch.empty(len(copies), *shape[1:], dtype=torch.bool)
        shown[is_window] = ~window_masks(inside, copies[is_window])
        entering = copies[~is_window] - n_windows
        shown[~is_window] = ranks[walk[entering]] <= step[entering][:, None, None]
        return shown[:, None]

    first, last = (bound.values(ends[rows.to(device)], rows).cpu() for ends in (problem.start, problem.end))
    scores = score_masks(problem, rows, n_windows + len(walk), masks)
    problem.bar.advance(len(rows) * problem.m / n_starts - len(rows))  # which score_masks has advanced already
    windows = spread_over_windows(last[:, None] - scores[:, :n_windows], inside) / math.prod(plan.sides(shape)[0][1:])
    maps, lengths = [], []
    of_grids = scores[:, n_windows:].split([len(walks) * (k - 1) for k, walks in zip(cells, drawn, strict=True)], 1)
    for walks, k, steps in zip(drawn, cells, of_grids, strict=True):
        ends = [end[:, None, None].expand(-1, len(walks), 1) for end in (first, last)]
        gains = torch.cat([ends[0], steps.reshape(len(rows), len(walks), k - 1), ends[1]], 2).diff(dim=2)
        # All cells are of one area up to a pixel per side: their gains can be spread without a bright border.
        spread = gains.gather(2, walks.flatten(1).expand(len(rows), -1, -1)).unflatten(2, tuple(shape[1:]))
        maps.append(spread * k / math.prod(shape[1:]))
        lengths.append(gains.abs().sum(2))
    return windows, maps, last - first, torch.cat(lengths, 1).mean(1)


def draw_walks(shape: torch.Size, cells: int, n_orders: int, seed: int, draw: int) -> Tensor:
    """When each pixel enters, (2 orders, height, width): numbers from 0, one for each cell of a grid.

    The grid of each order is shifted at random and wraps around the border, so that no cell is cut. The reverse of an
    order follows all orders, n_orders later.
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + draw) % 2**63)
    down, across = count_cells(shape, cells)
    lines = [torch.arange(side) * count // side for side, count in zip(shape[1:], (down, across), strict=True)]
    grid = lines[0][:, None] * across + lines[1]
    entered = []
    for _ in range(n_orders):
        shifts = [int(torch.randint(0, side, (), generator=generator)) for side in shape[1:]]
        order = torch.randperm(down * across, generator=generator)
        entered.append(order[grid.roll(shifts, (0, 1))])
    forwards = torch.stack(entered)
    return torch.cat([forwards, down * across - 1 - forwards])


def smooth_maps(maps: Tensor) -> Tensor:
    """Maps (…, height, width) smoothed by a Gaussian that is mirrored at the border, so that totals stay.

    Example:
        >>> torch.round(smooth_maps(torch.eye(8)).sum())
        tensor(8.)
    """
    sigma = SMOOTHING * max(maps.shape[-2:])
    down, across = (_blur_matrix(side, sigma).to(maps) for side in maps.shape[-2:])
    return down @ maps @ across


def _blur_matrix(side: int, sigma: float) -> Tensor:
    """(side, side), symmetric, with rows that sum to one."""
    places = torch.arange(side, dtype=torch.float64)
    reach = 1 + int(8 * sigma / side)  # mirrors of mirrors, where the picture is smaller than the Gaussian
    images = [2 * side * k + flipped for k in range(-reach, reach + 1) for flipped in (places, -1 - places)]
    kernel = sum(torch.exp(-((places[:, None] - image) ** 2) / (2 * sigma**2)) for image in images)
    assert isinstance(kernel, Tensor)
    return kernel / kernel.sum(1, keepdim=True)


def _standard_error(walks: Tensor, n_orders: int) -> Tensor:
    """Of the mean over walks (n, baselines, 2 orders, …): between orders, or an order and its reverse if it is one."""
    drawn = (walks[:, :, :n_orders] + walks[:, :, n_orders:]) / 2 if n_orders > 1 else walks
    return (drawn.var(2).sum(1) / drawn.shape[2]).sqrt() / walks.shape[1]


def _sizes(maps: Tensor) -> Tensor:
    return flat_rows(maps).abs().sum(1)


def estimate_agreement(one: Tensor, other: Tensor) -> Tensor:
    """The rank correlation (n,) that a map of all walks has with that of another seed, from maps of half of them each.

    Halves have twice the variance, so a correlation of r between them is one of 2 r / (1 + r) between wholes.
    """
    patches = [flat_rows(torch.nn.functional.adaptive_avg_pool2d(each[:, None], PATCHES)) for each in (one, other)]
    ranks = [each.argsort(1).argsort(1).double() for each in patches]
    centred = [each - each.mean(1, keepdim=True) for each in ranks]
    r = (centred[0] * centred[1]).sum(1) / (centred[0].norm(dim=1) * centred[1].norm(dim=1)).clamp_min(1e-12)
    return 2 * r / (1 + r).clamp_min(1e-12)
