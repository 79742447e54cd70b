"""The rule for defaults. Oracle: made-up gains whose differences are known."""

from studies.truth.choice import Evidence, choose, harms

NETS, FILLS, N = ("a", "b"), ("black", "blur"), 20


def made(level, *, worse=None, gates=None):
    """Gains near `level`, in one cell much lower."""
    cells = {(net, fill): level - (0.6 if (net, fill) == worse else 0) for net in NETS for fill in FILLS}
    return Evidence({cell: {i: at + i / 1000 for i in range(N)} for cell, at in cells.items()}, gates or {})


LINE = made(0.4, gates={"mark": 0.8})


def chosen(development, reporting=None):
    both = [{"ig": LINE, **half} for half in (development, reporting or development)]
    return choose(*both, [*development, "line"])


def test_the_best_mean_of_those_that_do_no_harm():
    found = chosen({"good": made(0.5), "better": made(0.6), "harmful": made(0.9, worse=("a", "blur"))})
    assert (found.name, found.best) == ("better", "better")
    assert found.harms["harmful"] == ["a, blur"] and found.harms["good"] == []


def test_a_gate_may_be_five_points_below_and_no_more():
    assert chosen({"ours": made(0.5, gates={"mark": 0.75})}).name == "ours"
    found = chosen({"ours": made(0.5, gates={"mark": 0.74})})
    assert found.name == "line" and found.harms["ours"] == ["mark"]


def test_the_reporting_half_must_confirm():
    ours = made(0.5)
    found = chosen({"ours": ours}, {"ours": made(0.5, worse=("b", "black"))})
    assert (found.name, found.best) == ("line", "ours") and found.confirmation == {"ours": ["b, black"]}
    assert "does not confirm" in found.reason


def test_what_is_not_measured_everywhere_cannot_be_chosen():
    part = Evidence({("a", "black"): {i: 0.9 for i in range(N)}})
    assert chosen({"part": part}).name == "line"
    found = chosen({"ours": made(0.5)}, {"other": made(0.5)})
    assert found.name == "line" and "not measured on the reporting half" in found.reason


def test_noise_is_not_harm_and_holm_counts_the_cells():
    # Lower in 6 of 7 examples: p = 16 / 128 by sign flips, which is not clear, however many cells there are.
    ours = Evidence({("a", "black"): {i: 0.0 if i else 0.1 for i in range(7)}})
    line = Evidence({("a", "black"): {i: 0.05 for i in range(7)}})
    assert harms(ours, line) == []


def test_something_always_qualifies():
    assert chosen({"worse": made(0.1)}).name == "line"
    assert choose({}, {}, []).reason == "ig is not measured"
