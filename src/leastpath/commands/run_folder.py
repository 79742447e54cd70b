"""RunFolder: what a command leaves behind, and how it goes on after an interruption.

config.json        the command and all that its results depend on
environment.json   versions, machine and time of each start of the command
results/           raw results, a `leastpath._support.store.Store`
figures/           pictures
report.html        everything to be read, in one file
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import platform
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leastpath._support.files import write_atomically
from leastpath._support.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIBRARIES = ("leastpath", "torch", "numpy", "scipy", "scikit-learn", "captum", "pyro-ppl", "matplotlib", "pandas")


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run. Made by `RunFolder.open`.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp()) / "run"
        >>> run = RunFolder.open(place, "moons", {"seeds": [12]})
        >>> run.store.write("net 12", {"accuracy": 0.98})
        >>> "net 12" in RunFolder.open(place, "moons", {"seeds": [12]}, resume=True).store
        True
    """

    path: Path
    store: Store

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], command: str, config: Mapping[str, Any], *, resume: bool = False
    ) -> RunFolder:
        """A new folder, or with `resume` the one of an earlier start with the same configuration.

        Args:
            path: the folder. One that holds anything else is refused, so that no run overwrites another.
            command: the name of the command.
            config: all that the results depend on, as JSON.
            resume: go on with what is there; a folder that does not exist yet is made.
        """
        path = Path(path)
        kept = _kept(path)
        given = {"command": command, **config}
        if kept is not None:
            _check_same(path, kept, given, resume)
        path.mkdir(parents=True, exist_ok=True)
        if kept is None:
            write_atomically(path / "config.json", json.dumps(given, indent=2, ensure_ascii=False).encode() + b"\n")
        run = cls(path, Store(path / "results", given))
        run._note_environment()
        return run

    @property
    def figures(self) -> Path:
        """Where pictures go."""
        return self.path / "figures"

    def save_figure(self, figure: Figure, name: str, *, dpi: int = 150) -> Path:
        """Write figures/<name>.png."""
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=dpi, metadata={"Software": None})
        self.figures.mkdir(exist_ok=True)
        return write_atomically(self.figures / f"{name}.png", picture.getvalue())

    def write(self, name: str, text: str) -> Path:
        """Write a text file, e.g. report.html or table.md. A kill meanwhile leaves the old file or none."""
        return write_atomically(self.path / name, text.encode())

    def _note_environment(self) -> None:
        file = self.path / "environment.json"
        try:
            starts = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            starts = []
        write_atomically(file, json.dumps([*starts, environment()], indent=2, ensure_ascii=False).encode() + b"\n")


def environment() -> dict[str, Any]:
    """Versions, machine and time, as JSON.

    Example:
        >>> "torch" in environment()["versions"]
        True
    """
    import torch

    versions: dict[str, str | None] = {}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "cuda": torch.version.cuda if torch.cuda.is_available() else None,
        "versions": versions,
    }


def default_folder(name: str, resume: bool, *, under: str | os.PathLike[str] = "out") -> Path:
    """Where a command writes if it is not told: out/<name>, or <name>-2 and so on where that exists.

    With `resume`: the last of these.

    Example:
        >>> import tempfile
        >>> default_folder("moons", resume=False, under=tempfile.mkdtemp()).name
        'moons'
    """
    under = Path(under)
    numbered = re.compile(rf"{re.escape(name)}(?:-([0-9]+))?")
    taken = [int(found[1] or 1) for p in under.glob(f"{name}*") if (found := numbered.fullmatch(p.name))]
    last = max(taken, default=0)
    number = max(last, 1) if resume else last + 1
    return under / (name if number == 1 else f"{name}-{number}")


def _kept(path: Path) -> dict[str, Any] | None:
    """The configuration that a folder was made with; None for a new one."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return None
    try:
        kept = json.loads((path / "config.json").read_text(encoding="utf-8"))
        if not isinstance(kept, dict) or "command" not in kept:
            raise ValueError
    except (OSError, ValueError):
        raise ValueError(
            f"{path} exists and is no folder of an earlier run: give a new folder, --out another/folder"
        ) from None
    return kept


def _check_same(path: Path, kept: dict[str, Any], given: dict[str, Any], resume: bool) -> None:
    given = json.loads(json.dumps(given))  # tuples become lists, as in the file
    different = sorted(key for key in kept.keys() | given.keys() if kept.get(key) != given.get(key))
    if different:
        what = "; ".join(f"{key} is {kept.get(key)!r} there and {given.get(key)!r} here" for key in different)
        raise ValueError(f"{path} holds another run: {what}. Give a new folder, --out another/folder")
    if not resume:
        raise ValueError(
            f"{path} holds a run with these settings: go on with it by --resume, or give a new folder, "
            "--out another/folder"
        )
