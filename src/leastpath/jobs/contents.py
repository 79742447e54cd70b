"""Files by what they hold: a checksum of every byte, read once as long as the file is not touched."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from leastpath._support.files import write_atomically

CHUNK = 1 << 22
SETTLED = 2_000_000_000  # ns: a file that changed later than this ago may change again without a new time
Identity = list[int]
_known: dict[str, tuple[Identity, str]] = {}


def content_digest(file: Path) -> str:
    """The first 16 digits of the checksum of a file's bytes.

    A file of the same size, times and inode is not read again. The time of its last change in the file system (ctime)
    counts too: a program can put back the time of a file's contents, but not that one.
    """
    name, identity = _name(file), _identity(file)
    if name in _known and _known[name][0] == identity:
        return _known[name][1]
    found = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(CHUNK):
            found.update(chunk)
    if _identity(file) != identity:
        raise ValueError(f"{file} changed while it was read: start again when it is complete")
    digest = found.hexdigest()[:16]
    if time.time_ns() - max(identity[1], identity[2]) > SETTLED:
        _known[name] = identity, digest
    return digest


def remember(file: Path) -> None:
    """Read the checksums that an earlier process has saved. A broken file is as good as none."""
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
        for name, (identity, digest) in json.loads(file.read_text(encoding="utf-8")).items():
            _known.setdefault(str(name), (list(map(int, identity)), str(digest)))


def save(file: Path, files: Iterable[Path]) -> None:
    """Keep the checksums of these files for later processes."""
    names = [_name(path) for path in files]
    write_atomically(file, json.dumps({name: _known[name] for name in names if name in _known}).encode())


def _name(file: Path) -> str:
    return os.path.realpath(file)


def _identity(file: Path) -> Identity:
    stat = file.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
