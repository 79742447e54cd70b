"""Subjects: sums by feature, masks, grids; a layer as input is the same function, in any thread."""

import threading

import pytest
import torch
from torch import nn

import leastpath as lp
from explorer_subjects import picture_source, table_source
from leastpath.explorer.subject import LayerAsInput


def test_the_sums_of_a_column_are_those_of_its_numbers():
    subject = table_source().subject(0)
    numbers = torch.arange(4.0)[None]  # age, job_cook, job_nurse, job_pilot
    assert subject.by_feature(numbers).tolist() == [[0.0, 6.0]]


def test_a_pictures_patches_sum_to_the_whole():
    subject = picture_source().subject(0)
    values = torch.rand(1, *subject.shape)
    assert subject.grid == (12, 10)
    assert torch.allclose(subject.by_feature(values).sum(), values.sum())


def test_a_mask_has_the_shape_of_what_is_shown():
    subject = table_source().subject(0)
    assert subject.mask(torch.tensor([0, 1])).tolist() == [False, True, True, True]
    with pytest.raises(ValueError, match="expected"):
        subject.mask(torch.ones(3))


def test_a_layer_as_input_is_the_same_function():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2)).eval()
    ids = torch.tensor([[1, 2]])
    layered, plain = lp.Score(model, 1, layer=model[0]), LayerAsInput(model, model[0])
    start = torch.zeros(1, 2, 3)
    direct = lp.attribute(layered, ids, start, method=lp.StraightLine())
    again = lp.attribute(
        lp.Score(plain, 1, additional_forward_args=(ids,)), model[0](ids).detach(), start, method=lp.StraightLine()
    )
    assert torch.allclose(direct.values, again.values)


def test_threads_do_not_see_each_others_points():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(6, 2)).eval()
    plain, ids, wrong = LayerAsInput(model, model[0]), torch.tensor([[1, 2]]), []

    def ask(number: float) -> None:
        points = torch.full((1, 2, 3), number)
        expected = model[2](points.flatten(1))
        for _ in range(200):
            if not torch.allclose(plain(points, ids), expected):
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(float(i),)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
