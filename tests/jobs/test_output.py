"""open(): lazily, the same as what the shards hold."""

import pytest
import torch

import toy_jobs
from leastpath import jobs
from leastpath._support.store import Store

pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")
pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    out = tmp_path_factory.mktemp("output")
    return jobs.explain(toy_jobs.Numbered(21), toy_jobs.model, out=out, target=1, shard_size=8, show=False)


def test_rows_and_values_from_all_sides_agree(found):
    opened = jobs.open(found.store.folder)
    values, table = opened.values(0, 21), opened.table()
    assert len(opened) == 21 and values.shape == (21, 4) and repr(opened) == "Explanations(21 of 21 rows in 3 shards)"
    for low, high in [(0, 8), (7, 9), (20, 21), (3, 19)]:
        assert torch.equal(opened.values(low, high), values[low:high])
    for i, row in enumerate(opened):
        for other in (row, row, opened[i - 21]):
            assert other["index"] == i and torch.equal(other["values"], values[i])
            assert other["score"] == table.loc[i, "score"] and other["status"] == table.loc[i, "status"]
    batch = next(iter(torch.utils.data.DataLoader(torch.utils.data.Subset(opened, range(4)), collate_fn=list)))
    assert batch[0]["index"] == 0


def test_the_table_is_filtered_before_it_is_read(found):
    import pyarrow.dataset as ds

    chosen = found.rows.to_table(columns=["index", "cancellation"], filter=ds.field("index") >= 19)
    assert chosen.column_names == ["index", "cancellation"] and chosen["index"].to_pylist() == [19, 20]
    assert found.table(["score"]).shape == (21, 1)


def test_parquet_and_safetensors_are_for_every_reader(found):
    import pandas as pd
    from safetensors.torch import load_file

    shard = found.shards[1]
    assert pd.read_parquet(shard.parquet)["index"].tolist() == list(range(8, 16))
    assert torch.equal(load_file(shard.values)["values"], found.values(8, 16))


@pytest.mark.parametrize(("low", "high"), [(0, 0), (-1, 2), (5, 22), (3, 2)])
def test_rows_that_are_not_there(found, low, high):
    with pytest.raises(ValueError, match="not within"):
        found.values(low, high)
    with pytest.raises(IndexError, match="row 21"):
        found[21]


def test_other_folders_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no store"):
        jobs.open(tmp_path)
    Store(tmp_path, {"kind": "comparison"})
    with pytest.raises(ValueError, match="is the folder of a comparison"):
        jobs.open(tmp_path)


def test_a_job_that_has_finished_nothing_opens(tmp_path):
    Store(tmp_path, {"kind": "job", "rows": 5, "shard_size": 2})
    opened = jobs.open(tmp_path)
    assert opened.done == 0 and opened.missing == [0, 1, 2]
    with pytest.raises(ValueError, match="no finished shard"):
        opened.table()


def test_a_thousand_shards_are_opened_by_their_headers_alone(tmp_path, monkeypatch):
    """Oracle: what `read`, which checks every byte, would have to do is refused here."""
    store = Store(tmp_path, {"kind": "job", "rows": 1000, "shard_size": 1})
    for i in range(1000):
        path = store.path(f"shard-{i:07d}")
        if i == 0:
            store.write("shard-0000000", {"rows": 1, "shard": 0}, {"values": torch.ones(1, 4)}, {"parquet": b"x"})
            template = path.read_bytes()
        else:  # a second of fsyncs less
            path.write_bytes(template.replace(b"shard-0000000", f"shard-{i:07d}".encode()))
    monkeypatch.setattr(Store, "read", lambda *_: pytest.fail("opening read a whole shard"))
    assert len(jobs.open(tmp_path).shards) == 1000
