"""Files that are written completely or not at all, and read with one sentence where they cannot be."""

from __future__ import annotations

import contextlib
import os
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

LARGEST_GROWTH = 200  # times its own size that an archive may unpack to
ALWAYS_ALLOWED = 2**28  # bytes that every archive may unpack to


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file. After a failure or a kill it holds its old content or all of the new one. Returns its path."""
    path = Path(path)
    temporary = temporary_beside(path)
    flush_to_disk(temporary, content)
    try:
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # so that the rename survives a power cut; not every system can flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return path


def seconds_since(path: Path) -> float:
    """The age of a file by the clock of its file system, which may differ from this machine's."""
    now = temporary_beside(path)
    now.touch()
    try:
        return now.stat().st_mtime - path.stat().st_mtime
    finally:
        now.unlink(missing_ok=True)


def temporary_beside(path: Path) -> Path:
    """A unique name in the same folder, so that a rename stays within one file system."""
    return path.with_name(f".{uuid.uuid4().hex}.tmp")


def flush_to_disk(path: Path, content: bytes) -> None:
    """Write a new file and flush it to the disk. A failure, such as a full disk, leaves no file behind."""
    try:
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def check_readable(file: str | os.PathLike[str], what: str, writer: str) -> Iterator[None]:
    """Around reading a file of ours: a foreign, truncated or huge one raises a ValueError that says what was expected.

    Args:
        file: its path; one that does not exist is a FileNotFoundError, as usual.
        what: that should be in it, as in "a graph".
        writer: the function that writes such files.
    """
    try:
        check_unpacked_size(file)
        yield
    except (FileNotFoundError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # readers of foreign formats raise errors of every kind
        kind = what.removeprefix("a ").removeprefix("an ")
        words = f"{file} is not a saved {kind}: expected a file written by {writer} ({reason_of(error)})"
        raise ValueError(words) from error


def reason_of(error: BaseException) -> str:
    """What an error of others says, for a sentence of ours: its first line, cut where it is long; else its kind."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 200 else f"{line[:199]}…"


def check_unpacked_size(file: str | os.PathLike[str]) -> None:
    """Raise ValueError for an archive that would fill the memory: it claims to unpack to far more than its own size."""
    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    packed = os.path.getsize(file)
    if unpacked > max(ALWAYS_ALLOWED, LARGEST_GROWTH * packed):
        raise ValueError(
            f"{file} has {packed:,} bytes and would unpack to {unpacked:,}, which looks like an attack on your memory: "
            "get it again from a source that you trust"
        )


@contextlib.contextmanager
def open_arrays(file: str | os.PathLike[str]) -> Iterator[Any]:
    """The arrays of an .npz file by name. Nothing in it is ever run, and a broken file is closed again."""
    with Path(file).open("rb") as opened:
        if not zipfile.is_zipfile(opened):
            raise ValueError("not an archive of arrays")
        opened.seek(0)
        with np.load(opened, allow_pickle=False) as arrays:
            yield arrays
