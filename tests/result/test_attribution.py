"""A result and the evidence in it. Oracle: the fields that it was made with."""

from dataclasses import fields

import pytest
import torch

import leastpath as lp
from leastpath.result.attribution import attribution_of, without_path
from leastpath.result.files import write_fields


def result_of(**given):
    zero, count = torch.zeros(2), torch.ones(2, dtype=torch.long)
    status = (lp.Status((lp.Note(lp.Outcome.SOLVER_NOTE, "a sentence"),)),) * 2
    return without_path(
        torch.ones(2, 3), zero, zero, zero, status, n_gradients=count, n_forwards=count, method="mine()", **given
    )


def test_without_a_path_all_that_is_measured_along_one_is_unknown():
    result = result_of()
    assert result.path is None and result.method == "mine()" and result.metric == "none"
    for name in ("length", "length_error", "length_ratio", "certificate", "attribution_error", "support"):
        assert getattr(result, name).isnan().all()
    assert "support not measured" in repr(result) and "mine()" in repr(result)
    assert result_of(support=torch.tensor([0.25, 0.5])).support.tolist() == [0.25, 0.5]


def test_fields_of_another_version_are_refused():
    found = dict(vars(result_of()))
    assert attribution_of(found, "file").values is found["values"]
    found.pop("support")
    with pytest.raises(ValueError, match="file is of another version of leastpath, which differs in support"):
        attribution_of(found, "file")


WRONG = {
    "a text": "wrong",
    "null": None,
    "a number": 3,
    "of another batch": torch.zeros(3),
    "another length": (),
}
MAY_BE = {("path", "null"), ("baseline_spread", "null"), ("path_spread", "null"), ("values", "of another batch")}
MAY_BE |= {(name, "a text") for name in ("method", "geometry", "metric")}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("field", [field.name for field in fields(lp.Attribution)])
def test_a_file_with_a_right_seal_and_a_wrong_field_is_refused_by_its_name(field, wrong, tmp_path):
    pytest.importorskip("safetensors")
    if (field, wrong) in MAY_BE:
        pytest.skip("this field may be that")
    held = vars(result_of()) | {field: WRONG[wrong]}
    with pytest.raises(ValueError, match=rf"its field {field} is .*, expected"):
        lp.load(write_fields(tmp_path / "result.safetensors", held))


def test_values_of_another_batch_do_not_fit_the_other_fields():
    held = vars(result_of()) | {"values": torch.zeros(3, 2)}
    with pytest.raises(ValueError, match="its field completeness_gap is a tensor"):
        attribution_of(held, "here")


def test_names_are_shown_and_kept(tmp_path):
    pytest.importorskip("safetensors")
    result = lp.attribute(lp.Score(lambda x: x.sum(1)), torch.ones(2, 3), method=lp.StraightLine(), support=False)
    named = result.named(["age", "<b>", "mass"])
    assert lp.load(named.save(tmp_path / "result.safetensors")).names == ("age", "<b>", "mass")
    assert ">age</text>" in named._repr_html_() and "&lt;b&gt;" in named._repr_html_() and result.names is None
    with pytest.raises(ValueError, match="got 1 names for 3 features"):
        result.named(["age"])
