"""Fidelity after fine-tuning: features are removed from a model that has learnt to do without some of them.

An ordinary model never saw inputs with features removed, so it may fail on them for that reason alone. F-Fidelity
(Zheng et al. 2025) tunes a copy of the model on inputs with a random part removed, and never removes more than that.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from leastpath._support.checks import Count, Share, check_kind, check_setting, seed_of
from leastpath._support.rows import per_row
from leastpath.account.run import Run
from leastpath.evaluation.measure import OF_INPUTS, Measured, NamedMeasure, generators, read_attributions
from leastpath.evaluation.support import prepare_fill
from leastpath.features.groups import Groups, Kind, check_groups, label_groups
from leastpath.removal.curves import (
    FILLS,
    Fill,
    Order,
    Probability,
    Rank,
    fill_rows,
    find_filler,
    judged_score,
    level_of,
    removal_scores,
    round_counts,
)
from leastpath.result.attribution import Attribution
from leastpath.score.calls import Baselines, Inputs, leave_untouched, warn_of_training_mode
from leastpath.score.score import Score

Batches = Iterable[tuple[Tensor, Tensor]]


def fine_tune(
    model: nn.Module,
    data: tuple[Tensor, Tensor] | Batches,
    *,
    most: float = 0.1,
    groups: Groups = None,
    fill: Fill = "mean",
    epochs: int = 5,
    learning_rate: float = 1e-3,
    batch_size: int = 32,
    seed: int = 0,
    progress: bool = False,
) -> nn.Module:
    """A copy of the model, trained on with a random part of every input removed: a judge for `FineTunedFidelity`.

    Each time an input is seen, a share between 0 and `most` of its features is removed, chosen at random. The model
    itself is not changed. Ctrl-C ends the training.

    Args:
        model: (batch, *features) -> logits (batch, classes), or numbers (batch,) for a regression.
        data: inputs (n, *features) and labels (n,), or batches of both, as a `DataLoader` gives. Whole numbers are
            classes (cross-entropy); other numbers are what a regression should give (squared error).
        most: the largest share of features that is removed.
        groups: what is removed together, as in `symmetric_relevance_gain`.
        fill: what replaces removed features. "baseline" is not possible here: pass the baseline's number.
        epochs, learning_rate, batch_size: of the training, by Adam. Batches of a loader stay as they are.
        seed: of what is removed, and of the order of a tensor's inputs.
        progress: show a progress bar.

    Example:
        >>> x = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
        >>> net = nn.Linear(4, 2)
        >>> judge = fine_tune(net, (x, (x[:, 0] > 0.5).long()), epochs=2)
        >>> torch.equal(judge.weight, net.weight), judge.training
        (False, False)
    """
    check_setting("most", most, Share)
    check_setting("epochs", epochs, Count)
    check_kind("model", model, nn.Module, "a torch.nn.Module, whose weights can be trained")
    if find_filler(fill)[1] is FILLS["baseline"]:
        raise ValueError('fill="baseline" has no baseline while a model is trained: pass its number, as in fill=0.0')
    seed, judge = seed_of(seed), copy.deepcopy(model).requires_grad_(True)
    training = [part for part in judge.parameters() if part.is_floating_point()]
    optimizer = torch.optim.Adam(training, lr=learning_rate)
    with torch.random.fork_rng(), torch.enable_grad(), Run(seed, None, progress).bar("fine-tuning", epochs) as bar:
        torch.manual_seed(seed)  # dropout
        judge.train()
        try:
            for epoch in range(epochs):
                for inputs, labels in _batches(data, batch_size, seed + epoch):
                    removed = _remove_at_random(inputs, most, groups, fill, seed + epoch)
                    loss = _loss(judge(removed), labels)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                bar.advance(note=f"loss {float(loss.detach()):.3g}")
        except KeyboardInterrupt:
            warnings.warn(f"interrupted: the judge has learnt for {epoch} epochs", RuntimeWarning, stacklevel=2)
    return judge.requires_grad_(False).eval()


@dataclass(frozen=True, eq=False)
class FineTunedFidelity(NamedMeasure):
    """What a fine-tuned judge loses without some top features, less what it loses without others. Higher is better.

    F-Fidelity (Zheng et al. 2025), judged by a model that `fine_tune` made.

    For each size s, the top features are the share s of all features that the explanation ranks highest. A random part
    of them is removed, then a random part of the others: `share` of the group, but never more than `most` of all
    features. The value is the mean over sizes of [level without some of the others − level without some of the top
    ones]. The level is the probability of the class, or the score where there is none. The curves have both losses.

    Args:
        judge: the fine-tuned model, which sees the same inputs as the explained one.
        most: what it was tuned with.
        sizes: shares of the features that count as top ones.
        share: of each group that is removed at most.
        n_samples: random removals for each size and group.
        groups, fill, rank, probability: as in `symmetric_relevance_gain`; groups and fill as in `fine_tune`.

    Example:
        >>> import leastpath as lp
        >>> net = nn.Linear(4, 2).eval()
        >>> score, inputs = lp.Score(net, 0), torch.rand(3, 4)
        >>> result = lp.attribute(score, inputs, method=lp.StraightLine())
        >>> FineTunedFidelity(net, most=0.5)(score, inputs, None, result).values.shape
        torch.Size([3])
    """

    fits: ClassVar[tuple[Kind, ...]] = OF_INPUTS
    axis: ClassVar[str] = "share of the features that may be masked"
    judge: nn.Module
    most: Share = 0.1
    sizes: tuple[float, ...] = (0.1, 0.3, 0.5)
    share: Share = 0.5
    n_samples: Count = 10
    groups: Groups = None
    fill: Fill | Tensor = "mean"
    rank: Rank = "magnitude"
    probability: Probability = "auto"
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        check_groups(self.groups)
        super().__post_init__()
        if not self.sizes or any(not 0 < size < 1 for size in self.sizes):
            raise ValueError(f"sizes={self.sizes} must lie between 0 and 1, as in sizes=(0.1, 0.3)")

    def __call__(
        self, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution, *, seed: int = 0
    ) -> Measured:
        """Values (batch,)."""
        if score.layer is not None:
            raise ValueError(f"{self.name} removes features of the inputs: explain the inputs, without layer=")
        warn_of_training_mode(self.judge)
        judged, scale = judged_score(replace(score, model=self.judge), self.probability)
        with leave_untouched(self.judge, inputs):
            bound, drawn_by = judged.bind(inputs), generators(inputs, seed)
            values = read_attributions(bound, result)
            fills = [prepare_fill(self.fill, bound, inputs, baselines, seed)]
            order = Order.of(values, label_groups(self.groups, values), self.rank)
            clean = level_of(removal_scores(bound, order, order.first(), fills)[0, 0, 0], scale)
            losses = torch.zeros(2, bound.batch, len(self.sizes), dtype=torch.float64)
            for k, counts in enumerate(round_counts(self.sizes, order.sizes)):
                top = torch.minimum(counts, order.sizes - 1).clamp_min(1)  # (batch,)
                for side, (first, last) in enumerate(((torch.zeros_like(top), top), (top, order.sizes))):
                    scores = removal_scores(bound, *self._draw(order, first, last, drawn_by), fills)[:, 0, 0]
                    losses[side, :, k] = (clean - level_of(scores, scale)).mean(0)
        axis = torch.tensor(self.sizes, dtype=torch.float64)
        curves = {"x": axis, "top": losses[0], "others": losses[1]}
        return Measured.of((losses[0] - losses[1]).mean(1), curves, torch.as_tensor(bound.forwards_spent).long())

    def _draw(self, order: Order, first: Tensor, last: Tensor, drawn_by: list[torch.Generator]) -> tuple[Order, Tensor]:
        """Random orders that begin with the places from `first` to `last` (batch,), and how much of them is removed."""
        n, most = self.n_samples, int(order.sizes.max())
        draws = torch.stack([torch.stack([torch.rand(most, generator=g) for _ in range(n)]) for g in drawn_by], 1)
        draws = functional.pad(draws, (0, order.places.shape[2] - most))  # (samples, batch, places)
        place = order.places.long().cpu()
        inside = (place >= first[:, None]) & (place < last[:, None])
        limit = torch.minimum(self.share * (last - first), self.most * order.sizes)
        removed = torch.floor(limit + 1e-9).clamp_min(1).clamp_max(last - first).long()
        strengths = torch.where(inside, -draws.gather(2, place.expand_as(draws)), -2.0)
        return order.rank_anew(strengths), torch.stack([torch.zeros_like(removed), removed], -1)[None]


def _batches(data: tuple[Tensor, Tensor] | Batches, size: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    if isinstance(data, tuple) and len(data) == 2 and all(isinstance(part, Tensor) for part in data):
        inputs, labels = data
        if len(inputs) != len(labels):
            raise ValueError(f"data has {len(inputs)} inputs and {len(labels)} labels: expected one label per input")
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(seed))
        for rows in order.split(size):
            yield inputs[rows], labels[rows]
        return
    yield from data  # type: ignore[misc]


def _remove_at_random(inputs: Tensor, most: float, groups: Groups, fill: Fill, seed: int) -> Tensor:
    """The inputs (batch, *features), each with a share from 0 to `most` of its features filled."""
    drawn_by = generators(inputs, seed)
    order = Order.of(torch.zeros(inputs.shape), label_groups(groups, inputs), "magnitude")
    draws = torch.stack([torch.rand(order.places.shape[2] + 1, generator=g) for g in drawn_by])  # and one for the share
    counts = torch.floor(draws[:, 0] * (most * order.sizes + 1))
    everyone = torch.arange(len(inputs))
    places = order.rank_anew(-draws[None, :, 1:]).of_features(torch.zeros_like(everyone), everyone)
    masked = ((places >= 0) & (places < per_row(counts, places))).to(inputs.device)
    filling = find_filler(fill)[1].prepare(inputs, inputs, drawn_by)
    return torch.where(masked, fill_rows(filling, everyone, masked).to(inputs), inputs).detach()


def _loss(output: Tensor, labels: Tensor) -> Tensor:
    labels = labels.to(output.device)
    if not labels.is_floating_point() and output.ndim == 2 and output.shape[1] > 1:
        return functional.cross_entropy(output, labels.long())
    numbers = output.reshape(len(output), -1)[:, 0] if labels.ndim == 1 else output
    if not labels.is_floating_point():  # one logit, two classes
        return functional.binary_cross_entropy_with_logits(numbers, labels.to(numbers))
    return functional.mse_loss(numbers, labels.to(numbers))
