"""The notes of a release: the part of CHANGELOG.md that is about this version, or about what is not released yet.

python tools/release_notes.py [VERSION] > dist/NOTES.md
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def notes(changelog: str, version: str) -> str:
    """The section of a version; of "Unreleased" where the version has none yet.

    Example:
        >>> notes("# Changelog\\n\\n## 0.3.0 - today\\n\\n- New.\\n\\n## 0.2.0\\n\\n- Old.\\n", "0.3.0")
        '# leastpath 0.3.0\\n\\n- New.\\n'
    """
    sections = re.split(r"^## ", changelog, flags=re.M)[1:]
    for title in (version, "Unreleased"):
        for section in sections:
            head, _, body = section.partition("\n")
            if re.match(rf"\[?{re.escape(title)}\b", head):
                return f"# leastpath {version}\n\n{body.strip()}\n"
    raise SystemExit(f"CHANGELOG.md has no section of {version}, and none that is unreleased: write one")


if __name__ == "__main__":
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    print(notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), (sys.argv[1:] or [known])[0]), end="")
