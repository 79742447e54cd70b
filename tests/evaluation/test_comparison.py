"""Comparison: tables and tests as statistics.py gives them, and pages that show all of it."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from leastpath._support.store import Unit
from leastpath.evaluation.comparison import COSTS, EVIDENCE, MEASURING, Comparison, _drop_repeated_pairs
from leastpath.evaluation.statistics import bootstrap_interval, holm, paired_test

pytest.importorskip("pandas")

MEASURES = [SimpleNamespace(name="up", higher_is_better=True), SimpleNamespace(name="down", higher_is_better=False)]
RNG = np.random.default_rng(0)
VALUES = {m: {"up": RNG.normal(mean, 1, 10), "down": RNG.normal(mean, 1, 10)} for m, mean in
          (("low", 0), ("mid", 3), ("a<b", 6))}  # fmt: skip


def comparison(values=VALUES, measures=MEASURES, reference=None, failures=None, skip=(), names=range(10)):
    units = {}
    for method, columns in values.items():
        for b in range(len(names)):
            record = {
                "measures": {name: float(column[b]) for name, column in columns.items()},
                **dict.fromkeys((*EVIDENCE, *COSTS, *MEASURING), 2.0),
                "p_value": 0.01 * (b + 1),
                "p_model": 0.04 if b < 3 else 0.5,
                "outcome": "supported" if b < 3 else "better than chance",
                "ok": True,
                "status": "Reached.",
            }
            arrays = {"up/x": torch.tensor([0.0, 0.5, 1.0]), "up/blur": torch.tensor([0.0, b, 2 * b])}
            if (method, b) not in (failures or {}) and (method, b) not in skip:
                units[method, b] = Unit(record, arrays)
    return Comparison.of(list(values), names, measures, units, failures or {}, reference, 0.95, not skip)


def test_table_and_tests_are_those_of_statistics():
    found = comparison(reference="mid")
    interval = bootstrap_interval(VALUES["mid"]["up"])
    row = found.table().loc["mid", "up"]
    assert (row["mean"], row["low"], row["high"], row["n"]) == (interval.mean, interval.low, interval.high, 10)
    for measure, best in (("up", "a<b"), ("down", "low")):
        for against, other in (("best", best), ("reference", "mid")):
            tests = found.tests()
            tests = tests[(tests["measure"] == measure) & (tests["against"] == against)]
            rivals = [m for m in VALUES if m != other]
            expected = [paired_test(VALUES[m][measure], VALUES[other][measure]) for m in rivals]
            assert tests["method"].tolist() == rivals and tests["other"].eq(other).all()
            assert tests["p_value"].tolist() == [test.p_value for test in expected]
            assert tests["low"].tolist() == [test.low for test in expected]
            assert tests["p_holm"].tolist() == holm([test.p_value for test in expected]).tolist()


def test_winners_follow_the_direction_of_each_measure():
    winners = comparison(reference="low").winners()
    assert winners["best"].to_dict() == {"up": "a<b", "down": "low"}
    assert winners["clear"].all() and winners["tied"].tolist() == [[], []]
    assert winners["beats_reference"].to_dict() == {"up": True, "down": False}
    assert np.isnan(winners.loc["down", "p_reference"])  # nobody is tested against itself


def test_who_is_clear_of_all_beats_the_reference():
    """The pair with the reference has one answer, in a family of Holm's that three others make larger."""
    some = np.random.default_rng(0).normal(size=10)
    values = {"best": {"up": (some + 0.1).tolist()}, "line": {"up": some.tolist()}}
    values |= {f"other {i}": {"up": (some + 0.02 * (-1) ** np.arange(10) - 0.2 * i).tolist()} for i in range(3)}
    winner = comparison(values, MEASURES[:1], reference="line").winners().loc["up"]
    assert winner["beats_reference"] == ("line" not in winner["tied"])


def test_equal_methods_are_tied():
    winners = comparison({"one": VALUES["mid"], "two": VALUES["mid"], "low": VALUES["low"]}).winners()
    assert winners.loc["up", "tied"] in (["one"], ["two"]) and not winners.loc["up", "clear"]


def test_failures_and_missing_values_leave_paired_inputs_only():
    values = {m: {k: v.copy() for k, v in columns.items()} for m, columns in VALUES.items()}
    values["mid"]["up"][3], values["low"]["up"][4] = np.nan, np.inf
    found = comparison(values, failures={("mid", 0): "ValueError: no"})
    assert found.failures.to_dict("records") == [
        {"method": "mid", "input": 0, "name": "0", "failure": "ValueError: no"}
    ]
    table = found.table()
    assert table["up", "n"].to_dict() == {"low": 9, "mid": 8, "a<b": 10}
    assert table["inputs", "failed"].to_dict() == {"low": 0, "mid": 1, "a<b": 0}
    tests = found.tests().query("measure == 'up' and against == 'best'").set_index("method")
    assert tests["n"].to_dict() == {"low": 9, "mid": 8}
    kept = np.delete(np.arange(10), [0, 3])
    assert tests.loc["mid", "p_value"] == paired_test(values["mid"]["up"][kept], values["a<b"]["up"][kept]).p_value


def test_a_mean_over_easy_inputs_alone_does_not_win():
    hard = np.array([0.0] * 5 + [10.0] * 5)
    values = {"all": {"up": hard + 1}, "easy": {"up": hard}}
    found = comparison(values, MEASURES[:1], failures={("easy", b): "too hard" for b in range(5)})
    assert found.table()["up", "mean"].to_dict() == {"all": 6.0, "easy": 10.0}
    assert found.winners().loc["up", "best"] == "all"


def test_a_method_without_any_value_is_left_out_of_tests():
    nothing = {"up": np.full(10, np.nan), "down": np.full(10, np.nan)}
    found = comparison({"nothing": nothing, **VALUES})
    assert "nothing" not in set(found.tests()["method"]) and np.isnan(found.table().loc["nothing", ("up", "mean")])
    assert comparison({"nothing": nothing}).winners().empty
    assert "–" in str(found)


def test_one_input_has_means_but_no_interval():
    found = comparison({m: {k: v[:1] for k, v in c.items()} for m, c in VALUES.items()}, names=["only"])
    assert np.isnan(found.table().loc["mid", ("up", "low")]) and found.tests()["p_value"].eq(1).all()
    assert "[" not in str(found).split("Means")[0]


def test_reference_is_integrated_gradients_where_it_is_compared():
    assert comparison({"x": VALUES["low"], "integrated_gradients": VALUES["mid"]}).reference == "integrated_gradients"
    assert comparison().reference == "low"


def test_page_and_figure_show_everything(tmp_path):
    pytest.importorskip("matplotlib")
    found = comparison(names=[f"<{i}>" for i in range(10)], failures={("mid", 0): "ValueError: <no>"})
    page = found.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page
    body = page.split("</style>")[1]
    assert "a&lt;b" in body and "a<b" not in body and "&lt;no&gt;" in body and "<link" not in page
    assert body.count("<strong>") == 2
    for section in ("Table", "Winners", "Figure", "Paired tests", "Failures"):
        assert f">{section}</h2>" in body
    axes = {ax.get_title(): ax for ax in found.plot().axes}
    assert "down (lower is better)" in axes and "down: mean curve" not in axes
    drawn = axes["up: mean curve"].lines[0].get_ydata()
    np.testing.assert_allclose(drawn, [0, 4.5, 9])


def test_words_name_what_was_interrupted_and_the_marks():
    found = comparison(skip={("a<b", b) for b in range(4)})
    assert "interrupted" in repr(found) and "3 methods" in repr(found) and not found.finished
    assert "up ↑" in str(found) and "down ↓" in str(found) and "*" in str(found)


def test_no_pair_of_methods_stands_twice_in_the_page():
    """The best is also the reference, or meets it: one row says so."""
    found = comparison(reference="mid")
    shown = _drop_repeated_pairs(found.tests())
    pairs = [(m, *sorted(two)) for m, *two in shown[["measure", "method", "other"]].itertuples(index=False)]
    assert len(pairs) == len(set(pairs)) < len(found.tests())
    assert "best and reference" in shown["against"].tolist()


def test_supported_shares_have_wilsons_interval_and_single_rows_are_corrected_for_how_many_there_are():
    found = comparison()
    row = found.table().loc["mid", "verdict"]
    assert (row["supported"], row["n"]) == (0.3, 10)
    z, share, n = 1.959964, 0.3, 10
    centre, wide = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    np.testing.assert_allclose(
        [row["low"], row["high"]], (centre + np.array([-wide, wide])) / (1 + z**2 / n), rtol=1e-5
    )
    rows = found.per_example.query("method == 'mid'")
    np.testing.assert_allclose(rows["q_value"], [0.04 * 10 / 3] * 3 + [0.5] * 7)  # the larger p, times n / rank
    assert "0.30 [0.11, 0.60]" in str(found)
