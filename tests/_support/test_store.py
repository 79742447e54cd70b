"""The store: what was written comes back, what is broken never does, and kill -9 loses one unit at most."""

import errno
import json
import math
import multiprocessing
import os
import random
import re
import signal
import sys
import time
import warnings

import pytest
import torch
from hypothesis import given, strategies as st

import leastpath as lp
from leastpath._support import store as module
from leastpath._support.store import BrokenUnit, Store, StoreMismatch

pytest.importorskip("safetensors")
# Newer Pythons warn that forks and threads do not mix; these children only write files.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
needs_fork = pytest.mark.skipif(sys.platform == "win32", reason="fork, limits and SIGKILL are POSIX")
FORK = None if sys.platform == "win32" else multiprocessing.get_context("fork")
CONFIG = {"method": "line", "seed": 0, "areas": [0.1, 0.2]}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", CONFIG)


# ---- round trips -------------------------------------------------------------------------------------------------


def test_record_arrays_and_files_come_back_as_they_were(store):
    record = {"a": [1, 2.5, None, "é"], "nan": math.nan, "inf": -math.inf, "nested": {"b": True}}
    arrays = {"f": torch.randn(3, 4), "bf": torch.randn(5).bfloat16(), "i": torch.arange(3), "none": torch.zeros(0, 2)}
    store.write("k", record, arrays, {"txt": b"hello"})
    unit = store.read("k")
    assert math.isnan(unit.record.pop("nan")) and unit.record == {k: v for k, v in record.items() if k != "nan"}
    assert unit.arrays.keys() == arrays.keys()
    assert all(torch.equal(unit.arrays[n], a) and unit.arrays[n].dtype == a.dtype for n, a in arrays.items())
    assert unit.files["txt"].read_bytes() == b"hello"
    assert store.read_record("k").record["a"] == record["a"] and store.read_record("k").files == unit.files


def test_arrays_that_share_memory_and_views_come_back(store):
    base = torch.arange(12.0).reshape(3, 4)
    store.write("k", {}, {"a": base, "b": base, "c": base.T, "d": base[:, 1]})
    arrays = store.read("k").arrays
    assert torch.equal(arrays["b"], base) and torch.equal(arrays["c"], base.T) and torch.equal(arrays["d"], base[:, 1])


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
def test_every_key_comes_back(tmp_path_factory, key):
    store = Store(tmp_path_factory.mktemp("keys"), CONFIG)
    assert key not in store
    store.write(key, {"key": key})
    assert list(store) == [key] and store.read(key).record == {"key": key}


def test_keys_that_differ_in_case_have_files_that_differ_otherwise(store):
    assert store.path("IG").name.lower() != store.path("ig").name.lower()


def test_writing_again_replaces(store):
    store.write("k", {"n": 1}, files={"txt": b"1"})
    store.write("k", {"n": 2}, files={"txt": b"2"})
    assert store.read("k").record == {"n": 2} and len(store) == 1
    store.tidy()
    assert [p.read_bytes() for p in (store.folder / "units").glob("*.txt")] == [b"2"]


def test_missing_keys(store):
    assert "k" not in store and 3 not in store
    with pytest.raises(KeyError):
        store.read("k")
    with pytest.raises(KeyError):
        store.read_record("k")


@pytest.mark.parametrize("record", [{"x": torch.ones(1)}, {"x": {1, 2}}, {(1, 2): 3}])
def test_records_that_are_no_json_are_refused(store, record):
    with pytest.raises(ValueError, match="is not JSON"):
        store.write("k", record)


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_keys_that_make_no_file_name_are_refused(store, key):
    with pytest.raises(ValueError, match="expected 1 to 200"):
        store.write(key, {})


# ---- configurations ----------------------------------------------------------------------------------------------


def test_same_configuration_opens_and_another_is_refused_by_name(store):
    store.write("k", {"n": 1})
    assert Store(store.folder, {"areas": (0.1, 0.2), "seed": 0, "method": "line"}).read("k").record == {"n": 1}
    with pytest.raises(StoreMismatch, match=r"seed is 0 there and 1 here; tolerance is not given there and 0\.1 here"):
        Store(store.folder, {**CONFIG, "seed": 1, "tolerance": 0.1})
    assert "k" in store


def test_nan_in_a_configuration_equals_itself(tmp_path):
    Store(tmp_path, {"x": {"y": math.nan}})
    Store(tmp_path, {"x": {"y": math.nan}})
    with pytest.raises(StoreMismatch, match=r"x\.y is NaN there and 1\.0 here"):
        Store(tmp_path, {"x": {"y": 1.0}})


def test_opening_without_configuration_takes_the_manifests(store, tmp_path):
    assert Store(store.folder).config == CONFIG
    for config in (None, CONFIG):
        with pytest.raises(FileNotFoundError, match="holds no store"):
            Store(tmp_path / "nothing", config, create=False)
    assert not (tmp_path / "nothing").exists()


def test_other_format_is_refused(store, monkeypatch):
    monkeypatch.setattr(module, "SCHEMA", 2)
    with pytest.raises(StoreMismatch, match="written in format 1"):
        Store(store.folder, CONFIG)


def test_a_broken_manifest_loses_nothing_and_admits_no_other_configuration(store):
    store.write("k", {"n": 1})
    whole = json.loads((store.folder / "manifest.json").read_text())
    lacking = [json.dumps({k: v for k, v in whole.items() if k != part}) for part in whole]
    for broken in (*lacking, "", '{"schema": 1', '{"schema": 1, "config": {"seed": 0}, "fingerprint": "0"}', "[]"):
        (store.folder / "manifest.json").write_text(broken)
        with pytest.warns(BrokenUnit), pytest.raises(StoreMismatch, match="lost its manifest"):
            Store(store.folder, {"seed": 1})
        assert Store(store.folder, CONFIG).read("k").record == {"n": 1}


# ---- broken files ------------------------------------------------------------------------------------------------


def test_truncation_at_every_length_is_noticed(store):
    store.write("k", {"n": 1}, {"v": torch.arange(4)})
    whole = store.path("k").read_bytes()
    for length in range(len(whole)):
        store.path("k").write_bytes(whole[:length])
        with pytest.warns(BrokenUnit, match="is broken"):
            assert "k" not in store
        assert not store.path("k").exists()
    store.write("k", {"n": 1}, {"v": torch.arange(4)})
    assert "k" in store


def test_every_flipped_byte_is_noticed(store):
    store.write("k", {"n": 1}, {"v": torch.arange(4)})
    whole = store.path("k").read_bytes()
    for at in range(len(whole)):
        store.path("k").write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.warns(BrokenUnit), pytest.raises(KeyError):
            store.read("k")


def test_reading_the_record_notices_truncation(store):
    store.write("k", {"n": 1}, {"v": torch.arange(100)})
    store.path("k").write_bytes(store.path("k").read_bytes()[:-1])
    with pytest.warns(BrokenUnit, match="truncated"), pytest.raises(KeyError):
        store.read_record("k")


def test_foreign_files_are_moved_aside_and_the_rest_stays(store, tmp_path):
    from safetensors.torch import save_file

    other = Store(tmp_path / "other", {"seed": 1})
    other.write("theirs", {})
    store.write("good", {"n": 1})
    save_file({"v": torch.ones(2)}, store.path("plain"))
    store.path("theirs").write_bytes(other.path("theirs").read_bytes())
    store.path("renamed").write_bytes(store.path("good").read_bytes())
    store.path("text").write_text("hello, this is a text file of some length")
    with pytest.warns(BrokenUnit) as caught:
        assert list(store.keys()) == ["good"]
    said = " ".join(str(w.message) for w in caught)
    for why in ("no checksum", "another configuration", "is the unit 'good'", "truncated, or not a safetensors"):
        assert why in said
    assert len(list((store.folder / "aside").iterdir())) == 4


@pytest.mark.parametrize("harm", [lambda p: p.unlink(), lambda p: p.write_bytes(b"h")], ids=["lost", "altered"])
def test_a_unit_without_its_file_is_not_believed(store, harm):
    store.write("k", {}, files={"txt": b"hello"})
    assert "k" in store
    harm(store.read("k").files["txt"])
    with pytest.warns(BrokenUnit, match="txt file"), pytest.raises(KeyError):
        store.read("k")


def test_a_file_harmed_after_it_was_seen_is_noticed(store):
    store.write("k", {"n": 1})
    assert "k" in store
    store.path("k").write_bytes(b"")
    with pytest.warns(BrokenUnit):
        assert "k" not in store


# ---- full disks and dead processes -------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_no_half_file_and_keeps_the_old_one(store, monkeypatch, call):
    store.write("k", {"n": 1})

    def full(*_args):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module.os, call, full)
        for key in ("k", "new"):
            with pytest.raises(OSError, match="No space left"):
                store.write(key, {"n": 2}, {"v": torch.ones(100)}, {"txt": b"x"})
    assert store.read("k").record == {"n": 1} and "new" not in store
    assert [p.name for p in (store.folder / "units").iterdir()] == ["k.safetensors"]


def write_against_a_limit(folder, tell):
    import resource

    store = Store(folder, CONFIG)
    store.write("small", {}, {"v": torch.ones(10)})
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # the system itself stops the write half-way
    try:
        store.write("large", {}, {"v": torch.ones(100_000)})
    except OSError as error:
        tell.send(error.errno)


@needs_fork
def test_a_write_that_the_system_stops_half_way_leaves_nothing(tmp_path):
    told, tell = FORK.Pipe(duplex=False)
    writer = FORK.Process(target=write_against_a_limit, args=(tmp_path, tell))
    writer.start()
    writer.join()
    assert told.recv() == errno.EFBIG
    assert [p.name for p in (tmp_path / "units").iterdir()] == ["small.safetensors"]
    assert list(Store(tmp_path, CONFIG)) == ["small"]


def write_for_ever(folder, ready):
    store = Store(folder, CONFIG)
    for n in range(10_000):
        store.write(f"{n:04d}", {"n": n}, {"v": torch.full((200_000,), float(n))}, {"txt": str(n).encode() * 10_000})
        ready.send(n)


@needs_fork
def test_sigkill_at_any_moment_loses_at_most_the_unit_in_progress(tmp_path):
    rng = random.Random(0)
    for attempt in range(8):
        folder = tmp_path / str(attempt)
        told, tell = FORK.Pipe(duplex=False)
        writer = FORK.Process(target=write_for_ever, args=(folder, tell))
        writer.start()
        assert told.recv() == 0
        time.sleep(rng.uniform(0, 0.03))
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        last = 0
        while told.poll():
            last = told.recv()
        store = Store(folder, CONFIG)
        keys = list(store)  # a warning here would be an error: nothing that has a unit's name is broken
        assert len(keys) in (last + 1, last + 2)
        for n, key in enumerate(keys):
            unit = store.read(key)
            assert unit.record == {"n": n} and bool((unit.arrays["v"] == n).all())
        store.tidy()
        assert len(list((folder / "units").glob("*.txt"))) == len(keys)


def write_all(folder, mark, start):
    store = Store(folder, CONFIG)
    start.wait()
    for n in range(20):
        store.write(f"own {mark} {n}", {"n": n})
        store.write("shared", {"mark": mark}, {"v": torch.full((1000,), float(mark))}, {"txt": bytes([mark])})


@needs_fork
def test_several_processes_write_at_once(tmp_path):
    start = FORK.Barrier(3)
    writers = [FORK.Process(target=write_all, args=(tmp_path, mark, start)) for mark in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    store = Store(tmp_path, CONFIG)
    assert len(store) == 61
    unit = store.read("shared")
    mark = unit.record["mark"]
    assert bool((unit.arrays["v"] == mark).all()) and unit.files["txt"].read_bytes() == bytes([mark])


def test_temporary_files_of_the_dead_are_swept_and_those_of_the_living_left(store):
    units = store.folder / "units"
    for name, age in ((".old.tmp", 7200), (".new.tmp", 0)):
        (units / name).write_bytes(b"half")
        os.utime(units / name, (time.time() - age,) * 2)
    Store(store.folder, CONFIG)
    assert [p.name for p in units.iterdir()] == [".new.tmp"]


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "results").write_text("")
    with pytest.raises(ValueError, match="is a file, expected a folder"):
        Store(tmp_path / "results", {})


def test_results_of_another_version_are_told(tmp_path, monkeypatch):
    Store(tmp_path, {"seed": 0}).write("a", {"n": 1})
    before = re.escape(lp.__version__)
    monkeypatch.setattr("leastpath._support.store.__version__", "99.0")
    with pytest.warns(UserWarning, match=rf"results of leastpath {before}, and this is 99\.0"):
        assert "a" in Store(tmp_path, {"seed": 0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Store(tmp_path).read("a").record == {"n": 1}  # only looked at
        Store(tmp_path / "new", {"seed": 0})
        Store(tmp_path / "new", {"seed": 0})
