"""The default beside its rivals. Oracle: gains made up here; all sign flips of ten examples, times Holm's factor."""

from dataclasses import replace

from tiny_truth import tiny

from studies.truth.rivals import beside_rivals

NETS = {name: replace(tiny()[0], name=name) for name in ("voc", "cifar")}


def rows(method, net, gain, black=0.0, n=10, half="reporting"):
    return [
        {"net": net, "half": half, "method": method, "row": i, "gain": gain + i / 100, "gain black": black + i / 100}
        for i in range(n)
    ]


def test_leads_are_corrected_over_all_rivals_and_nets_and_fills_are_looked_at():
    made = [
        *rows("context", "voc", 0.5), *rows("context", "cifar", 0.5), *rows("context-fast", "voc", 0.9),
        *rows("idgi", "voc", 0.25), *rows("idgi", "cifar", 0.75, n=4), *rows("lrp", "voc", 0.5, black=0.25),
        *rows("ig", "voc", 0.1, half="development"),
    ]  # fmt: skip
    found = beside_rivals(made, NETS)
    assert found["leads"] == {
        "idgi": {
            # Ahead in all of ten: 2 of 1,024 flips, first of three; behind in all of four: 2 of 16, times 2.
            "voc": {"difference": 0.25, "p": round(6 / 1024, 5), "n": 10},
            "cifar": {"difference": -0.25, "p": 0.25, "n": 4},
        },
        "lrp": {"voc": {"difference": 0.0, "p": 1.0, "n": 10}},
    }
    assert found["behind"] == {"idgi": [], "lrp": ["voc, black"]}


def test_nothing_is_said_without_the_default():
    assert beside_rivals(rows("idgi", "voc", 0.5), NETS) == {}
