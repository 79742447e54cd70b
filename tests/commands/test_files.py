"""What commands read: names of classes, tables and folders of pictures."""

import json

import numpy as np
import pandas as pd
import pytest

from leastpath.commands.files import complete_rows, read_labels


def test_labels_come_as_lines_or_json(tmp_path):
    (tmp_path / "a.txt").write_text("cat\n\ndog\n")
    (tmp_path / "b.json").write_text(json.dumps(["cat", "dog"]))
    (tmp_path / "c.json").write_text(json.dumps({"0": ["n0", "cat"], "1": ["n1", "dog"]}))
    for name in ("a.txt", "b.json", "c.json"):
        assert read_labels(tmp_path / name) == ["cat", "dog"]
    (tmp_path / "d.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        read_labels(tmp_path / "d.json")


def test_complete_rows():
    assert complete_rows(pd.DataFrame({"a": [1.0, np.inf, 2.0], "b": [1.0, 1.0, 2.0]}), 1) == [0]
    with pytest.raises(ValueError, match="no row of the table has a number"):
        complete_rows(pd.DataFrame({"a": [np.nan]}))
