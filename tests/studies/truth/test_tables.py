"""Tables made here. Oracles: sums over all rows, and columns counted by hand."""

import pytest
import torch

from leastpath._support.store import Store
from studies.findings.config import Setting
from studies.truth.tables import BASELINES, open_adult, open_california

pd = pytest.importorskip("pandas")


def setting(folder):
    return Setting(Store(folder / "store", {}), quick=True)


def write(folder, name, frame):
    (folder / "tabular").mkdir()
    frame.to_csv(folder / "tabular" / name, index=False)


def test_the_first_baseline_is_the_mean_of_the_rows_that_are_not_explained(tmp_path):
    numbers = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)).double()
    frame = pd.DataFrame(numbers.numpy(), columns=["a", "b", "c"])
    write(tmp_path, "california_housing.csv.gz", frame.assign(MedHouseVal=frame["a"] + 1))
    opened = open_california(setting(tmp_path), tmp_path)
    problem = opened.problem(range(opened.examples))
    assert opened.examples == 10 and "R²" in opened.quality and problem.baselines.shape == (10, 1 + BASELINES, 3)
    # Standardised columns sum to 0, so what is explained and 40 times the mean of the others cancel.
    total = problem.inputs.sum(0) + 40 * problem.baselines[0, 0]
    torch.testing.assert_close(total, torch.zeros(3), atol=1e-3, rtol=0)
    # No row is both a baseline and explained.
    assert torch.cdist(problem.baselines[0, 1:], problem.inputs).min() > 1e-3


def test_all_numbers_of_a_column_are_one_feature(tmp_path):
    rows = range(30)
    frame = pd.DataFrame({
        "age": [20.0 + i for i in rows], "fnlwgt": [1] * 30, "work": ["abc"[i % 3] for i in rows],
        "income": [">50K" if i % 2 else "<=50K" for i in rows],
    })  # fmt: skip
    write(tmp_path, "adult.csv.gz", frame)
    problem = open_adult(setting(tmp_path), tmp_path).problem([0, 1])
    assert problem.labels.tolist() == [[0, 1, 1, 1]]  # the age, then one number for each kind of work
    assert problem.inputs[:, 1:].sum(1).tolist() == [1.0, 1.0]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"needs tabular/adult\.csv\.gz in the folder of --data"):
        open_adult(setting(tmp_path), None)
