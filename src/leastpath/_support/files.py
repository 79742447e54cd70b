"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file. After a failure or a kill it holds its old content or all of the new one. Returns its path.

    Example:
        >>> import tempfile
        >>> write_atomically(Path(tempfile.mkdtemp()) / "note.txt", b"kept").read_bytes()
        b'kept'
    """
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
    """The age of a file by the clock of its file system, which may differ from this machine's.

    Example:
        >>> import tempfile
        >>> 0 <= seconds_since(write_atomically(Path(tempfile.mkdtemp()) / "note.txt", b"new")) < 10
        True
    """
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
