"""Run the tutorials and write them as pages: docs/tutorials/*.py -> docs/_generated/tutorials/*.md and *.png.

    python docs/build_tutorials.py [NAME …]

A tutorial is a plain script in cells (`# %%`, and `# %% [markdown]` for prose), so that it also runs by itself and
opens as a notebook in most editors; beside its page lies the same as a notebook, NAME.ipynb. What a cell prints stands
below it, and so does every PNG that it writes. Where a library is missing, the cell's picture is that of
docs/tutorials/kept/, with the text of the same name. Sphinx runs this before it reads the pages; a script is run again
only when it or the library has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

DOCS = Path(__file__).parent
SCRIPTS, PAGES = DOCS / "tutorials", DOCS / "_generated" / "tutorials"
LIBRARY = DOCS.parent / "src" / "leastpath"
KEPT = SCRIPTS / "kept"
CELL = re.compile(r"^# %%(?P<kind>.*)$", re.M)


def cells(script: str) -> list[tuple[bool, int, str]]:
    """Whether a cell is prose, the line it begins at, and its text."""
    marks = list(CELL.finditer(script))
    if not marks or script[: marks[0].start()].strip():
        raise ValueError("a tutorial begins with a cell: # %% [markdown]")
    ends = [mark.start() for mark in marks[1:]] + [len(script)]
    found = []
    for mark, end in zip(marks, ends, strict=True):
        body = script[mark.end() : end].strip("\n")
        found.append(("markdown" in mark["kind"], script.count("\n", 0, mark.end()) + 1, body))
    return found


def prose(body: str) -> str:
    return "\n".join(re.sub(r"^# ?", "", line) for line in body.splitlines())


def run_cell(code: str, line: int, file: Path, namespace: dict[str, object]) -> str:
    """Execute one cell; what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * line + code, str(file), "exec"), namespace)
    return printed.getvalue()


def page(file: Path, folder: Path) -> str:
    """The page of one script; its pictures go to `folder`, which is the working directory meanwhile."""
    parts: list[str] = []
    namespace: dict[str, object] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        for is_prose, line, body in cells(file.read_text(encoding="utf-8")):
            if is_prose:
                parts.append(prose(body))
                continue
            before = set(folder.glob("*.png"))
            printed = run_cell(body, line, file, namespace)
            parts.append(f"```{{code-block}} python\n{body}\n```")
            if printed.strip():
                parts.append(f"```{{code-block}} text\n{printed.rstrip()}\n```")
            drawn = sorted(set(folder.glob("*.png")) - before, key=lambda png: png.stat().st_mtime_ns)
            if not drawn:
                parts += kept_parts(body, folder)
            parts += [f"![{re.sub('[-_]', ' ', png.stem)}]({png.name})" for png in drawn]
    return "\n\n".join(parts) + "\n"


def notebook(script: str) -> str:
    """The script as a Jupyter notebook, without outputs."""

    def cell(number: int, is_prose: bool, text: str) -> dict[str, object]:
        source = (prose(text) if is_prose else text).splitlines(keepends=True)
        kind = {"cell_type": "markdown"} if is_prose else {"cell_type": "code", "execution_count": None, "outputs": []}
        return {**kind, "id": f"cell-{number}", "metadata": {}, "source": source}

    found = [cell(number, is_prose, body) for number, (is_prose, _, body) in enumerate(cells(script))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps({"cells": found, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def kept_parts(code: str, folder: Path) -> list[str]:
    """What a cell drew and printed where all it needs is installed, if that was kept."""
    parts = []
    for name in re.findall(r'savefig\(\s*"([^"]+)\.png"', code):
        picture = KEPT / f"{name}.png"
        if picture.exists():
            shutil.copy(picture, folder)
            printed = picture.with_suffix(".txt").read_text(encoding="utf-8").rstrip()
            parts.append("Where it is installed, this is printed and drawn (kept from such a run):")
            parts += [f"```{{code-block}} text\n{printed}\n```", f"![{re.sub('[-_]', ' ', name)}]({picture.name})"]
    return parts


def fingerprint(file: Path) -> str:
    """Changes with the script, the library and this builder."""
    digest = hashlib.sha256()
    for source in (file, Path(__file__), *sorted(LIBRARY.rglob("*.py"))):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def build(file: Path) -> None:
    """Run one tutorial, unless its page is up to date."""
    target, stamp = PAGES / f"{file.stem}.md", PAGES / f".{file.stem}.stamp"
    key = fingerprint(file)
    if target.exists() and stamp.exists() and stamp.read_text() == key:
        return
    PAGES.mkdir(parents=True, exist_ok=True)
    for old in PAGES.glob(f"{file.stem}-*.png"):  # a tutorial's pictures begin with its name
        old.unlink()
    began = time.perf_counter()
    script = file.read_text(encoding="utf-8")
    (PAGES / f"{file.stem}.ipynb").write_text(notebook(script), encoding="utf-8")
    link = f"{{download}}`This page as a notebook <{file.stem}.ipynb>`"
    target.write_text(f"{page(file, PAGES.resolve())}\n{link}\n", encoding="utf-8")
    stamp.write_text(key)
    print(f"tutorial {file.stem}: {time.perf_counter() - began:.1f} s")


def build_all(names: list[str] | None = None) -> None:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    for page_of_none in [one for one in PAGES.glob("*.md") if not (SCRIPTS / f"{one.stem}.py").exists()]:
        page_of_none.unlink()  # its tutorial is gone
    for file in sorted(SCRIPTS.glob("*.py")):
        if not names or file.stem in names:
            build(file)


if __name__ == "__main__":
    build_all(sys.argv[1:])
