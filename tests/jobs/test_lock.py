"""One holder of a folder at a time: the dead give way at once, the living never, whatever clocks say."""

import json
import multiprocessing
import os
import signal
import threading
import time

import pytest

from leastpath.jobs import lock
from leastpath.jobs.lock import FolderInUse, hold_folder

posix = pytest.mark.skipif(os.name != "posix", reason="needs fork and signals")


def elsewhere(folder, count=0, **more):
    """What an owner on another machine has written."""
    owner = {"host": "node7", "machine": "node7 another start", "pid": os.getpid(), "token": "theirs", "count": count}
    (folder / "driver.json").write_text(json.dumps(owner | more))


def test_a_second_holder_is_refused_by_name(tmp_path):
    with (
        hold_folder(tmp_path),
        pytest.raises(FolderInUse, match=rf"in use: process {os.getpid()} on "),
        hold_folder(tmp_path),
    ):
        pass
    with hold_folder(tmp_path) as lost:
        assert not lost()
    assert not (tmp_path / "driver.json").exists()


def hold_and_die(folder):
    with hold_folder(folder):
        os.kill(os.getpid(), signal.SIGKILL)


@posix
def test_a_dead_owner_gives_way_at_once(tmp_path):
    owner = multiprocessing.get_context("fork").Process(target=hold_and_die, args=(tmp_path,))
    owner.start()
    owner.join()
    assert json.loads((tmp_path / "driver.json").read_text())["pid"] == owner.pid
    with hold_folder(tmp_path):
        assert json.loads((tmp_path / "driver.json").read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("years", [-10, 0, 10])
def test_a_silent_owner_elsewhere_gives_way_whatever_the_clocks_say(tmp_path, monkeypatch, years):
    monkeypatch.setattr(lock, "STALE", 0.3)
    elsewhere(tmp_path)
    os.utime(tmp_path / "driver.json", (time.time() + years * 3e7,) * 2)
    with hold_folder(tmp_path):
        assert json.loads((tmp_path / "driver.json").read_text())["token"] != "theirs"


@pytest.mark.parametrize("years", [-10, 10])
def test_an_owner_elsewhere_that_counts_up_is_left_alone(tmp_path, monkeypatch, years):
    monkeypatch.setattr(lock, "STALE", 30.0)
    elsewhere(tmp_path)
    os.utime(tmp_path / "driver.json", (time.time() + years * 3e7,) * 2)
    threading.Timer(0.2, elsewhere, (tmp_path, 1)).start()
    with pytest.raises(FolderInUse, match=r"on node7"), hold_folder(tmp_path):
        pass


def test_an_owner_elsewhere_that_ends_meanwhile(tmp_path):
    elsewhere(tmp_path)
    threading.Timer(0.2, (tmp_path / "driver.json").unlink).start()
    with hold_folder(tmp_path):
        pass


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_a_broken_note_of_the_owner_stops_nobody(tmp_path, text):
    (tmp_path / "driver.json").write_text(text)
    with hold_folder(tmp_path):
        pass


def test_who_stood_still_and_lost_the_folder_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.02)
    with hold_folder(tmp_path) as lost:
        elsewhere(tmp_path)
        end = time.monotonic() + 20
        while not lost():
            assert time.monotonic() < end
            time.sleep(0.01)
    assert json.loads((tmp_path / "driver.json").read_text())["token"] == "theirs"  # it is not ours to remove


def test_the_owner_counts_up(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.02)
    with hold_folder(tmp_path):
        end = time.monotonic() + 20
        while json.loads((tmp_path / "driver.json").read_text())["count"] < 3:
            assert time.monotonic() < end
            time.sleep(0.01)


def test_without_locks_of_the_system(tmp_path, monkeypatch):
    """A file system that has none: the note alone decides."""
    monkeypatch.setattr(lock, "fcntl", None)
    monkeypatch.setattr(lock, "SETTLE", 0.01)
    with hold_folder(tmp_path), pytest.raises(FolderInUse), hold_folder(tmp_path):
        pass
    (tmp_path / "driver.json").write_text(json.dumps({"machine": lock._machine(), "pid": 2**22 + 1, "token": "dead"}))
    with hold_folder(tmp_path):
        pass


def test_the_number_of_a_dead_process_may_belong_to_another_now(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    monkeypatch.setattr(lock, "SETTLE", 0.01)
    note = {"machine": lock._machine(), "pid": os.getpid(), "begun": "long ago", "token": "dead", "host": "here"}
    (tmp_path / "driver.json").write_text(json.dumps(note))
    with hold_folder(tmp_path):
        pass


def test_many_races_have_one_winner_at_a_time(tmp_path):
    inside, together, refused = [], [], []

    def compete(folder, start):
        start.wait()
        try:
            with hold_folder(folder):
                inside.append(folder)
                together.append(inside.count(folder))
                time.sleep(0.002)
                inside.remove(folder)
        except FolderInUse:
            refused.append(folder)

    for number in range(15):
        start = threading.Barrier(4)
        threads = [threading.Thread(target=compete, args=(tmp_path / str(number), start)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(together) == {1} and len(together) + len(refused) == 60
