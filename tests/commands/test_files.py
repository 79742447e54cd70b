"""What commands read: names of classes, tables and folders of pictures."""

import json

import numpy as np
import pandas as pd
import pytest

from leastpath.commands.files import fill_empty, read_labels
from leastpath.tabular import Encoding


def test_labels_come_as_lines_or_json(tmp_path):
    (tmp_path / "a.txt").write_text("cat\n\ndog\n")
    (tmp_path / "b.json").write_text(json.dumps(["cat", "dog"]))
    (tmp_path / "c.json").write_text(json.dumps({"0": ["n0", "cat"], "1": ["n1", "dog"]}))
    for name in ("a.txt", "b.json", "c.json"):
        assert read_labels(tmp_path / name) == ["cat", "dog"]
    (tmp_path / "d.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        read_labels(tmp_path / "d.json")


HOLES = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [True, False, True], "word": ["x", None, "y"], "c": [np.inf, 2, 4]})


def test_empty_cells_get_the_mean_or_a_number_and_it_is_said(capsys):
    """Oracle: by hand. Words stay as they are, and an infinite cell is an empty one."""
    assert fill_empty(HOLES, "mean")[["a", "c"]].to_numpy().tolist() == [[1, 3], [2, 2], [3, 4]]
    assert "Empty cells of a, c: the column's mean stands in" in capsys.readouterr().err
    assert fill_empty(HOLES, "-1")["a"].tolist() == [1, -1, 3]
    assert fill_empty(HOLES, "mean")["word"].isna().tolist() == [False, True, False]
    whole = HOLES[["b"]]
    assert fill_empty(whole, "mean") is whole
    with pytest.raises(ValueError, match="--missing 'middle' is unknown: use mean, mark, or a number"):
        fill_empty(HOLES, "middle")
    with pytest.raises(ValueError, match="no row has a number in d: leave out what is empty, --drop d"):
        fill_empty(HOLES.assign(d=np.nan), "mean")


def test_marks_stand_where_an_encoding_puts_them():
    """Oracle: `Encoding` of the same numbers, not standardised."""
    numbers = HOLES[["a", "b"]].assign(c=[np.nan, 2.0, 4.0])
    marked, encoding = fill_empty(numbers, "mark"), Encoding.fit(numbers, categorical=[], standardize=False)
    assert list(marked.columns) == encoding.get_feature_names_out() == ["a", "b", "c", "a_missing", "c_missing"]
    assert np.array_equal(marked.to_numpy(), encoding.transform_exactly(numbers))
