"""Results as files: all fields come back, and other files are refused with a sentence."""

from dataclasses import fields

import numpy as np
import pytest
import torch

import leastpath as lp
from leastpath.result.attribution import Attribution
from leastpath.result.files import packed_fields, read_fields, unpacked_fields, write_fields

pytest.importorskip("safetensors")


def same(one, other) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one.nan_to_num(nan=7.0), other.nan_to_num(nan=7.0))
    if isinstance(one, lp.Path):
        return all(same(getattr(one, n), getattr(other, n)) for n in ("points", "route", "offsets"))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, tuple):
        return type(other) is tuple and len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize(
    ("inputs", "baselines", "solver"),
    [
        (torch.rand(2, 3), None, lp.ElasticBand()),
        (torch.rand(2, 3, dtype=torch.float64), torch.rand(2, 2, 3, dtype=torch.float64), lp.StraightLine()),
        ((torch.rand(1, 2), torch.rand(1, 1)), None, lp.Descent()),
    ],
)
def test_every_field_comes_back(inputs, baselines, solver, tmp_path):
    def model(*parts):
        return torch.sigmoid(4 * torch.cat(parts, 1).prod(1))

    result = lp.attribute(lp.Score(model), inputs, baselines, method=solver, support=not isinstance(inputs, tuple))
    again = lp.load(result.save(tmp_path / "result.safetensors"))
    for field in fields(Attribution):
        if field.name != "stats":
            assert same(getattr(result, field.name), getattr(again, field.name)), field.name
    assert again.stats.keys() == result.stats.keys()
    assert all(status.ok == before.ok for status, before in zip(again.status, result.status, strict=True))


def test_results_without_a_path_come_back(tmp_path):
    result = lp.methods.METHODS["random"](lp.Score(lambda x: x.sum(1)), torch.ones(1, 3))
    assert lp.load(result.save(tmp_path / "a")).path is None


def test_other_values_are_kept_as_text(tmp_path):
    given = {"a": object, "b": np.float64(2.5), "c": np.arange(3), "d": {"x": [1, (2.0, None)]}, "e": float("inf")}
    found = read_fields(write_fields(tmp_path / "x", given))
    assert found["a"] == repr(object)
    assert found["b"] == 2.5
    assert found["c"].tolist() == [0, 1, 2]
    assert found["d"] == {"x": [1, (2.0, None)]}
    assert found["e"] == float("inf")


def test_tensors_that_share_memory_are_kept():
    whole = torch.arange(6.0)
    found = unpacked_fields(packed_fields({"a": whole, "b": whole[2:], "c": whole.reshape(2, 3).T}), "x")
    assert torch.equal(found["c"], whole.reshape(2, 3).T)


def test_cut_off_and_foreign_files_are_sentences(tmp_path):
    from safetensors.torch import save_file

    result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), method=lp.StraightLine())
    content = result.save(tmp_path / "a.safetensors").read_bytes()
    for size in (0, 5, 20, len(content) // 2, len(content) - 1):
        (tmp_path / "cut").write_bytes(content[:size])
        with pytest.raises(ValueError, match="cut off"):
            lp.load(tmp_path / "cut")
    save_file({"weight": torch.ones(2)}, tmp_path / "net.safetensors")
    with pytest.raises(ValueError, match="holds no explanation"):
        lp.load(tmp_path / "net.safetensors")
    write_fields(tmp_path / "other", {"values": torch.ones(1)})
    with pytest.raises(ValueError, match="another version"):
        lp.load(tmp_path / "other")
    with pytest.raises(ValueError, match="not a file"):
        lp.load(tmp_path / "nothing")
    (tmp_path / "pickle").write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(ValueError, match="not a safetensors file"):
        lp.load(tmp_path / "pickle")


def test_a_byte_that_has_changed_is_never_read_as_a_number(tmp_path):
    result = lp.attribute(lp.Score(lambda x: x.prod(1)), torch.rand(2, 3), method=lp.StraightLine())
    file = result.save(tmp_path / "result.safetensors")
    content = file.read_bytes()
    assert same(lp.load(file).values, result.values)
    for place in range(0, len(content), 7):
        file.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        try:
            found = lp.load(file)
        except ValueError:
            continue
        assert same(found.values, result.values) and same(found.path, result.path)  # of the header's own padding


def test_a_number_is_no_file():
    with pytest.raises(ValueError, match="path=3 is a int"):
        lp.load(3)
