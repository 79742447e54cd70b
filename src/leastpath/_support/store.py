"""Store: results with one file for each unit of work, so that a run can be killed at any moment and started again.

A unit is a JSON record with arrays, in one .safetensors file with a checksum over all its bytes. It is written under a
temporary name, flushed to the disk and renamed, so a file with the final name is complete. Writers of different keys
need no lock. Of two writers of one key, the last to finish wins.

By hand: no common file format or database gives a checksum of every byte, writers without locks and a refusal of other
configurations, all in plain files.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
import urllib.parse
import uuid
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from leastpath._support.files import flush_to_disk, seconds_since, temporary_beside, write_atomically
from leastpath._support.fingerprint import doubts
from leastpath._support.optional import import_optional
from leastpath._support.version import __version__

SCHEMA = 1
SUFFIX = ".safetensors"
ABANDONED = 3600.0  # a temporary file that is older, in seconds, was left by a writer that died
_NO_DIGEST = "0" * 64  # in place of the checksum while this is computed
# Quotes inside the header's strings are escaped, so this finds only the checksum.
_DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')


class StoreMismatch(ValueError):
    """A folder holds results of another configuration. Results of two configurations are never mixed."""


class BrokenUnit(UserWarning):
    """A file in a store is truncated, altered or not of this store. It was moved aside, and its unit is not done."""


@dataclass(frozen=True)
class Unit:
    """One finished unit of work: its record, its arrays, and the files written beside them."""

    record: dict[str, Any]
    arrays: dict[str, Tensor] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)


class Store:
    """Finished units of work in a folder, under string keys.

    Args:
        folder: where the units are; `manifest.json` in it holds the configuration and its fingerprint.
        config: all that the results depend on, as JSON. A folder of another configuration is refused with
            `StoreMismatch`. None: that of the manifest.
        create: make the folder if it does not exist.
        resume: use results although parts of the configuration could not be described, so that nobody can tell
            whether they have changed (see `fingerprint.doubts`). Without it, that is an error.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        config: Mapping[str, Any] | None = None,
        *,
        create: bool = True,
        resume: bool = False,
    ) -> None:
        self.folder = Path(folder)
        self._units = self.folder / "units"
        manifest = self.folder / "manifest.json"
        if config is None or not create:
            if not manifest.is_file():
                raise FileNotFoundError(f"{self.folder} holds no store: expected a manifest.json there")
        else:
            if self.folder.exists() and not self.folder.is_dir():
                raise ValueError(f"{self.folder} is a file, expected a folder for results: give another name")
            self._units.mkdir(parents=True, exist_ok=True)
            self._sweep()
        given = None if config is None else json.loads(_canonical(config, "config"))
        self.config: dict[str, Any] = _agree_on_config(manifest, self._units, given)
        if not resume and (in_doubt := doubts(given)) and any(self._units.glob(f"*{SUFFIX}")):
            raise StoreMismatch(
                f"{self.folder} holds results, and nobody can tell whether they still hold: {', '.join(in_doubt[:3])} "
                "cannot be described, so it may have changed. Pass resume=True if it has not, or give another folder"
            )
        self.fingerprint = _fingerprint(self.config)

    def write(
        self,
        key: str,
        record: Mapping[str, Any],
        arrays: Mapping[str, Tensor] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """Keep a unit, replacing one of the same key.

        Args:
            key: any string of up to about 200 characters.
            record: JSON; NaN and infinite numbers come back as they were.
            arrays: tensors of any dtype.
            files: contents by suffix ("parquet"), for other programs to read. They are part of the unit: their
                checksums are in its header, and they are written before it.
        """
        path, attached = self.path(key), files or {}
        sums = {suffix: hashlib.sha256(content).hexdigest() for suffix, content in attached.items()}
        header = {"schema": SCHEMA, "fingerprint": self.fingerprint, "key": key, "record": record, "files": sums}
        content = _seal(header, arrays or {})
        for suffix, file in self._files(key, sums).items():
            write_atomically(file, attached[suffix])
        write_atomically(path, content)

    def read(self, key: str) -> Unit:
        """The unit of a key, with every byte checked. KeyError if it was never finished or its file is broken."""
        with self._intact(key):
            header, arrays = _open(self.path(key).read_bytes())
            files = self._files(key, self._check(key, header)["files"])
            for suffix, file in files.items():
                if not _holds(file, header["files"][suffix]):
                    raise _Broken(f"its {suffix} file {file.name} is missing or altered")
        return Unit(header["record"], arrays, files)

    def read_record(self, key: str) -> Unit:
        """Record and files of a unit without reading its arrays: only its size is checked. KeyError as in `read`."""
        with self._intact(key):
            header = self._check(key, _header_of(self.path(key)))
        return Unit(header["record"], {}, self._files(key, header["files"]))

    def fault(self, key: str, suffix: str | None = None) -> str:
        """What is wrong with a unit, with every byte checked; empty if nothing is. Nothing is moved.

        Args:
            key: of the unit.
            suffix: check only the file of this suffix that was written beside it.
        """
        path = self.path(key)
        try:
            header = self._check(key, _open(path.read_bytes())[0] if suffix is None else _header_of(path))
        except FileNotFoundError:
            return f"{path.name} is missing"
        except _Broken as error:
            return f"{path.name} is broken: {error}"
        if suffix is None:
            return ""
        file = self._files(key, header["files"])[suffix]
        return "" if _holds(file, header["files"][suffix]) else f"{file.name} is missing or altered"

    def __contains__(self, key: object) -> bool:
        """Whether the unit is finished and intact. Every byte is checked."""
        with contextlib.suppress(KeyError):
            return isinstance(key, str) and bool(self.read(key))
        return False

    def keys(self) -> Iterator[str]:
        """The keys of all finished units, in alphabetical order."""
        paths = sorted(path for path in self._units.glob(f"*{SUFFIX}") if not path.name.startswith("."))
        yield from (key for key in map(_key_of, paths) if key in self)

    __iter__ = keys

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def path(self, key: str) -> Path:
        """Where the unit of a key is, or would be."""
        return self._units / _name_of(key)

    def tidy(self, older_than: float = 0.0) -> None:
        """Remove files that no unit refers to. A writer that was killed, or was second, left them.

        Args:
            older_than: seconds. A younger file may belong to a unit that is just being written.
        """
        wanted: set[Path] = set()
        for unit in self._units.glob(f"*{SUFFIX}"):
            with contextlib.suppress(KeyError):
                wanted.update(self.read_record(_key_of(unit)).files.values())
        for path in self._units.iterdir():
            if path.suffix != SUFFIX and not path.name.startswith(".") and path not in wanted:
                with contextlib.suppress(FileNotFoundError):
                    if not older_than or seconds_since(path) > older_than:
                        path.unlink()

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r}, fingerprint={self.fingerprint[:12]})"

    @contextlib.contextmanager
    def _intact(self, key: str) -> Iterator[None]:
        """KeyError if the unit's file is missing or broken. A broken file is moved aside."""
        try:
            yield
        except FileNotFoundError:
            raise KeyError(key) from None
        except _Broken as error:
            _set_aside(self.path(key), self.folder / "aside", str(error))
            raise KeyError(key) from None

    def _check(self, key: str, header: dict[str, Any]) -> dict[str, Any]:
        if header.get("fingerprint") != self.fingerprint:
            raise _Broken("it belongs to another configuration")
        if header.get("key") != key:
            raise _Broken(f"it is the unit {header.get('key')!r}")
        return header

    def _files(self, key: str, sums: Mapping[str, str]) -> dict[str, Path]:
        """By suffix. Names depend on the contents, so a second writer of the key cannot change files of the first."""
        stem = self.path(key).name.removesuffix(SUFFIX)
        return {suffix: self._units / f"{stem}.{digest[:12]}.{suffix}" for suffix, digest in sums.items()}

    def _sweep(self) -> None:
        """Remove old temporary files, whose writers died."""
        for path in (*self.folder.glob(".*.tmp"), *self._units.glob(".*.tmp")):
            with contextlib.suppress(OSError):
                if seconds_since(path) > ABANDONED:
                    path.unlink()


# ---- the manifest ------------------------------------------------------------------------------------------------


def _agree_on_config(file: Path, units: Path, given: dict[str, Any] | None) -> dict[str, Any]:
    """The folder's configuration. It is written if there is none, else compared with the given one."""
    manifest = _read_manifest(file)
    if manifest is None:
        if given is None:
            raise ValueError(f"the manifest of {file.parent} is broken: give the configuration it was made with")
        _refuse_units_of_others(file.parent, units, given)
        _write_manifest(file, given)
        # Another process may have written its own first.
        manifest = _read_manifest(file) or {"config": given, "leastpath": __version__}
    kept: dict[str, Any] = manifest["config"]
    if given is not None and _fingerprint(given) != _fingerprint(kept):
        raise StoreMismatch(
            f"{file.parent} holds results of another configuration: {'; '.join(differences(kept, given))}. "
            "Give another folder, go back to that configuration, or delete the folder"
        )
    if given is not None and manifest["leastpath"] != __version__:
        warnings.warn(
            f"{file.parent} holds results of leastpath {manifest['leastpath']}, and this is {__version__}: they "
            "are used as they are, but a method may have changed. To compute all again, give another folder",
            UserWarning,
            stacklevel=3,
        )
    return kept


def _read_manifest(file: Path) -> dict[str, Any] | None:
    try:
        manifest: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        intact = manifest["fingerprint"] == _fingerprint(manifest["config"])
        intact = intact and {"leastpath", "schema"} <= manifest.keys()
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        intact = False
    if not intact:
        _set_aside(file, file.parent / "aside", "it lacks a part, or its fingerprint does not fit its configuration")
        return None
    if manifest["schema"] != SCHEMA:
        raise StoreMismatch(
            f"{file.parent} was written in format {manifest['schema']} by leastpath {manifest['leastpath']}, "
            f"this version reads format {SCHEMA}: use that version, or another folder"
        )
    return manifest


def _write_manifest(file: Path, config: dict[str, Any]) -> None:
    manifest = {"schema": SCHEMA, "leastpath": __version__, "fingerprint": _fingerprint(config), "config": config}
    temporary = temporary_beside(file)
    flush_to_disk(temporary, json.dumps(manifest, indent=1).encode())
    try:
        os.link(temporary, file)  # unlike a rename, fails if another process was faster
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _refuse_units_of_others(folder: Path, units: Path, given: dict[str, Any]) -> None:
    """Without a manifest, the units say which configuration they are of."""
    for path in units.glob(f"*{SUFFIX}"):
        with contextlib.suppress(_Broken, OSError):
            if _header_of(path).get("fingerprint") != _fingerprint(given):
                raise StoreMismatch(
                    f"{folder} has lost its manifest and holds {path.name}, a result of another "
                    "configuration: give another folder, or the configuration it was made with"
                )


# ---- files -------------------------------------------------------------------------------------------------------


class _Broken(Exception):
    """What is wrong with a file."""


def _set_aside(path: Path, aside: Path, why: str) -> None:
    target = aside / f"{path.name}.{uuid.uuid4().hex[:8]}"
    try:
        aside.mkdir(exist_ok=True)
        os.replace(path, target)
    except FileNotFoundError:
        return  # another process was faster
    except OSError:
        target = path  # the folder is read-only
    warnings.warn(
        f"{path} is broken: {why}. It was moved to {target.parent.name}/{target.name}, and its unit is not done",
        BrokenUnit,
        stacklevel=5,
    )


def _holds(file: Path, digest: str) -> bool:
    """Whether a file is there and has this checksum. One that another machine has just written may come late."""
    for wait in (0.05, 0.2, 0.5, 0.0):
        with contextlib.suppress(FileNotFoundError):
            return hashlib.sha256(file.read_bytes()).hexdigest() == digest
        time.sleep(wait)
    return False


def _seal(header: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> bytes:
    """A safetensors file. Its metadata hold the header and a checksum of all bytes except its own."""
    save = import_optional("safetensors.torch", "results are kept as safetensors", "io").save
    plain = {name: array.detach().cpu().contiguous() for name, array in arrays.items()}
    if len({array.untyped_storage().data_ptr() for array in plain.values()}) < len(plain):
        plain = {name: array.clone() for name, array in plain.items()}  # safetensors refuses arrays that share memory
    content: bytes = save(plain, metadata={"leastpath": _canonical(header, "record"), "sha256": _NO_DIGEST})
    return _DIGEST.sub(f'"sha256":"{hashlib.sha256(content).hexdigest()}"'.encode(), content, count=1)


def _open(content: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and arrays of a sealed file, with every byte checked."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    end = 8 + _header_size(content, len(content))
    found = _DIGEST.search(content, 0, end)
    if found is None:
        raise _Broken("it holds no checksum")
    digest = hashlib.sha256(content[: found.start(1)] + _NO_DIGEST.encode())
    digest.update(memoryview(content)[found.end(1) :])
    if digest.hexdigest().encode() != found[1]:
        raise _Broken("its checksum does not fit its contents")
    try:
        return _parse_header(content[8:end], len(content)), load(content)
    except SafetensorError as error:
        raise _Broken(f"it is not a safetensors file ({error})") from None


def _header_size(content: bytes, total: int) -> int:
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > total - 8:
        raise _Broken("it is truncated, or not a safetensors file")
    return size


def _header_of(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        total = os.fstat(file.fileno()).st_size
        return _parse_header(file.read(_header_size(file.read(8), total)), total)


def _parse_header(text: bytes, total: int) -> dict[str, Any]:
    """Our part of the file's header. The offsets of the arrays must fit the size of the file."""
    try:
        entries = json.loads(text)
        header = json.loads(entries["__metadata__"]["leastpath"])
        end = max((e["data_offsets"][1] for name, e in entries.items() if name != "__metadata__"), default=0)
        is_ours = header["schema"] == SCHEMA and isinstance(header["record"], dict)
        is_ours = is_ours and all(isinstance(digest, str) for digest in header["files"].values())
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise _Broken("it was not written by a store") from None
    if not is_ours or 8 + len(text) + end != total:
        raise _Broken("it is truncated, or of another format")
    return dict(header)


# ---- names and JSON ----------------------------------------------------------------------------------------------


_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.,=+ ")


def _name_of(key: str) -> str:
    """The key as a file name, also for file systems that do not tell capital from small letters."""
    quoted = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in key.encode())
    quoted = f"%{ord('.'):02x}{quoted[1:]}" if quoted.startswith(".") else quoted
    if not 0 < len(quoted) <= 200:
        raise ValueError(
            f"the key {key[:40]!r}… makes a file name of {len(quoted)} characters, expected 1 to 200: shorten it"
        )
    return quoted + SUFFIX


def _key_of(path: Path) -> str:
    return urllib.parse.unquote(path.name.removesuffix(SUFFIX))


def _canonical(value: Mapping[str, Any], what: str) -> str:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the {what} is not JSON ({error}): use strings, numbers, booleans, None, lists and string-keyed "
            "mappings; tensors belong in arrays, numpy numbers become plain ones with .item()"
        ) from None


def _fingerprint(config: Mapping[str, Any]) -> str:
    return hashlib.sha256(_canonical(config, "config").encode()).hexdigest()


def differences(kept: Any, given: Any, name: str = "") -> list[str]:
    """What differs between two configurations, by key."""
    if isinstance(kept, dict) and isinstance(given, dict):
        found = []
        for key in sorted(kept.keys() | given.keys()):
            found += differences(kept.get(key, _NOTHING), given.get(key, _NOTHING), f"{name}.{key}".lstrip("."))
        return found
    same = _NOTHING not in (kept, given) and json.dumps(kept) == json.dumps(given)
    return [] if same else [f"{name} is {_short(kept)} there and {_short(given)} here"]


_NOTHING = object()


def _short(value: Any) -> str:
    text = "not given" if value is _NOTHING else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"
