"""How explanations are judged: by removal, and by the effect of single features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from leastpath.evaluation.masking import Masking
from leastpath.result.attribution import Attribution
from leastpath.score.score import Inputs, Score
from studies.findings.measuring import listed, rank_correlation

REPEATS = 5  # permutations of each feature


def loss_of(outputs: Tensor, targets: Tensor) -> Tensor:
    return mse_loss(outputs, targets) if targets.is_floating_point() else cross_entropy(outputs, targets)


def removal(masking: Masking, score: Score, inputs: Tensor, start: Tensor, result: Attribution) -> Tensor:
    """What masking the features that are ranked first does, averaged over the areas: (batch,), higher is better.

    The probability lost, which is `Comprehensiveness`. Where the score is no probability, a number of a regression may
    rise or fall, and it is the size of its change.

    Args:
        masking: with `normalize=True`, so that the value is a mean.
        score: what was explained.
        inputs: (batch, *features)
        start: (batch, *features), the baselines.
        result: of these inputs.

    Example:
        >>> from leastpath.evaluation.measure import given_attribution
        >>> score, inputs = Score(lambda x: x @ torch.tensor([-3.0, 1.0])), torch.ones(1, 2)
        >>> result = given_attribution(torch.tensor([[-3.0, 1.0]]))
        >>> removal(Masking((0.5, 1.0), normalize=True), score, inputs, torch.zeros(1, 2), result)  # 3, then 2
        tensor([2.5000], dtype=torch.float64)
    """
    found = masking.curves(score, inputs, start, result)
    clean, masked = found.probability()
    return found.summary((clean - masked).abs() if found.scale == "score" else clean - masked).values


def share_of(values: Inputs, where: Tensor) -> Tensor:
    """The share of Σ|values| on the features in `where`, both (batch, *features): (batch,).

    Example:
        >>> share_of(torch.tensor([[3.0, -1.0]]), torch.tensor([[False, True]]))
        tensor([0.2500])
    """
    assert isinstance(values, Tensor)
    sizes = values.abs()
    return (sizes * where).flatten(1).sum(1) / sizes.flatten(1).sum(1)


def rank_agreement(strengths: Tensor, effects: Tensor) -> float | None:
    """Spearman's correlation of two rankings of the same features, (features,) each; None where one ranks nothing.

    Example:
        >>> rank_agreement(torch.tensor([1.0, 2.0, 9.0]), torch.tensor([0.1, 0.2, 0.3]))
        1.0
    """
    return listed(torch.tensor([rank_correlation(strengths.tolist(), effects.tolist())]))[0]


def permutation_importances(net: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """How much the loss rises when a feature's values are shuffled among the inputs: (features,), of flat inputs.

    Args:
        net: (n, *features) -> (n, outputs).
        inputs: (n, *features)
        targets: (n,) classes, for the cross-entropy, or (n, 1) numbers, for the mean square.

    Example:
        >>> inputs = torch.arange(20.0).view(10, 2)
        >>> found = permutation_importances(nn.Linear(2, 1).eval(), inputs, torch.zeros(10, 1))
        >>> found.shape
        torch.Size([2])
    """
    from sklearn.inspection import permutation_importance

    found = permutation_importance(
        _Fitted(net, inputs.shape[1:]), inputs.flatten(1).numpy(), targets.numpy(), n_repeats=REPEATS, random_state=0
    )
    return torch.as_tensor(found.importances_mean)


class _Fitted:
    """A network as an estimator of scikit-learn, judged by its loss."""

    def __init__(self, net: nn.Module, shape: Sequence[int]) -> None:
        self.net, self.shape = net, shape

    def fit(self, inputs: np.ndarray, targets: np.ndarray) -> _Fitted:
        """Asked for and never called."""
        return self

    def score(self, inputs: np.ndarray, targets: np.ndarray) -> float:
        """The negative loss on inputs (n, features), flat."""
        with torch.no_grad():
            outputs = self.net(torch.as_tensor(inputs).view(-1, *self.shape))
            return -float(loss_of(outputs, torch.as_tensor(targets)))
