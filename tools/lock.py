"""Write requirements.lock: the versions of constraints.txt with the SHA-256 of the file that pip takes for each.

    python tools/lock.py          # asks the package index, and writes the file
    python tools/lock.py --fits   # says yes or no: whether the file is for this kind of machine

One kind of machine is served, the one that CI runs on; on others `make venv` takes the same versions without hashes.
torch is left out: its wheels differ by accelerator, and come from an index of the user's choice.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK, PINS = ROOT / "requirements.lock", ROOT / "constraints.txt"
MACHINE = ("Linux", "x86_64", "3.11")
LEFT_OUT = ("torch",)
HEAD = "# Written by tools/lock.py from constraints.txt, for {} {} and Python {}.\n"


def machine() -> tuple[str, str, str]:
    """This one: system, processor, Python."""
    return platform.system(), platform.machine(), ".".join(platform.python_version_tuple()[:2])


def normal(name: str) -> str:
    """A package's name as indexes spell it.

    Example:
        >>> normal("Pyro_ppl")
        'pyro-ppl'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> set[str]:
    """What an environment with everything has: constraints also name what only some systems need."""
    command = [sys.executable, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603
    return {normal(one["name"]) for one in found}


def pins() -> list[str]:
    """`name==version` of all that is locked."""
    lines = [line.strip() for line in PINS.read_text(encoding="utf-8").splitlines()]
    wanted = installed() - set(LEFT_OUT)
    return [line for line in lines if "==" in line and normal(line.split("==")[0]) in wanted]


def locked() -> str:
    """The file's text, by a dry run of pip."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
    told = subprocess.run([*command, "--report", "-", *pins()], check=True, capture_output=True).stdout  # noqa: S603
    lines = []
    for one in json.loads(told)["install"]:
        name, version = one["metadata"]["name"], one["metadata"]["version"]
        digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
        lines.append(f"{normal(name)}=={version} --hash=sha256:{digest}")
    return HEAD.format(*MACHINE) + "\n".join(sorted(lines)) + "\n"


if __name__ == "__main__":
    if "--fits" in sys.argv:
        print("yes" if machine() == MACHINE else "no")
    elif machine() != MACHINE:
        sys.exit(f"the lock is for {' '.join(MACHINE)}, and this is {' '.join(machine())}")
    else:
        LOCK.write_text(locked(), encoding="utf-8")
