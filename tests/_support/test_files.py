"""Files are whole or not there."""

import os
import zipfile

import numpy as np
import pytest

from leastpath._support.files import check_readable, check_unpacked_size, open_arrays, seconds_since, write_atomically


def test_replaces_and_leaves_nothing_else(tmp_path):
    file = tmp_path / "a.bin"
    assert write_atomically(file, b"one") == file
    assert write_atomically(file, b"two").read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    file = write_atomically(tmp_path / "a.bin", b"one")

    def full_disk(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, b"two")
    assert file.read_bytes() == b"one" and os.listdir(tmp_path) == ["a.bin"]


def test_what_a_reader_raises_becomes_one_sentence(tmp_path):
    file = write_atomically(tmp_path / "a.npz", b"?")
    with (
        pytest.raises(ValueError, match=r"a\.npz is not a saved graph: expected a file written by Graph\.save \(odd\)"),
        check_readable(file, "a graph", "Graph.save"),
    ):
        raise OSError("odd")
    with pytest.raises(ValueError, match=r"Graph\.save \(b{199}…\)$"), check_readable(file, "a graph", "Graph.save"):
        raise OSError("\n" + 500 * "b" + "\nmore")
    with pytest.raises(ValueError, match=r"Graph\.save \(OSError\)$"), check_readable(file, "a graph", "Graph.save"):
        raise OSError
    with pytest.raises(FileNotFoundError), check_readable(tmp_path / "none", "a graph", "Graph.save"):
        (tmp_path / "none").read_bytes()


def test_archives_are_measured_before_they_are_unpacked(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(2**20))
    check_unpacked_size(tmp_path / "a.zip")
    monkeypatch.setattr("leastpath._support.files.ALWAYS_ALLOWED", 2**10)
    with pytest.raises(ValueError, match="would unpack to 1,048,576"):
        check_unpacked_size(tmp_path / "a.zip")


def test_arrays_of_an_archive_and_the_age_of_a_file(tmp_path):
    np.savez(tmp_path / "some.npz", a=np.arange(3))
    with open_arrays(tmp_path / "some.npz") as arrays:
        assert arrays["a"].tolist() == [0, 1, 2]
    file = write_atomically(tmp_path / "note.txt", b"no archive")
    check_unpacked_size(file)
    assert 0 <= seconds_since(file) < 10
