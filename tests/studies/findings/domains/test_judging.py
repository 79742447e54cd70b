"""How explanations are judged. Oracles: closed forms, and the library's own measure."""

import pytest
import torch
from torch import nn

import leastpath as lp
from helpers import flat_points, mlp
from leastpath.evaluation.masking import Comprehensiveness, Masking
from leastpath.evaluation.measure import given_attribution
from studies.findings.domains.judging import permutation_importances, rank_agreement, removal, share_of


def test_removal_of_a_class_is_comprehensiveness():
    """Oracle: the library's measure."""
    score, inputs = lp.Score(mlp(6), torch.tensor([0, 2, 1]), "log_softmax"), flat_points(3, 6)
    start = torch.zeros_like(inputs)
    result = lp.attribute(score, inputs, start, method=lp.StraightLine())
    masking = Masking(normalize=True)
    expected = Comprehensiveness(masking)(score, inputs, start, result).values
    torch.testing.assert_close(removal(masking, score, inputs, start, result), expected)


def test_removal_of_a_number_counts_falls_and_rises():
    """Closed form: a linear score loses the terms that are masked, largest first, whatever their sign."""
    weights, inputs = torch.tensor([4.0, -2.0, 1.0, 0.5]), torch.tensor([[1.0, 1.0, 1.0, 1.0], [-1.0, 1.0, -1.0, 1.0]])
    score, start = lp.Score(lambda x: x @ weights), torch.zeros(2, 4)
    masking = Masking((0.25, 0.5, 0.75), normalize=True)
    found = removal(masking, score, inputs, start, given_attribution(weights * inputs))
    changes = (weights * inputs).cumsum(1)[:, :3].abs()  # 4, 2, 3 and 4, 6, 7
    torch.testing.assert_close(found, ((changes[:, :2] + changes[:, 1:]) / 2).mean(1).double())


def test_importance_of_permutations():
    """Closed form: shuffling x in (y − wx)² costs w² E(x − x′)², twice the variance; what is ignored costs nothing."""
    net = nn.Linear(3, 1).eval()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[2.0, 0.0, -1.0]]))
    inputs = flat_points(4000, 3)
    found = permutation_importances(net, inputs, net(inputs).detach())
    expected = 2 * net.weight[0].detach() ** 2 * inputs.var(0)
    torch.testing.assert_close(found.float(), expected, rtol=0.05, atol=1e-5)


def test_importance_takes_images_and_classes():
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[0.0, 0.0, 5.0, 0.0], [0.0, 0.0, -5.0, 0.0]]))
    images = flat_points(60, 4).view(60, 1, 2, 2)
    found = permutation_importances(net, images, net(images).argmax(1))
    assert int(found.argmax()) == 2 and (found[[0, 1, 3]] == 0).all()


def test_rank_agreement():
    """Closed form 1 − 6 Σd² / (n³ − n) of ranks without ties: d² = 1, 1, 0."""
    assert rank_agreement(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0.3, 0.2, 0.1])) == pytest.approx(0.5)
    assert rank_agreement(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([9.0, 7.0, 8.0])) == 1
    assert rank_agreement(torch.ones(3), torch.tensor([9.0, 7.0, 8.0])) is None


def test_the_straight_line_gives_nothing_to_what_rests():
    """Closed form: A = (x − x̄) · mean gradient."""
    inputs = flat_points(4, 6)
    inputs[:, ::2] = 0
    result = lp.attribute(lp.Score(mlp(6), 1, "log_softmax"), inputs, method=lp.StraightLine())
    assert (share_of(result.values, inputs == 0) == 0).all()
    assert (share_of(result.values, inputs != 0) == 1).all()
