"""Curves: the scores of inputs that lack features, and support, the symmetric relevance gain that is read from them.

Everything that removes features in an order asks here. Nothing here knows how an explanation was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import Blurring, Range, Settings, as_points
from leastpath._support.rows import flat_rows, per_row
from leastpath.score.baselines import blur_images
from leastpath.score.calls import Output
from leastpath.score.score import BoundScore, Score

BANDED = 1e9  # products up to which a system is solved as a band, which takes a seventh of the time at 128 pixels
DIRECT, DIAGONAL = 1 / 6, 1 / 12  # ROAD (Rong et al. 2022): a pixel is the weighted mean of its neighbours


Filling = Tensor | Callable[[Tensor, Tensor], Tensor]
"""A fill made ready for a batch: (batch, *shape), whatever is masked, or a function of what `fill_rows` is asked."""


@runtime_checkable
class Filler(Protocol):
    """How masked features are filled. Settings only; `prepare` binds them to a batch."""

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """Points and baselines (batch, *shape), one random generator per example."""


Fill = str | float | Callable[[Tensor], Tensor] | Filler


@dataclass(frozen=True)
class MadeBy:
    """Values (batch, *shape) that a function makes of the points, the baselines and the generators."""

    function: Callable[[Tensor, Tensor, Sequence[torch.Generator]], Tensor]

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """See `Filler`."""
        values: Any = self.function(points, baselines, generators)
        if not isinstance(values, Tensor) or values.shape != points.shape:
            got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(f"the fill returned {got}, expected a tensor {tuple(points.shape)}: one fill per value")
        return values.detach().to(points)


def _noise(points: Tensor, _baselines: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    mean, deviation = _moments(points)
    return mean + deviation * _normal(points, generators)


@dataclass(frozen=True)
class Blur(Settings):
    """The image blurred by a Gaussian over its last two dimensions. The border is repeated outwards.

    Args:
        sigma: in pixels. None: a twentieth of the shorter side, at least one pixel.

    Example:
        >>> flat = torch.ones(1, 3, 8, 8)
        >>> Blur(sigma=1.0).prepare(flat, flat, [torch.Generator()]).shape
        torch.Size([1, 3, 8, 8])
    """

    sigma: Blurring | None = None

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """See `Filler`."""
        _check_image(points, "blur")
        return blur_images(points, max(1.0, min(points.shape[-2:]) / 20) if self.sigma is None else self.sigma)


@dataclass(frozen=True, repr=False)
class Samples:
    """Another input, drawn at random for each example from `pool` (n, *shape); never the example itself.

    Example:
        >>> points = torch.zeros(1, 2)
        >>> Samples(torch.ones(4, 2)).prepare(points, points, [torch.Generator()])
        tensor([[1., 1.]])
    """

    pool: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "pool", as_points("pool", self.pool))

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """See `Filler`."""
        if self.pool.shape[1:] != points.shape[1:]:
            expected = ("n", *points.shape[1:])
            raise ValueError(f"the pool of samples has shape {tuple(self.pool.shape)}, expected {expected}")
        pool = self.pool.to(points)
        return torch.stack([_draw_other(point, pool, g) for point, g in zip(points, generators, strict=True)])

    def __repr__(self) -> str:
        return f"Samples(pool={tuple(self.pool.shape)}, sum={float(self.pool.sum()):.9g})"


@dataclass(frozen=True)
class NoisyLinear(Settings):
    """Noisy linear imputation (ROAD): masked pixels solve "each is the weighted mean of its neighbours", plus noise.

    Direct neighbours weigh 1/6, diagonal ones 1/12; at the border the weights of those that exist are scaled up to one.
    The system is solved once per mask, for all channels that share it. Costs no model evaluation, but a sparse
    factorisation per mask: on large images it takes longer than the other fills.

    Args:
        noise: standard deviation of the noise, in the units of the input. ROAD's is 0.01.

    Example:
        >>> image = torch.arange(4.0).expand(1, 1, 4, 4)  # a ramp
        >>> masked = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
        >>> masked[..., 1:3, 1:3] = True
        >>> linear_imputation(image, masked)[0, 0, 1]
        tensor([0., 1., 2., 3.])
    """

    noise: Annotated[float, Range(least=0, hint="in the units of the input")] = 0.01

    def prepare(self, points: Tensor, baselines: Tensor, generators: Sequence[torch.Generator]) -> Filling:
        """See `Filler`."""
        _check_image(points, "linear")
        noise = self.noise * _normal(points, generators)

        def fill(examples: Tensor, masked: Tensor) -> Tensor:
            at = examples.to(points.device)
            return linear_imputation(points[at].expand_as(masked), masked) + noise[at]

        return fill


FILLS: Mapping[str, Filler] = MappingProxyType(
    {
        "baseline": MadeBy(lambda points, baselines, _: baselines),
        "mean": MadeBy(lambda points, baselines, _: _moments(points)[0].expand_as(points)),
        "blur": Blur(),
        "noise": MadeBy(_noise),
        "linear": NoisyLinear(),
    }
)


def find_filler(fill: Fill) -> tuple[str, Filler]:
    """The name of a fill and the object that makes it, from what the user wrote."""
    if isinstance(fill, str) and fill in FILLS:
        return fill, FILLS[fill]
    if fill == "samples":
        raise ValueError('fill="samples" needs other inputs to draw from: fill=Samples(inputs)')
    if isinstance(fill, Filler) and not isinstance(fill, type):
        return type(fill).__name__.lower(), fill
    if isinstance(fill, (int, float)) and not isinstance(fill, bool) and np.isfinite(fill):
        return f"{fill:g}", MadeBy(lambda points, *_: torch.full_like(points, fill))
    if callable(fill):
        return getattr(fill, "__name__", "callable"), MadeBy(lambda points, *_: fill(points))
    raise ValueError(f"fill={fill!r} is unknown: use one of {list(FILLS)}, Samples(inputs), a number or a callable")


def fill_rows(filling: Filling, examples: Tensor, masked: Tensor) -> Tensor:
    """What fills rows of `examples` (n,), or of one (1,), where `masked` (n, *shape) is true: (n or 1, *shape)."""
    if isinstance(filling, Tensor):
        return filling[examples.to(filling.device)]
    return filling(examples, masked)


def linear_imputation(images: Tensor, masked: Tensor) -> Tensor:
    """ROAD's imputation without its noise: images and bool masks (n, …, height, width) -> images with holes filled."""
    _check_image(images, "linear")
    height, width = images.shape[-2:]
    result = images.clone()
    pixels = result.view(len(images), -1, height * width)  # (n, channels, pixels)
    holes = masked.reshape(len(images), -1, height * width).cpu().numpy()
    for image, channels in zip(pixels, holes, strict=True):
        sharing: dict[bytes, list[int]] = {}  # channels with one mask share its solution
        for i, mask in enumerate(channels):
            sharing.setdefault(mask.tobytes(), []).append(i)
        for members in sharing.values():
            if (mask := channels[members[0]]).any():
                known = image[members].cpu().double().numpy()  # (members, pixels)
                image[members] = torch.as_tensor(_solve(known, mask, (height, width))).to(image)
    return result


def _solve(values: np.ndarray, mask: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """The channels `values` (channels, pixels) with the pixels of `mask` (pixels,) solved for."""
    if mask.all():  # there is no pixel left to start from
        return np.broadcast_to(values.mean(1, keepdims=True), values.shape).copy()
    weights = _neighbor_weights(shape)[mask]  # one equation per masked pixel
    known = np.ascontiguousarray(weights[:, ~mask] @ values[:, ~mask].T)
    result = values.copy()
    result[:, mask] = _solve_holes(weights.sum(1), weights[:, mask].tocoo(), known).T
    return result


def _solve_holes(diagonal: np.ndarray, among: Any, known: np.ndarray) -> np.ndarray:
    """(diag − among) x = known. The matrix is positive definite, and narrow where pixels are counted row by row."""
    from scipy.linalg import solveh_banded
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import splu

    below = among.row >= among.col
    distance = (among.row - among.col)[below]
    width = int(distance.max(initial=0))
    if len(diagonal) * width**2 < BANDED:
        band = np.zeros((width + 1, len(diagonal)))
        band[0], band[distance, among.col[below]] = diagonal, -among.data[below]
        return solveh_banded(band, known, lower=True, overwrite_ab=True, check_finite=False)
    # Large images: no pivoting is needed, which keeps the factors sparse.
    matrix = (diags_array(diagonal) - among).tocsc()
    factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return factors.solve(known)


@lru_cache(maxsize=4)
def _neighbor_weights(shape: tuple[int, int]) -> Any:
    """How much each pixel counts for each other, (pixels, pixels): direct neighbours twice as much as diagonal ones."""
    from scipy.sparse import diags_array, eye_array, kron

    height, width = shape
    down, right = (diags_array([1.0, 1.0], offsets=[-1, 1], shape=(n, n)) for n in shape)
    direct = kron(down, eye_array(width)) + kron(eye_array(height), right)
    return (DIRECT * direct + DIAGONAL * kron(down, right)).tocsr()


def _moments(points: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each example, per channel from three dimensions on; broadcastable to the points."""
    dims = tuple(range(2 if points.ndim > 3 else 1, points.ndim))
    if not dims:
        return points, torch.zeros_like(points)
    return points.mean(dims, keepdim=True), points.std(dims, keepdim=True, correction=0)


def _normal(points: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    return torch.stack([torch.randn(points.shape[1:], generator=g) for g in generators]).to(points)


def _draw_other(point: Tensor, pool: Tensor, generator: torch.Generator) -> Tensor:
    """A row of the pool that is not the point itself."""
    different = flat_rows(pool != point).any(1).nonzero()[:, 0]
    if not len(different):
        raise ValueError("the pool of samples holds nothing but the example itself: pass more inputs")
    return pool[different[int(torch.randint(len(different), (), generator=generator))]]


def _check_image(points: Tensor, name: str) -> None:
    if points.ndim < 3:
        got = f"got {tuple(points.shape)}"
        raise ValueError(f'fill="{name}" needs images, (batch, channels, height, width), {got}: use "mean"')


Rank = Literal["magnitude", "net", "signed"]
Scale = Literal["log_odds", "score"]
"""What removal is judged on: log-odds of a probability, or the score where there is none."""
Probability = Literal["auto", "softmax", "sigmoid", "given", "score"]
SHARES = tuple(k / 10 for k in range(1, 10))
"""10, 20, …, 90 % of the features."""


def group_strengths(values: Tensor, groups: Tensor | None, rank: Rank) -> Tensor:
    """How important each group of features is: (batch, groups), −inf for the numbers of groups that an example lacks.

    Args:
        values: (batch, *shape).
        groups: (1 or batch, *shape) the number of each feature's group, below 0 for none; None: single features.
        rank: "magnitude" takes Σ|A| over a group, "net" |ΣA|, "signed" ΣA.
    """
    flat = flat_rows(values.detach())
    each = flat.abs() if rank == "magnitude" else flat
    if groups is None:
        return each.abs() if rank == "net" else each
    index = flat_rows(groups.to(flat.device)).expand_as(flat)
    n = max(1, int(index.max()) + 1)
    # What is never removed is counted in one more group, which is then dropped.
    home = torch.where(index >= 0, index, n)
    sums = flat.new_zeros(len(flat), n + 1).scatter_add_(1, home, each)[:, :n]
    present = flat.new_zeros(len(flat), n + 1).scatter_(1, home, 1.0)[:, :n] > 0
    return torch.where(present, sums.abs() if rank == "net" else sums, -torch.inf)


def rank_groups(strengths: Tensor) -> Tensor:
    """The place of each group (…, groups) when the strongest comes first. Equals share the first of their places.

    Example:
        >>> rank_groups(torch.tensor([1.0, 5.0, 1.0, 0.0])).tolist()
        [1, 0, 1, 3]
    """
    weak = -strengths.contiguous()
    return torch.searchsorted(weak.sort(dim=-1).values, weak, out_int32=True)


def share_of_top(strengths: Tensor, count: int | Tensor) -> Tensor:
    """How much of each number (…, n) is among the `count` strongest of its row, in float64: equals share what is left.

    Example:
        >>> share_of_top(torch.tensor([3.0, 1.0, 1.0, 0.0]), 2)
        tensor([1.0000, 0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    weak = -strengths.contiguous()
    first, after = (torch.searchsorted(weak.sort(dim=-1).values, weak, right=right) for right in (False, True))
    return ((count - first).double() / (after - first)).clamp(0, 1)


def round_counts(shares: Sequence[float], sizes: Tensor) -> Tensor:
    """How many of `sizes` (batch,) things a share is: (shares, batch). Halves go up; above 0 it is at least one."""
    exact = torch.tensor(shares, dtype=torch.float64)[:, None] * sizes.cpu()
    # 1e-9: 0.35 × 10 is 3.5 and rounds up, though its product is a little less in binary.
    return torch.where(exact > 0, torch.floor(exact + 0.5 + 1e-9).clamp_min(1), 0).long()


@dataclass(frozen=True)
class Order:
    """In which order the groups of each example are removed; several draws are as many orders of the same examples.

    Example:
        >>> order = Order.of(torch.tensor([[1.0, -3.0, 2.0]]), None, "magnitude")
        >>> order.places.tolist(), order.first((0.5,)).tolist()
        ([[[2, 0, 1]]], [[[0, 2]]])
    """

    places: Tensor  #: (draws, batch, groups) whole numbers, 0 for what is removed first; those of equals are the same
    sizes: Tensor  #: (batch,) how many groups an example has, on the CPU
    ranks: Tensor  #: (batch,) False where an explanation is zero everywhere and so orders nothing, on the CPU
    is_signed: bool  #: first comes what raises the score, last what lowers it; else first what moves it either way
    shape: torch.Size  #: of the features
    groups: Tensor | None = None  #: (1 or batch, *shape) each feature's group, below 0: never removed; None: features
    has_equals: bool = False  #: some groups of an explanation have the same place

    @classmethod
    def of(cls, values: Tensor, groups: Tensor | None, rank: Rank) -> Order:
        """The order of an explanation (batch, *shape): the most important groups first. See `group_strengths`."""
        strengths = group_strengths(values, groups, rank)
        held = None if groups is None else groups.to(values.device)
        sizes, ranks = (strengths > -torch.inf).sum(1).cpu(), (flat_rows(values) != 0).any(1).cpu()
        places = rank_groups(strengths)
        ordered = places.sort(1).values.cpu()
        equals = bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] < sizes[:, None])).any())
        return cls(places[None], sizes, ranks, rank == "signed", values.shape[1:], held, equals)

    def rank_anew(self, strengths: Tensor) -> Order:
        """The same groups in other orders, the strongest first: strengths (draws, batch, groups)."""
        present = self.places[0].cpu() < self.sizes[:, None]
        strengths = torch.where(present.to(strengths.device), strengths, -torch.inf).to(self.places.device)
        order = strengths.argsort(dim=-1, descending=True, stable=True)  # what is drawn has no equals
        every = torch.arange(order.shape[-1], dtype=torch.int32, device=order.device).expand_as(order)
        return replace(self, places=torch.empty_like(every).scatter_(-1, order, every), has_equals=False)

    def between_equals(self, spans: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Spans (spans, batch, 2) that cut through equals, with all and without any of them, and the share that is due.

        No number tells equals apart, so what is lost with some of them is a share of what is lost with all.
        """
        # Where the equals of each place begin.
        begin = torch.cat(
            [self.places[0].long().cpu().sort(1).values, self.sizes[:, None]], 1
        )  # of each place's equals
        at = spans.clamp_min(0).transpose(0, 1).flatten(1)  # (batch, ends)
        low = begin.gather(1, at)
        high = torch.where(low == at, at, torch.searchsorted(begin, low, right=True))
        none, every, at = (part.unflatten(1, (-1, 2)).transpose(0, 1) for part in (low, high, at))
        share = ((at - none).double() / (every - none).clamp_min(1)).amax(-1)  # one end of a span is never inside
        return torch.where(spans < 0, spans, none), torch.where(spans < 0, spans, every), share

    def of_features(self, draws: Tensor, examples: Tensor) -> Tensor:
        """The places of features, of some draws (n,) and examples (n,): (n, *shape), −1 for what stays."""
        places = self.places[draws.to(self.places.device), examples.to(self.places.device)]
        if self.groups is not None:
            own = self.groups if len(self.groups) == 1 else self.groups[examples.to(self.groups.device)]
            index = flat_rows(own).expand(len(places), -1)
            places = torch.where(index >= 0, places.gather(1, index.clamp_min(0)), -1)
        return places.reshape(len(places), *self.shape)

    def first(self, shares: Sequence[float] = (0.0,)) -> Tensor:
        """Spans of places, from … up to, not including …: (shares, batch, 2). The most important shares of the groups.

        Without shares: nothing.
        """
        counts = round_counts(shares, self.sizes)
        return torch.stack([torch.zeros_like(counts), counts], -1)

    def last(self, shares: Sequence[float]) -> Tensor:
        """The least important shares of the groups, as spans."""
        return (self.sizes[:, None] - self.first(shares)).flip(-1)

    def all_but_first(self, shares: Sequence[float]) -> Tensor:
        """All but the most important shares of the groups, as spans."""
        counts = round_counts(shares, self.sizes)
        return torch.stack([counts, self.sizes.expand_as(counts)], -1)


LARGE = 4_096  # values of an input above which it is broadcast rather than gathered


def removal_scores(judged: BoundScore, order: Order, spans: Tensor, fills: Sequence[Filling]) -> Tensor:
    """The scores without some places of each order, by each fill: (draws, fills, spans, batch), float64 on the CPU.

    Equals are removed together: a span that cuts through them has a share of both scores, without any and without all.
    Removals that coincide (few features, many shares) are run once. What removes nothing is the input itself, which
    runs once whatever the order and the fill. Everything else is one stream of full batches.

    Args:
        judged: a score bound to the inputs, as a rule of `judged_score`.
        order: of what is removed: one of each example, or several draws.
        spans: (spans, batch, 2) the first place that is removed and the first that is not any more, as of
            `Order.first`; an empty span removes nothing, and one that starts below 0 is not asked for: NaN.
        fills: what stands in for removed features.

    Example:
        >>> import leastpath as lp
        >>> inputs, weights = torch.ones(1, 3), torch.tensor([1.0, 2.0, 4.0])
        >>> order = Order.of(weights[None], None, "magnitude")
        >>> bound = lp.Score(lambda x: x @ weights).bind(inputs)
        >>> removal_scores(bound, order, order.first((0.0, 0.33, 0.67)), [torch.zeros(1, 3)]).flatten()
        tensor([7., 3., 1.], dtype=torch.float64)
    """
    if order.has_equals:
        *both, share = order.between_equals(spans)
        none, every = removal_scores(judged, replace(order, has_equals=False), torch.cat(both), fills).chunk(2, 2)
        return torch.where(share > 0, torch.lerp(none, every, share.expand_as(none)), none)
    draws, batch, n = order.places.shape
    shape = (draws, len(fills), len(spans), batch)
    low, high = (np.broadcast_to(side, shape) for side in spans.numpy().transpose(2, 0, 1))
    draw, fill, _, example = np.indices(shape)
    fill, draw, low, high = (np.where(low < high, part, 0) for part in (fill, draw, low, high))
    sides, asked = (len(fills), draws, batch, n + 1, n + 1), low >= 0
    keys = np.ravel_multi_index([part[asked] for part in (fill, draw, example, low, high)], sides)
    distinct, where = np.unique(keys, return_inverse=True)
    rows = torch.as_tensor(np.stack(np.unravel_index(distinct, sides)))  # fill, draw, example, low, high
    points, found, at = judged.space.points(), [], 0
    while at < rows.shape[1]:  # the batch size may fall on the way
        some = rows[:, at : at + judged.batch_size]
        found.append(judged.values(_remove(points, order, fills, some), some[2]).cpu().double())
        at += some.shape[1]
    scores = torch.full(shape, torch.nan, dtype=torch.float64)
    scores[torch.as_tensor(asked)] = torch.cat(found)[torch.as_tensor(where)] if found else scores.new_zeros(0)
    return scores


def _remove(points: Tensor, order: Order, fills: Sequence[Filling], rows: Tensor) -> Tensor:
    """Inputs without features, one for each of `rows` (5, n): fill, draw, example, low, high.

    Large inputs are not gathered row by row: rows of one example are broadcast from it, which saves most of the time.
    """
    large = points[0].numel() >= LARGE
    parts, at = [], 0
    for n in rows[: 3 if large else 1].unique_consecutive(return_counts=True, dim=1)[1].tolist():
        fill, draw, example, low, high = rows[:, at : at + n]
        if large:
            draw, example = draw[:1], example[:1]
        places = order.of_features(draw, example).to(points.device)
        masked = (places >= per_row(low.to(places), points)) & (places < per_row(high.to(places), points))
        filled, own = fill_rows(fills[int(fill[0])], example, masked), points[example.to(points.device)]
        parts.append(torch.where(masked, filled.to(points), own))
        at += n
    return torch.cat(parts)


# ---- support -----------------------------------------------------------------------------------------------------


def measure_curves(
    judged: BoundScore,
    scale: Scale,
    order: Order,
    fills: Sequence[Filling],
    shares: Sequence[float] = SHARES,
    also: Sequence[Tensor] = (),
) -> tuple[Tensor, list[Tensor]]:
    """The symmetric relevance gain of orders, and the curves that show it. All in float64, on the CPU.

    The gain is the mean over shares of [level without the least important − level without the most important features].
    The level is the probability of the class, or the score where there is none; −|f − f(x)|, so that any change of the
    score counts, where features are ordered by size and there is no class. A random order has a gain of 0 in
    expectation, an explanation that is zero everywhere has exactly 0.
    At most two forwards per share and fill (four among equals), and one more where any change of a score counts.

    Args:
        judged: the score of `judged_score`, bound to the inputs.
        scale: what it returns, as `judged_score` says.
        order: one of each example, or several draws.
        fills: what stands in for features that are removed.
        shares: of the features, each above 0 and at most 1.
        also: further spans to run along, as of `Order.first`.

    Returns:
        The gain (draws, fills, batch), and curves of `level_of` (draws, fills, spans, batch): without the most
        important shares, without the least important ones, and for each of the further spans.

    Example:
        >>> score = Score(lambda x: torch.stack([x @ torch.tensor([4.0, 0.0]), torch.zeros(len(x))], 1), 0)
        >>> judged, scale = judged_score(score)
        >>> order = Order.of(torch.tensor([[4.0, 0.0]]), None, "signed")
        >>> measure_curves(judged.bind(torch.ones(1, 2)), scale, order, [torch.zeros(1, 2)], shares=[0.5])[0]
        tensor([[[0.4820]]], dtype=torch.float64)
    """
    by_size = scale == "score" and not order.is_signed
    spans = [order.first(shares), order.last(shares), *also] + [order.first()] * by_size
    scores = removal_scores(judged, order, torch.cat(spans), fills).split([len(span) for span in spans], 2)
    most, least = (-(s - scores[-1]).abs() if by_size else level_of(s, scale) for s in scores[:2])
    gain = torch.where(order.ranks, (least - most).mean(2), 0.0)
    return gain, [level_of(some, scale) for some in scores[: 2 + len(also)]]


def level_of(scores: Tensor, scale: Scale) -> Tensor:
    """What people read: the probability, or the score where there is none."""
    return scores.sigmoid() if scale == "log_odds" else scores


# ---- which score is judged ---------------------------------------------------------------------------------------


def judged_score(score: Score, probability: Probability = "auto") -> tuple[Score, Scale]:
    """The score that removal evaluates. Log-odds wherever there is a probability: all else follows from them, stably.

    "auto" is the sigmoid where the score is explained through one, the softmax where the target is a class index
    (of a single output, the sigmoid), and else the score itself.

    Example:
        >>> judged_score(Score(torch.nn.Linear(3, 2), 1, output="log_softmax"))[1]
        'log_odds'
    """
    indexed = score.target is not None and not callable(score.target)
    if probability == "auto":
        # A function as target makes of probabilities what it likes.
        through_sigmoid = score.output == "sigmoid" and not callable(score.target)
        probability = "sigmoid" if through_sigmoid else "softmax" if indexed else "score"
    if probability == "score":
        return score, "score"
    if probability == "softmax" and not indexed:
        raise ValueError('probability="softmax" needs a class: give the Score an index, or (batch,) indices, as target')
    outputs: dict[str, Output] = {"softmax": class_log_odds, "sigmoid": "raw", "given": _log_odds_of}
    return replace(score, output=outputs[probability]), "log_odds"


def class_log_odds(logits: Tensor) -> Tensor:
    """log p/(1 − p) of every class, p the softmax, or the sigmoid of a single output: (rows, classes) -> the same.

    Example:
        >>> class_log_odds(torch.tensor([[200.0, 0.0]]))  # where 1 − p has long been rounded to zero
        tensor([[ 200., -200.]])
    """
    if logits.ndim < 2 or logits.shape[1] == 1:
        return logits
    top = logits.argmax(1, keepdim=True)
    rest = logits.scatter(1, top, -torch.inf).logsumexp(1, keepdim=True)
    log_p = logits.log_softmax(1)
    # 1 − p of a class below the top is at least a half, so its logarithm is safe; the top's is taken over the rest.
    margins = log_p - torch.log1p(-log_p.exp().clamp_max(0.5))
    return margins.scatter(1, top, logits.gather(1, top) - rest)


def _log_odds_of(probabilities: Tensor) -> Tensor:
    if bool(((probabilities < 0) | (probabilities > 1)).any()):
        raise ValueError(
            f'probability="given" but the model returns values from {float(probabilities.min()):.3g} to '
            f'{float(probabilities.max()):.3g}: use "softmax" or "sigmoid"'
        )
    # A saturated softmax is rounded to 0 or 1, whose log-odds are infinite: the nearest number that is neither.
    limits = torch.finfo(probabilities.dtype)
    return probabilities.clamp(limits.tiny, 1 - limits.eps / 2).logit()
