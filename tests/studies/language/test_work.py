"""One prompt on a toy model: every explanation is there, integrals agree with the library, sets with their words."""

import pytest
import torch

from leastpath.language import Natural, explain
from leastpath.language.baselines import NEUTRAL_TEXTS
from leastpath.language.toy import toy_model
from studies.language.prompts import Case
from studies.language.work import FEWER_STEPS, GAPPED, NATURAL, _sets, ask_case, control_precision, study_case

pytest.importorskip("transformers")
CASE = Case("facts", "the capital of France is", "Rome", "Paris", ("France",))  # what the toy prefers


@pytest.fixture(scope="module")
def toy():
    return toy_model()


def test_values_are_those_of_the_library(toy):
    found, more = (study_case(*toy, CASE, part, band=True) for part in ("left out", "gradients"))
    assert found["words"] == ["the", "capital", "of", "France", "is"]
    texts = Natural(NEUTRAL_TEXTS["en"])
    own = explain(*toy, CASE.prompt, " Rome", contrast=" Paris", baseline=texts, method="leave_one_out", support=False)
    torch.testing.assert_close(
        torch.tensor(found["values"]["left out, natural × 4"], dtype=torch.float64),
        own.values,
        atol=1e-4,
        rtol=1e-4,
    )
    margin = float(own.log_probabilities[0] - own.log_probabilities[1])
    assert found["margin"] == pytest.approx(margin, abs=1e-4)
    assert (
        set(more["gaps"]) == {"zeros", "mean", "end of text", *NATURAL} and "elastic band, natural 0" in more["values"]
    )
    default = explain(*toy, CASE.prompt, " Rome", contrast=" Paris", support=False).values.tolist()
    assert found["values"]["left out, natural × 4, joined"] == pytest.approx(default, abs=1e-4)
    gains = study_case(*toy, CASE, "removal", found)["gains"]
    assert all(set(gains[kind]) == set(found["values"]) for kind in ("natural", "end of text", "deleted"))


def test_gaps_are_taken_with_fewer_gradients(toy):
    fewer = study_case(*toy, CASE, "gaps")["fewer"]
    assert set(fewer) == set(GAPPED) and all(list(own) == list(FEWER_STEPS) for own in fewer.values())
    again = control_precision(toy[0], toy[1], CASE, steps=FEWER_STEPS[0])
    assert fewer["zeros"][FEWER_STEPS[0]] == pytest.approx(again["zeros"], rel=1e-3)


def test_no_cause_is_known_where_the_model_prefers_the_foil(toy):
    turned = Case("facts", CASE.prompt, CASE.foil, CASE.answer, CASE.causes)
    found = [study_case(*toy, case, "left out") for case in (CASE, turned)]
    assert [bool(one["values"]) for one in found] == [one["margin"] > 0 for one in found] != [True, True]


def test_sets_are_the_first_and_the_last_of_an_order():
    first = _sets(torch.tensor([3.0, 1.0, 2.0, 0.0]))[0]
    assert first == (frozenset({0}), frozenset({3}))


def test_an_answer_that_goes_on_with_a_number_has_no_space(toy):
    case = Case("greater than", "the book of France", "Paris", "Rome", ("book",))
    question = ask_case(*toy, case)
    assert question.continuation.tolist() == toy[1]("Paris")["input_ids"]


def test_precision_is_the_models(toy):
    gaps = control_precision(toy[0], toy[1], CASE, steps=5)
    assert set(gaps) == {"zeros", NATURAL[0]}
