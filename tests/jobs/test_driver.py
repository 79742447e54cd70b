"""explain(): what a loop gives, exactly one row an input, whatever dies on the way."""

import errno
import functools
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter

import numpy as np
import pytest
import torch

import leastpath as lp
import toy_jobs
from leastpath import jobs
from leastpath._support.store import BrokenUnit, StoreMismatch
from leastpath.jobs.shards import key_of

pytest.importorskip("pyarrow")
pytest.importorskip("safetensors")
pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
posix = pytest.mark.skipif(sys.platform == "win32", reason="fork and SIGKILL are POSIX")

explain = functools.partial(
    jobs.explain, model_factory=toy_jobs.model, target="predicted", shard_size=8, batch_size=4, show=False
)
SECONDS = 0.03  # that a batch takes, so that there is time to kill something
FORKED = jobs.Processes(workers=2, start_method="fork")


def assert_whole(found, n=40):
    """Exactly one row an input, in order, none broken."""
    assert found.finished and found.verify() == [] and len(found) == found.done == n
    assert found.table(["index"])["index"].tolist() == list(range(n))
    assert np.isfinite(found.table(["score"])["score"]).all() and torch.isfinite(found.values(0, n)).all()


# ---- numbers -----------------------------------------------------------------------------------------------------


def test_rows_and_values_equal_a_plain_loop(tmp_path):
    found = explain(toy_jobs.Numbered(18), out=tmp_path, output="log_softmax", baselines=0.5)
    inputs = torch.stack([toy_jobs.Numbered()[i][0] for i in range(18)])
    net = toy_jobs.model().eval()
    target = net(inputs).argmax(1)
    parts = []
    for i in range(0, 18, 4):  # shards of 8 and batches of 4: 0, 4 | 8, 12 | 16
        score = lp.Score(net, target[i : i + 4], "log_softmax")
        parts.append(lp.attribute(score, inputs[i : i + 4], 0.5, method=lp.StraightLine()))
    assert torch.equal(found.values(0, 18), torch.cat([p.values for p in parts]))
    table = found.table()
    for name in ("completeness_gap", "cancellation", "certificate", "score_change", "length_ratio", "support"):
        np.testing.assert_array_equal(table[name], torch.cat([getattr(p, name) for p in parts]).double())
    assert table["gradients"].tolist() == torch.cat([p.n_gradients for p in parts]).tolist()
    assert table["target"].tolist() == target.tolist() and table["failure"].isna().all()
    assert table["ok"].tolist() == [status.ok for part in parts for status in part.status]
    np.testing.assert_allclose(table["score"], lp.Score(net, target, "log_softmax")(inputs), rtol=1e-6)
    assert table["status"].tolist() == [s.value for p in parts for s in p.status]


@posix
def test_processes_give_what_one_process_gives(tmp_path):
    one = explain(toy_jobs.Numbered(), out=tmp_path / "one")
    two = explain(toy_jobs.Numbered(), out=tmp_path / "two", executor=FORKED)
    assert torch.equal(one.values(0, 40), two.values(0, 40))
    assert one.table().drop(columns="seconds").equals(two.table().drop(columns="seconds"))


@pytest.mark.parametrize(
    ("settings", "shape", "dtype"),
    [
        ({}, (9, 2, 6, 6), torch.float32),
        ({"keep": "pixels", "dtype": "float16"}, (9, 6, 6), torch.float16),
    ],
)
def test_what_is_kept(tmp_path, settings, shape, dtype):
    from helpers import cnn

    pictures = [torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(i)) for i in range(9)]
    run = functools.partial(jobs.explain, pictures, cnn, target=1, shard_size=4, show=False)
    full = run(out=tmp_path / "full").values(0, 9)
    found = run(out=tmp_path / "out", **settings).values(0, 9)
    assert found.shape == shape and found.dtype == dtype
    torch.testing.assert_close(found.float(), full if found.ndim == 4 else full.sum(1), rtol=1e-3, atol=1e-4)


def test_the_table_alone(tmp_path):
    found = explain(toy_jobs.Numbered(), out=tmp_path, keep="nothing", target="label")
    assert found.table()["target"].tolist() == [i % 3 for i in range(40)]
    with pytest.raises(ValueError, match="no values were kept"):
        found.values(0, 4)


# ---- failures ----------------------------------------------------------------------------------------------------


def test_rows_of_other_shapes_are_rows_with_the_reason(tmp_path):
    """Read together they cannot be stacked; read alone, each can be explained, but not kept beside the others."""
    data = [torch.full((n,), float(i + 1)) for i, n in enumerate([2, 3, 2, 2, 5])]
    settings = {"model_factory": toy_jobs.summing, "target": None, "method": "input_x_gradient"}
    found = explain(data, out=tmp_path / "values", **settings)
    failed = found.table()["failure"]
    assert failed.notna().tolist() == [False, True, False, False, True]
    assert "shape (3,), those of the shard's first row (2,)" in failed[1]
    assert [found[i]["values"].tolist() for i in (0, 2, 3)] == [[1, 1], [3, 3], [4, 4]]
    assert explain(data, out=tmp_path / "nothing", keep="nothing", **settings).table()["failure"].isna().all()
    with pytest.raises((ValueError, RuntimeError), match=r"size|shape"):
        explain(data, out=tmp_path / "fast", fail_fast=True, **settings)


def test_a_row_whose_label_is_missing_costs_nobody_else(tmp_path):
    rows = [f"{i},{i + 1},{i + 2},{i + 3},{'' if i == 2 else i % 3}\n" for i in range(6)]
    (tmp_path / "rows.csv").write_text("a,b,c,d,label\n" + "".join(rows) + "\n")
    found = explain(tmp_path / "rows.csv", out=tmp_path / "out", target="label", data_settings={"target": "label"})
    assert found.table()["failure"].notna().tolist() == [i == 2 for i in range(6)]
    assert found.table()["target"][[0, 1, 3, 4, 5]].tolist() == [0, 1, 0, 1, 2]


def test_labels_that_only_some_rows_have(tmp_path):
    data = [(torch.rand(4), 0), (torch.rand(4), None), (torch.rand(4), 2)]
    failed = explain(data, out=tmp_path / "label", target="label").table()["failure"]
    assert failed.notna().tolist() == [False, True, False] and "have no labels" in failed[1]
    assert explain(data, out=tmp_path / "predicted").table()["failure"].isna().all()


def test_failures_are_rows_with_their_reasons_and_cost_nobody_else(tmp_path):
    data = toy_jobs.Numbered(16, bad=(3, 9), unreadable=(4, 5, 6, 7))
    found = explain(data, out=tmp_path)
    table = found.table()
    assert table["index"].tolist() == list(range(16))
    assert table.index[table["failure"].notna()].tolist() == [3, 4, 5, 6, 7, 9]
    assert table.loc[3, "failure"].startswith("ValueError: inputs of example")
    assert table.loc[4, "failure"] == "OSError: this row is unreadable" and not table.loc[4, "ok"]
    assert table.loc[9, "status"].startswith("Failed: ")
    values = found.values(0, 16)
    assert torch.isnan(values[[3, 4, 5, 6, 7, 9]]).all()
    whole = explain(toy_jobs.Numbered(16), out=tmp_path / "whole").values(0, 16)
    good = [0, 1, 2, 8, 10, 11, 12, 13, 14, 15]
    torch.testing.assert_close(values[good], whole[good])
    assert found.shards[0].record["failures"] == {
        "ValueError: inputs of example … holds NaN or infinite values: drop or repair it, e.g. inputs.nan_to_num()": 1,
        "OSError: this row is unreadable": 4,
    }


def test_a_shard_in_which_all_fail_is_done_and_has_no_values(tmp_path):
    with pytest.warns(UserWarning, match="all 8 rows of the first shard failed .OSError: this row is unreadable"):
        found = explain(toy_jobs.Numbered(16, unreadable=tuple(range(8))), out=tmp_path)
    assert (
        found.finished and torch.isnan(found.values(2, 10)[:6]).all() and torch.isfinite(found.values(2, 10)[6:]).all()
    )
    assert "values" not in found[0] and found[0]["failure"] and "values" in found[8]


@pytest.mark.parametrize(("data", "match"), [
    (toy_jobs.Numbered(bad=(3,)), "NaN or infinite"), (toy_jobs.Numbered(unreadable=(5,)), "row 5 cannot be read"),
])  # fmt: skip
def test_fail_fast_raises_and_keeps_what_is_done(tmp_path, data, match):
    with pytest.raises(ValueError, match=match):
        explain(data, out=tmp_path, fail_fast=True)


@posix
def test_errors_of_workers_reach_the_caller(tmp_path):
    with pytest.raises(ValueError, match="NaN or infinite"):
        explain(toy_jobs.Numbered(bad=(3,)), out=tmp_path, fail_fast=True, executor=FORKED)


def test_an_empty_data_set_and_labels_that_are_not_there_are_said(tmp_path):
    with pytest.raises(ValueError, match="empty"):
        explain([], out=tmp_path)
    with pytest.raises(ValueError, match="have no labels"):
        explain([torch.ones(4)], out=tmp_path / "x", target="label", fail_fast=True)


# ---- resuming ----------------------------------------------------------------------------------------------------


def test_a_finished_job_is_not_done_again_and_another_is_refused(tmp_path):
    log = str(tmp_path / "log")
    run = functools.partial(explain, toy_jobs.Numbered(), method=toy_jobs.Logged(log), out=tmp_path / "out")
    run()
    run()
    assert sorted(toy_jobs.line_of(log)) == list(range(40))
    for change, key in (
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"target": 0}, 'target is "predicted" there and 0 here'),
        ({"shard_size": 16}, "shard_size"),
        ({"method": "integrated_gradients"}, "method"),
        ({"model_factory": lambda: toy_jobs.mlp(4, seed=1)}, "model"),
        ({"baselines": 0.1}, "baselines"),
    ):
        with pytest.raises(StoreMismatch, match=key):
            run(**change)
    with pytest.raises(StoreMismatch, match="rows"):
        explain(toy_jobs.Numbered(41), method=toy_jobs.Logged(log), out=tmp_path / "out")


@pytest.mark.parametrize("harm", ["truncated", "altered", "foreign", "rows lost"])
def test_a_broken_shard_and_no_other_is_done_again(tmp_path, harm):
    log = str(tmp_path / "log")
    run = functools.partial(explain, toy_jobs.Numbered(), method=toy_jobs.Logged(log), out=tmp_path / "out")
    found = run()
    values = found.values(0, 40)
    shard = found.shards[2]
    content = shard.values.read_bytes()
    if harm == "truncated":
        shard.values.write_bytes(content[:-20])
    elif harm == "altered":
        shard.values.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    elif harm == "foreign":
        shard.values.write_bytes(found.shards[1].values.read_bytes())
    else:
        shard.parquet.unlink()
    with pytest.warns(BrokenUnit, match="is broken"):
        again = run()
    assert Counter(toy_jobs.line_of(log)) == Counter(range(40)) + Counter(range(16, 24))
    assert_whole(again)
    assert torch.equal(again.values(0, 40), values)


def driven(folder, log, seconds, workers, show=False):
    torch.set_num_threads(1)
    explain(
        toy_jobs.Numbered(),
        method=toy_jobs.Logged(str(log), seconds),
        out=folder,
        executor=jobs.Processes(workers, start_method="fork") if workers else "inline",
        show=show,
    )


def begun(log, rows, driver):
    """Wait until so many rows have begun."""
    end = time.monotonic() + 60
    while len(toy_jobs.line_of(log)) < rows:
        assert time.monotonic() < end and driver.is_alive()
        time.sleep(0.005)


@posix
@pytest.mark.parametrize("workers", [0, 2])
def test_sigkill_of_the_driver(tmp_path, workers):
    log, out = tmp_path / "log", tmp_path / "out"
    driver = multiprocessing.get_context("fork").Process(target=driven, args=(out, log, SECONDS, workers))
    driver.start()
    begun(log, 20, driver)
    os.kill(driver.pid, signal.SIGKILL)
    driver.join()
    end = time.monotonic() + 20
    while any(_alive(pid) for pid in toy_jobs.pids_of(log)):  # workers follow their parent
        assert time.monotonic() < end
        time.sleep(0.01)
    kept, rows = len(list((out / "units").glob("*.safetensors"))), len(toy_jobs.line_of(log))
    assert kept < 5
    lost = rows - 8 * kept
    assert 0 <= lost <= 8 * max(1, workers)  # no more than the shards in progress
    driven(out, log, SECONDS, workers)
    assert len(toy_jobs.line_of(log)) == 40 + lost
    assert_whole(jobs.open(out))


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@posix
def test_sigkill_of_a_local_worker(tmp_path):
    log = str(tmp_path / "log")
    method = toy_jobs.Logged(log, seconds=0.01, deadly=21)
    found = explain(toy_jobs.Numbered(), method=method, out=tmp_path / "out", executor=FORKED)
    assert_whole(found)
    twice = Counter(toy_jobs.line_of(log)) - Counter(range(40))
    assert set(twice) <= set(range(16, 24)) and 21 in twice  # rows of its shard, and of no other
    assert len(toy_jobs.pids_of(log)) == 3


@posix
def test_a_worker_that_dies_while_it_has_nothing_to_do_is_replaced(tmp_path):
    log = str(tmp_path / "log")

    class Killing(jobs.Processes):
        def run(self, work, shards, stop):
            for done in super().run(work, shards, stop):
                for pid in toy_jobs.pids_of(log) - gone:  # the worker is idle until the next shard is asked for
                    gone.add(pid)
                    os.kill(pid, signal.SIGKILL)
                    time.sleep(0.2)
                yield done

    gone = set()
    executor = Killing(workers=1, start_method="fork")
    found = explain(toy_jobs.Numbered(24), method=toy_jobs.Logged(log), out=tmp_path / "out", executor=executor)
    assert_whole(found, 24)
    assert sorted(toy_jobs.line_of(log)) == list(range(24)) and len(gone) == 3


@posix
def test_a_shard_that_kills_every_worker_is_given_up_and_the_others_are_done(tmp_path):
    log = str(tmp_path / "log")
    method = toy_jobs.Logged(log, deadly=21, always=True)
    executor = jobs.Processes(workers=2, start_method="fork", max_retries=1)
    with pytest.warns(UserWarning, match="shard 2 was given up: its worker died 2 times"):
        found = explain(toy_jobs.Numbered(), method=method, out=tmp_path / "out", executor=executor)
    assert found.missing == [2] and found.done == 32 and not found.finished
    assert found.table(["index"])["index"].tolist() == [*range(16), *range(24, 40)]
    with pytest.raises(KeyError, match="row 20 is not done yet"):
        found[20]


@posix
def test_a_job_whose_workers_all_die_is_an_error(tmp_path):
    method = toy_jobs.Logged(str(tmp_path / "log"), deadly=1, always=True)
    executor = jobs.Processes(workers=1, start_method="fork", max_retries=0)
    with (
        pytest.warns(UserWarning, match="given up"),
        pytest.raises(ChildProcessError, match=r"no row of .* was explained"),
    ):
        explain(toy_jobs.Numbered(8), method=method, out=tmp_path / "out", executor=executor)


@posix
@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_finishes_the_shards_that_have_begun(tmp_path, workers):
    log, out = tmp_path / "log", tmp_path / "out"
    driver = multiprocessing.get_context("fork").Process(target=driven, args=(out, log, SECONDS, workers))
    driver.start()
    begun(log, 9, driver)
    os.kill(driver.pid, signal.SIGINT)
    driver.join()
    assert driver.exitcode == 0
    found = jobs.open(out)
    assert 8 <= found.done < 40 and len(toy_jobs.line_of(log)) == found.done  # nothing was begun in vain
    driven(out, log, SECONDS, workers)
    assert sorted(toy_jobs.line_of(log)) == list(range(40))
    assert_whole(jobs.open(out))


def test_what_is_said_when_a_job_stops_early(tmp_path, capsys):
    class Two:
        def run(self, work, shards, stop):
            return jobs.InProcess().run(work, list(shards)[:2], stop)

    found = explain(toy_jobs.Numbered(), out=tmp_path, executor=Two(), show=True)
    said = capsys.readouterr().err
    assert "16/40 rows (40%)" in said and f"16 of 40 rows are done and kept in {tmp_path}" in said
    assert found.missing == [2, 3, 4]
    explain(toy_jobs.Numbered(), out=tmp_path, show=True)
    said = capsys.readouterr().err
    assert "resuming: 16 of 40 rows are there already" in said and "40/40 rows (100%)" in said


def test_a_full_disk_loses_nothing_that_was_finished(tmp_path, monkeypatch):
    from leastpath._support import store as module

    real, count = module.write_atomically, iter(range(100))

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    def full_at_the_third_shard(path, content):
        if next(count) == 4:  # two files a shard
            patch.setattr(module.os, "fsync", full)
        return real(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_atomically", full_at_the_third_shard)
        with pytest.raises(OSError, match="No space left"):
            explain(toy_jobs.Numbered(), out=tmp_path)
    kept = jobs.open(tmp_path)
    assert [s.record["shard"] for s in kept.shards] == [0, 1] and kept.verify() == []
    assert not list((tmp_path / "units").glob(".*"))
    assert_whole(explain(toy_jobs.Numbered(), out=tmp_path))
    assert key_of(2) in jobs.open(tmp_path).store


# ---- time --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", ["inline", FORKED], ids=["inline", "processes"])
def test_time_that_is_used_up_ends_the_job_and_the_next_start_finishes_it(tmp_path, capsys, executor):
    """A millionth of a second is over before the first row."""
    found = explain(toy_jobs.Numbered(40), out=tmp_path, executor=executor, max_seconds=1e-6, show=True)
    assert not found.finished and found.done == 0
    assert "max_seconds=1e-06): 0 of 40 rows are done" in capsys.readouterr().err
    assert_whole(explain(toy_jobs.Numbered(40), out=tmp_path, executor=executor, max_seconds=1000))


def test_time_must_be_a_time(tmp_path):
    with pytest.raises(ValueError, match="max_seconds=-1 must be a positive number of seconds"):
        explain(toy_jobs.Numbered(4), out=tmp_path, max_seconds=-1)
