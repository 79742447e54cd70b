"""What is kept. Oracle: what was added, read from the file."""

import pytest

from studies.referees.kept import Kept, names_of


def test_measures_are_read_again(tmp_path):
    kept = Kept(tmp_path / "made" / "kept.json")
    kept.about["seconds"] = 3
    kept.add("lrp", "0", {"agreement": 0.5})
    kept.add("idgi", "1", {"agreement": 0.25})
    again = Kept(tmp_path / "made" / "kept.json")
    assert again.about == {"seconds": 3} and again.methods == ["lrp", "idgi"]
    assert again.rows("idgi") == {"1": {"agreement": 0.25}} and again.has("lrp", "0") and not again.has("lrp", "1")


def test_unknown_methods_are_told():
    assert names_of(None, ("lrp",), ()) == ["lrp"]
    with pytest.raises(ValueError, match="lrq"):
        names_of("lrq", (), ())
