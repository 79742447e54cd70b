"""One process at a time works in a folder.

Two files: `driver.lock`, which the system unlocks when its holder ends, however it ends, and `driver.json`, which says
who holds it and counts up while it lives. Where machines share a file system that does not share locks, the count
decides: it is watched with the watcher's own clock, so that clocks of two machines need not agree.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from leastpath._support.files import write_atomically

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None  # Windows has none

BEAT = 5.0  # seconds between two counts
STALE = 60.0  # seconds without a count, after which an owner on another machine is taken for dead
PATIENCE = 20.0  # seconds to wait for what a dead owner has left running
SETTLE = 0.2  # seconds after which a second writer would be seen
_POLL = 0.1


class FolderInUse(ValueError):
    """Another process works in the folder."""


@contextlib.contextmanager
def hold_folder(folder: Path) -> Iterator[Callable[[], bool]]:
    """Hold a folder for the time of a `with` block. Gives a function: was it lost to another process meanwhile?

    It can be lost only if this process stood still for more than `STALE` seconds, or if somebody deleted the files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "driver.lock").open("a") as file:
        has_lock = _take_lock(file, folder)
        _outlive_the_owner_elsewhere(folder, has_lock)
        owner = {**_this_process(), "token": uuid.uuid4().hex}
        _write(folder, owner, 0)
        if not has_lock:
            time.sleep(SETTLE)
            if _owner(folder).get("token") != owner["token"]:
                raise _in_use(folder, _owner(folder))
        ended, lost = threading.Event(), threading.Event()
        beating = threading.Thread(target=_beat, args=(folder, owner, ended, lost), daemon=True)
        beating.start()
        try:
            yield lost.is_set
        finally:
            ended.set()
            beating.join()
            if _owner(folder).get("token") == owner["token"]:
                with contextlib.suppress(OSError):
                    (folder / "driver.json").unlink()


def _take_lock(file: Any, folder: Path) -> bool:
    """Whether the system's lock was taken; False where there is none. FolderInUse if another process has it."""
    if fcntl is None:  # pragma: no cover
        return False
    start = time.monotonic()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            owner = _owner(folder)
        except OSError:
            return False  # a file system without locks
        # Workers of a dead owner end soon after it. A living owner keeps the folder.
        if (owner and _lives_here(owner)) or time.monotonic() - start > PATIENCE:
            raise _in_use(folder, owner)
        time.sleep(_POLL)


def _outlive_the_owner_elsewhere(folder: Path, has_lock: bool) -> None:
    """Return when nobody else counts up; FolderInUse as soon as somebody does."""
    first = _owner(folder)
    if not first or (has_lock and _is_here(first)):
        return  # nobody, or one of this machine whose lock the system has taken away
    if _is_here(first):
        if _lives_here(first):
            raise _in_use(folder, first)
        return
    start = time.monotonic()
    while time.monotonic() - start < STALE:
        now = _owner(folder)
        if not now:
            return
        if now != first:
            raise _in_use(folder, now)
        time.sleep(_POLL)


def _beat(folder: Path, owner: dict[str, Any], ended: threading.Event, lost: threading.Event) -> None:
    count = 0
    while not ended.wait(BEAT):
        if _owner(folder).get("token") != owner["token"]:
            lost.set()
            return
        count += 1
        with contextlib.suppress(OSError):  # a full disk is the work's to tell
            _write(folder, owner, count)


def _write(folder: Path, owner: dict[str, Any], count: int) -> None:
    write_atomically(folder / "driver.json", json.dumps({**owner, "count": count}).encode())


def _owner(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "driver.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _in_use(folder: Path, owner: dict[str, Any]) -> FolderInUse:
    who = f"process {owner['pid']} on {owner['host']}" if {"pid", "host"} <= owner.keys() else "another process"
    return FolderInUse(
        f"{folder} is in use: {who} works on this job. Wait until it ends, or end it; a job of its own needs another "
        "folder, and more workers are a setting of the executor"
    )


# ---- processes ---------------------------------------------------------------------------------------------------


def _this_process() -> dict[str, Any]:
    return {"host": socket.gethostname(), "machine": _machine(), "pid": os.getpid(), "begun": _read_start(os.getpid())}


def _machine() -> str:
    """This start of this machine, and its processes: containers may have one name and other numbers of processes."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _read_start(pid: int) -> str:
    """When a process began, in the system's own count; another process may get its number later. "" if it has ended."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if found[0] == "Z" else found[19]
    except (OSError, IndexError):
        return ""


def _is_here(owner: dict[str, Any]) -> bool:
    return bool(owner.get("machine") == _machine())


def _lives_here(owner: dict[str, Any]) -> bool:
    if not _is_here(owner):
        return False
    try:
        os.kill(int(owner["pid"]), 0)
    except ProcessLookupError:
        return False
    except (OSError, KeyError, ValueError):
        return True
    return owner.get("begun") == _read_start(int(owner["pid"]))
