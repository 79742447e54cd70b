"""What is explained: pictures and rows, as tensors, with their baselines."""

import pandas as pd
import pytest
import torch
from torch import nn

from helpers import left_untouched, seeded
from leastpath.commands.case import image_case, table_case
from leastpath.commands.files import read_table
from leastpath.commands.model_files import load_model


def test_a_model_with_one_output_needs_no_target(folder):
    table = read_table(folder / "table.csv", ["name"])
    case = table_case(table, 0, nn.Linear(3, 1).eval(), baseline="zero")
    assert case.score.target is None and case.explained == "the model's output"
    with pytest.raises(ValueError, match="has one output, which needs no target"):
        table_case(table, 0, nn.Linear(3, 1).eval(), target=2)


@pytest.mark.filterwarnings("ignore:the model is in training mode")
def test_a_model_in_training_mode_is_left_as_it_was(folder):
    """Asking already runs the model: it reads the classes, tries a batch of two, and looks for a baseline."""
    table = read_table(folder / "table.csv", ["name"])
    net = seeded(lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 2))).train()
    net[1].weight.grad = torch.ones(4)
    with left_untouched(net), pytest.raises(ValueError, match=r"does not take rows .*more than 1 value per channel"):
        table_case(table, 0, net)
    dropping = seeded(lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2))).train()
    with left_untouched(dropping):
        case = table_case(table, 0, dropping, baseline="max_entropy")
    assert case.score.model.training  # so that explaining warns of it
    picture_net = seeded(
        lambda: nn.Sequential(nn.Conv2d(3, 4, 5), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(576, 5))
    ).train()
    with left_untouched(picture_net):
        image_case(folder / "picture.png", picture_net, size=16)


def test_an_output_that_cannot_be_read_is_not_called_a_wrong_size(folder):
    table = read_table(folder / "table.csv", ["name"])
    with pytest.raises(ValueError, match="the model returned dict, expected a tensor"):
        table_case(table, 0, lambda x: {"scores": x})
    with pytest.raises(ValueError, match=r"the model returns \(1, 3, 1\) for one input, expected \(1, classes\)"):
        table_case(table, 0, lambda x: x[..., None])


@pytest.mark.parametrize("baseline", ["mean", "samples", "max_entropy"])
def test_baselines_of_tables_stay_within_the_table(folder, baseline):
    table = read_table(folder / "table.csv", ["name"])
    case = table_case(table, 0, nn.Linear(3, 2).eval(), baseline=baseline)
    points = torch.as_tensor(table.to_numpy(dtype="float32", copy=True))
    known = (points / points.std(0))[torch.isfinite(points).all(1)]  # ranges of their own, which are not 0 and 1
    assert (known.amin(0) - 1e-4 <= case.baselines).all() and (case.baselines <= known.amax(0) + 1e-4).all()


@pytest.mark.parametrize("baseline", ["black", "white", "mean", "blur", "uniform", "0.25"])
def test_baselines_of_pictures(folder, baseline):
    net = load_model(folder / "picture.pt", trust=True)
    case = image_case(folder / "picture.png", net, size=16, baseline=baseline)
    assert case.baselines.shape[-3:] == (3, 16, 16)
    if baseline == "0.25":
        assert (case.baselines == 0.25).all()


def test_several_baselines_with_commas(folder):
    net = load_model(folder / "picture.pt", trust=True)
    case = image_case(folder / "picture.png", net, size=16, baseline="black, mean,0.25")
    single = [image_case(folder / "picture.png", net, size=16, baseline=b) for b in ("black", "mean", "0.25")]
    assert torch.equal(case.baselines, torch.stack([one.baselines for one in single], 1))
    table = read_table(folder / "table.csv", ["name"])
    row = table_case(table, 0, nn.Linear(3, 2).eval(), baseline="mean,samples")
    assert row.baselines.shape == (1, 6, 3)
    with pytest.raises(ValueError, match="--baseline 'grey' is unknown"):
        image_case(folder / "picture.png", net, size=16, baseline="black,grey")


def test_a_row_shows_its_cells_beside_the_baseline_in_its_own_units():
    table = pd.DataFrame({"age": [20.0, 60.0], "income": [1000.0, 3000.0]})
    assert table_case(table, 0, nn.Linear(2, 2).eval()).labels == ["age = 20 (40)", "income = 1,000 (2,000)"]
    with pytest.raises(ValueError, match=r"^the table has one row, so its mean is that row.*--baseline zero"):
        table_case(table[:1], 0, nn.Linear(2, 2).eval())
