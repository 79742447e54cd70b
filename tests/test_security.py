"""What SECURITY.md promises of the source itself: nothing unpickles a file, and nothing opens a connection unasked."""

import ast
import re
from pathlib import Path

import pytest

import leastpath as lp

SOURCE = Path(lp.__file__).parent
ROOT = SOURCE.parents[1]
FILES = sorted(SOURCE.rglob("*.py"))
# Work that is handed to our own worker processes through their queue, never through a file.
UNPICKLING = {"jobs/shards.py"}
CONNECTING = ("urllib.request", "requests", "httpx", "socket", "http.client", "ftplib", "smtplib")
SERVING = {"explorer/safety.py", "explorer/server.py", "explorer/session.py", "jobs/lock.py"}  # listen; names of hosts


def name_of(file: Path) -> str:
    return file.relative_to(SOURCE).as_posix()


def calls_in(file: Path):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}


def test_nothing_that_loads_runs_code():
    for name, called, settings in ((name_of(file), *call) for file in FILES for call in calls_in(file)):
        assert called not in ("eval", "exec", "compile", "os.system"), f"{name} calls {called}"
        if called == "torch.load":
            assert settings.get("weights_only") == "True", name
        if called in ("np.load", "numpy.load"):
            assert settings.get("allow_pickle", "False") == "False", name
        if re.fullmatch(r"(pickle|cloudpickle|dill|joblib|marshal|shelve)\.(load|loads|open)", called):
            assert name in UNPICKLING, f"{name} calls {called}"
        if called.endswith("from_pretrained"):
            said = (
                settings.get("local_files_only") == "True" or '"local_files_only": True' in (SOURCE / name).read_text()
            )
            assert said, f"{name} could ask a hub"


def imports_in(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_nothing_connects():
    connecting = {name_of(file) for file in FILES if imports_in(file) & set(CONNECTING)}
    assert connecting <= SERVING, connecting - SERVING


def test_the_page_names_tests_that_exist():
    page = ROOT / "SECURITY.md"
    if not page.exists():
        pytest.skip("an installed package has no SECURITY.md beside it")
    named = re.findall(r"`(tests/[\w/.]+)`", page.read_text(encoding="utf-8"))
    assert named and [name for name in named if not (ROOT / name).exists()] == []


def test_every_version_that_is_locked_by_its_hash_is_the_one_that_is_pinned():
    """Oracle: constraints.txt. torch, whose build is the user's choice, is pinned and not locked."""
    pins = set(re.findall(r"^([\w.-]+==\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8").lower(), re.M))
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()[1:]
    locked = {line.split(" --hash=sha256:")[0] for line in lines}
    assert all(re.fullmatch(r"[\w.-]+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    assert {name.replace("_", "-") for name in pins} >= locked and not any(name.startswith("torch=") for name in locked)
    assert len(locked) > 100
