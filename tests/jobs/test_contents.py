"""Checksums of files: every edit is seen, and nothing is read twice without need."""

import os
import time
from pathlib import Path

import pytest

from leastpath.jobs import contents
from leastpath.jobs.contents import content_digest, remember, save


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n1,2\n")
    os.utime(path, (time.time() - 100,) * 2)
    return path


def test_an_edit_of_the_same_size_with_the_old_time_put_back_is_seen(file):
    before, stat = content_digest(file), file.stat()
    file.write_bytes(b"a,b\n1,3\n")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert content_digest(file) != before


def test_a_file_put_in_its_place_is_seen(file, tmp_path):
    before, stat = content_digest(file), file.stat()
    other = tmp_path / "other"
    other.write_bytes(b"a,b\n9,2\n")
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    os.replace(other, file)
    assert content_digest(file) != before


def test_what_has_settled_is_read_once_and_by_later_processes_not_at_all(file, tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "SETTLED", -(10**18))
    digest = content_digest(file)
    save(tmp_path / "contents.json", [file])
    monkeypatch.setattr(contents, "_known", {})
    remember(tmp_path / "contents.json")
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("read again"))
    assert content_digest(file) == digest


def test_what_has_just_changed_is_not_trusted(file, monkeypatch):
    monkeypatch.setattr(contents, "_known", {})
    monkeypatch.setattr(contents, "SETTLED", 10**18)
    content_digest(file)
    assert contents._known == {}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', '{"a": [[1, "x"], "d"]}'])
def test_a_broken_memory_is_no_memory(tmp_path, text):
    (tmp_path / "contents.json").write_text(text)
    remember(tmp_path / "contents.json")
    remember(tmp_path / "nothing.json")


def test_a_file_that_grows_while_it_is_read_is_refused(file, monkeypatch):
    times = iter([[8, 1, 1, 1], [9, 2, 2, 1]])
    monkeypatch.setattr(contents, "_identity", lambda _: next(times))
    with pytest.raises(ValueError, match="changed while it was read"):
        content_digest(file)
