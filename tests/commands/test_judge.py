"""leastpath judge: the same verdict as lp.verdict, from files."""

import json

import numpy as np
import pytest
import torch

import leastpath as lp
from leastpath.commands.case import image_case
from leastpath.commands.judge import read_values, run_judge
from leastpath.commands.model_files import load_model
from leastpath.commands.options import JudgeOptions


def judge(folder, values, tmp_path, **more):
    np.save(tmp_path / "values.npy", values)
    picture = {"source": folder / "picture.png", "model": folder / "picture.pt", "size": 16}
    return run_judge(JudgeOptions(values=tmp_path / "values.npy", trust_model=True, **(picture | more)))


@pytest.mark.parametrize("shape", [(1, 3, 16, 16), (3, 16, 16), (16, 16)])
def test_a_picture_against_the_library(folder, tmp_path, shape, capsys):
    values = np.random.default_rng(0).normal(size=shape)
    found = judge(folder, values, tmp_path, as_json=True)
    case = image_case(
        folder / "picture.png", load_model(folder / "picture.pt", trust=True), size=16, baseline="black,mean"
    )
    given = torch.as_tensor(values).float()
    expected = lp.verdict(case.score, case.inputs, given.view(1, *given.shape[-3:]), case.baselines)
    assert found.status == expected.status and found.p_model == expected.p_model
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["p_value"] == float(expected.p_value) and said["outcome"] == expected.status[0].outcomes[0].value


def test_a_row_with_too_few_columns_is_undecided(folder, tmp_path, capsys):
    table = {"source": folder / "table.csv", "model": folder / "row.pt", "row": 7, "drop": ["name"]}
    judge(folder, np.ones(3), tmp_path, **table)
    assert capsys.readouterr().out.startswith("Undecided: support")


def test_wrong_files_get_a_sentence(folder, tmp_path):
    with pytest.raises(ValueError, match=r"values have shape \(7,\), the input \(1, 3, 16, 16\).*--size"):
        judge(folder, np.ones(7), tmp_path)
    (tmp_path / "text.npy").write_text("no numbers")
    for bad, sentence in ((tmp_path / "none.npy", "is not a file"), (tmp_path / "text.npy", "holds no array")):
        with pytest.raises(ValueError, match=sentence):
            read_values(bad)
    np.save(tmp_path / "words.npy", np.array(["a"]))
    with pytest.raises(ValueError, match="holds no array of numbers"):
        read_values(tmp_path / "words.npy")
