"""Files that are complete or not there: what every result, figure and saved network is written with."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file that holds either what it held or all of `content`, whatever happens meanwhile. Returns its path.

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
    with contextlib.suppress(OSError):  # the rename itself survives a power cut; not every system can flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return path


def temporary_beside(path: Path) -> Path:
    """A name in the same folder that nobody else has: a rename from it cannot cross file systems."""
    return path.with_name(f".{uuid.uuid4().hex}.tmp")


def flush_to_disk(path: Path, content: bytes) -> None:
    """Write a new file and flush it to the disk; on failure, a full disk for one, nothing is left behind."""
    try:
        with path.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
