"""RunFolder: what a command writes, and how it continues after an interruption.

config.json        the command and all that its results depend on
environment.json   versions, machine and time of each start of the command
results/           raw results, a `leastpath._support.store.Store`
figures/           pictures
report.html        the report, in one file
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
from leastpath._support.store import Store, differences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from leastpath.report import Report

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
            path: the folder. A folder with other contents is refused, so that no run overwrites another.
            command: the name of the command.
            config: all that the results depend on, as JSON.
            resume: continue an earlier run; a folder that does not exist is made.
        """
        path = Path(path)
        given = {"command": command, **config}
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            _check_same(path, given, resume)
        else:
            path.mkdir(parents=True, exist_ok=True)
            write_atomically(path / "config.json", _json(given))
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

    def show(self, report: Report, figure: Figure, name: str, caption: str, *, dpi: int = 120) -> None:
        """Write figures/<name>.png and put the same picture into the report."""
        report.image(self.save_figure(figure, name, dpi=dpi).read_bytes(), caption)

    def write(self, name: str, text: str) -> Path:
        """Write a text file, such as report.html or table.md. After a kill there is the old file or none."""
        return write_atomically(self.path / name, text.encode())

    def _note_environment(self) -> None:
        file = self.path / "environment.json"
        try:
            starts = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            starts = []
        write_atomically(file, _json([*starts, environment()]))


def environment() -> dict[str, Any]:
    """Versions, machine and time, as JSON."""
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
    """The default folder of a command: out/<name>, or <name>-2 and so on where that exists.

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


def _check_same(path: Path, given: dict[str, Any], resume: bool) -> None:
    """Refuse a folder of something else, of another configuration, or of the same one without `resume`."""
    try:
        kept = json.loads((path / "config.json").read_text(encoding="utf-8"))
        is_run = isinstance(kept, dict) and "command" in kept
    except (OSError, ValueError):
        is_run = False
    if not is_run:
        raise ValueError(f"{path} is not the folder of an earlier run: give a new folder, --out another/folder")
    different = differences(kept, json.loads(_json(given)))  # tuples become lists, as in the file
    if different:
        raise ValueError(f"{path} holds another run: {'; '.join(different)}. Give a new folder, --out another/folder")
    if not resume:
        raise ValueError(
            f"{path} holds a run with these settings: continue it with --resume, or give a new folder, "
            "--out another/folder"
        )


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
