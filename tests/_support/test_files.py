"""Files are whole or not there."""

import os

import pytest

from leastpath._support.files import write_atomically


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
