"""Records put together. Oracle: planted ones."""

from studies.findings.choices.records import averaged, by_data, described, pairs_of


def test_lists_of_several_pictures_come_one_after_the_other():
    parts = {f"photographs {k}": {"data": "photographs", "methods": {"idgi": {"rank": [k]}}} for k in (3, 1, 2)}
    assert by_data(parts) == {"photographs": {"idgi": {"rank": [1, 2, 3]}}}


def test_pairs_and_means_over_lists():
    assert pairs_of("abc") == {"a – b": ("a", "b"), "a – c": ("a", "c"), "b – c": ("b", "c")}
    assert averaged([[1.0, None, None], [3.0, 5.0, None]]) == [2.0, 5.0, None]


def test_the_data_in_words():
    words = described({"x": {"data": "photographs", "side": 96}}, {"photographs": 8})
    assert words.startswith("Photographs: 8 of 96 × 96 pixels") and "Digits" not in words
