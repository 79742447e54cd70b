"""The nets of the study. Oracles: numbers of inputs; the table's own rows."""

from pathlib import Path

import pytest
import torch

from leastpath._support.store import Store
from studies.findings.config import Setting
from studies.verdict.tasks import TASKS, open_small, photographs


def test_odd_numbered_inputs_are_reported_in_blocks():
    task = TASKS["wine-0"]
    assert task.numbers(3) == [1, 3, 5] and len(task.numbers()) == 44
    blocks = TASKS["digits-mlp"].blocks(120)
    assert [len(rows) for rows in blocks] == [50, 50, 20] and blocks[1][0] == 101 and blocks[2][-1] == 239


def test_a_small_table_is_standardised_on_the_half_that_trains(tmp_path):
    opened = open_small("wine", 0, Setting(Store(tmp_path, {}), quick=True), None)
    assert opened.examples == 89
    problem = opened.problem([1, 3])
    assert problem.inputs.shape == (2, 13) and problem.baselines.shape == (2, 1, 13) and not problem.baselines.any()
    every = opened.problem(range(89)).inputs
    assert every.mean(0).abs().max() < 0.5 and (every.std(0) - 1).abs().max() < 0.5
    score = problem.score("softmax")
    assert torch.all(score(problem.inputs) >= 1 / 3)  # the class that is explained is the predicted one


def test_photographs_need_their_folder():
    with pytest.raises(ValueError, match="needs imagenet_samples in the folder of --data"):
        photographs(Path("nowhere"))
