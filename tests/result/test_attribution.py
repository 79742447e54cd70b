"""A result and the evidence in it. Oracle: the fields that it was made with."""

import pytest
import torch

import leastpath as lp
from leastpath.result.attribution import attribution_of, without_path


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
