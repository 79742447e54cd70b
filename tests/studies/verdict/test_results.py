"""What verdicts add up to. Oracle: counted by hand."""

from leastpath._support.store import Store
from studies.verdict.results import sum_up, with_earlier
from studies.verdict.tasks import TASKS


def kept(tmp_path):
    store = Store(tmp_path, {})
    for first, outcomes in ((1, ["supported", "undecided"]), (5, ["supported", "better than chance"])):
        store.write(f"judged wine-0 {first}", {
            "task": "wine-0", "title": TASKS["wine-0"].title, "four random": [True, False],
            "kinds": {"ig": {"outcome": outcomes, "p_value": [0.01] * 2, "p_model": [0.01] * 2}},
            "band": {"outcome": ["unsupported", "unsupported"], "p_value": [0.01, 0.2]},
        })  # fmt: skip
    levels = {str(n): {"context": [0.01, 0.5 if n < 400 else 0.01]} for n in (96, 192, 384, 768, 1536)}
    title = TASKS["photo-mobilenet"].title
    store.write("followed photo 1", {"task": "photo-mobilenet", "title": title, "by removals": levels})
    return store, title


def test_counts_are_those_of_the_units(tmp_path):
    store, title = kept(tmp_path)
    told, wine = sum_up(store, TASKS), TASKS["wine-0"].title
    counts = told["verdicts"][wine]["ig"]
    assert [counts[name] for name in ("n", "supported", "better than chance", "undecided")] == [4, 2, 1, 1]
    assert told["four random"][wine] == {"n": 4, "trust": 2}
    assert told["band"][wine] == {"n": 4, "supported": 0, "unsupported": 4, "though better than chance": 2}
    assert told["power"][title]["384"]["context"] == {"n": 1, "supported": 0, "better than chance": 1}
    assert told["power"][title]["768"]["context"]["supported"] == 1


def test_what_a_run_did_not_look_at_stays_on_the_page():
    cancer, wine = TASKS["cancer-0"].title, TASKS["wine-0"].title
    told = {"verdicts": {wine: {"ig": 2}}, "band": {}}
    earlier = {"verdicts": {cancer: {"ig": 0}, wine: {"ig": 1, "both": 1}}, "band": {"gone": 3, cancer: 4}}
    assert with_earlier(told, earlier) == {"verdicts": {cancer: {"ig": 0}, wine: {"ig": 2}}, "band": {cancer: 4}}
