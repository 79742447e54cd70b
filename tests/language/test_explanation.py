"""Tables, files and pages of an explanation hold its numbers; removal gains against brute force."""

import json

import pytest
import torch

from leastpath.language import Natural, explain
from leastpath.language.toy import toy_model

pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def explained():
    model, tokenizer = toy_model()
    return explain(model, tokenizer, "the cat sat on the", " mat . the", baseline=Natural(["a dog ran to a"]))


def test_to_dataframe(explained):
    pytest.importorskip("pandas")
    table = explained.to_dataframe()
    assert table["feature"].tolist() == ["the", "cat", "sat", "on", "the"]
    torch.testing.assert_close(torch.tensor(table["value"].tolist(), dtype=torch.float64), explained.values)
    wide = explained.to_dataframe(matrix=True)
    assert wide.shape == (3, 8) and wide.index.tolist() == [" mat", " .", " the"]


def test_save_is_json(explained, tmp_path):
    kept = json.loads(explained.save(tmp_path / "found.json").read_text())
    assert kept["values"] == explained.values.tolist() and kept["matrix"] == explained.matrix.tolist()


def test_page_shows_every_feature_and_the_matrix(explained, tmp_path):
    page = explained.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().endswith(page)
    for piece in explained.features:
        assert f">{piece.text}</span>" in page
    assert page.count("<td ") == 3 * 8 and explained._repr_html_().count("<label") == 4
    assert "speaks for" in page and "mat . the" in repr(explained)


def test_what_was_not_asked_for():
    model, tokenizer = toy_model()
    one = explain(model, tokenizer, "the cat", " sat", contrast=" ran", support=False)
    assert one.answer == " sat rather than ran" and one.first in ("the", "cat")
    ours, other = one.log_probabilities.tolist()
    assert "of the contrast" in one.evidence and ("prefers the other" in one.evidence) == (other > ours)
    with pytest.raises(ValueError, match="matrix=True"):
        one.to_dataframe(matrix=True)
    with pytest.raises(ValueError, match="removal='burnt' is unknown"):
        one.removal_gain("burnt")
