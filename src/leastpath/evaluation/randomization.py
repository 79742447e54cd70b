"""Model randomisation: an explanation of a model must change when the model's weights are drawn anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from leastpath._support.checks import Count, seed_of
from leastpath._support.rows import flat_rows
from leastpath.evaluation.ground_truth import rank_correlation
from leastpath.evaluation.measure import Again, ExplainingMeasure, Measured, read_attributions
from leastpath.result.attribution import Attribution
from leastpath.score.redrawn import NO_PARAMETERS, copy_to_draw, draw_layer, layers_of, move_score

Order = Literal["cascading", "independent"]


@dataclass(frozen=True)
class ModelRandomization(ExplainingMeasure):
    """How alike explanations stay when layers are drawn anew (Adebayo et al. 2018). Lower is better.

    Layers are drawn anew one after the other, from the output to the input, and the input is explained again each time.
    The value is the mean of Spearman's correlations with the first explanation. A method that ignores the model
    has 1. The curve is the correlation after each layer.

    A layer is a module with parameters of its own. It is drawn anew by its `reset_parameters`, as before training;
    where it has none, each of its parameters is shuffled.

    Args:
        order: "cascading": a layer stays random when the next one is drawn. "independent": one layer at a time.
        stages: how many times to explain: the layers are drawn in so many groups. None: after every layer.
        signed: compare the values, not their magnitudes.

    NaN where an explanation ranks nothing because all of it is equal.

    Example:
        >>> import leastpath as lp
        >>> score, inputs = lp.Score(nn.Linear(8, 2).eval(), 1), torch.rand(3, 8)
        >>> result = lp.attribute(score, inputs, method=lp.StraightLine())
        >>> found = ModelRandomization()(score, inputs, None, result, explain=lp.StraightLine())
        >>> bool((found.values < 0.99).all()), found.curves["correlation"].shape
        (True, torch.Size([3, 1]))
    """

    axis: ClassVar[str] = "groups of layers whose weights are drawn anew"
    order: Order = "cascading"
    stages: Count | None = None
    signed: bool = False
    higher_is_better: bool = False

    def _judge(self, again: Again, result: Attribution) -> Measured:
        bound, found = again.score.bind(again.inputs), []
        before = self._rows_to_compare(read_attributions(bound, result))
        for _, model in randomize(again.score.model, self.order, self.stages, again.seed):
            other = again(score=move_score(again.score, model))
            found.append(rank_correlation(before, self._rows_to_compare(read_attributions(bound, other))))
        curve = torch.stack(found, 1)  # (batch, stages)
        axis = torch.arange(1, curve.shape[1] + 1, dtype=torch.float64)
        return Measured.of(curve.mean(1), {"x": axis, "correlation": curve})

    def _rows_to_compare(self, attributions: Tensor) -> Tensor:
        flat = flat_rows(attributions)
        return flat if self.signed else flat.abs()


def randomize(
    model: Any, order: Order = "cascading", stages: int | None = None, seed: int = 0
) -> Iterator[tuple[str, nn.Module]]:
    """The model with more and more layers drawn anew, or with one group of them: (the last layer's name, the model).

    It is one copy, changed in place between two steps. The model itself and the global random state stay as they are.

    Example:
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> [name for name, _ in randomize(net)]
        ['2', '0']
    """
    changed, seed = copy_to_draw(model), seed_of(seed)
    layers = layers_of(changed)[::-1]
    if not layers:
        raise ValueError(NO_PARAMETERS.format(type(model).__name__))
    groups = [group for group in torch.arange(len(layers)).tensor_split(stages or len(layers)) if len(group)]
    for group in groups:
        if order == "independent":
            changed.load_state_dict(model.state_dict())
        for i in group.tolist():
            draw_layer(layers[i][1], seed + 1 + i)
        yield layers[int(group[-1])][0], changed
