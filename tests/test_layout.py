"""The layout of the project: every source file has its test file, and no module hides a public name."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import leastpath as lp

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    [*(ROOT / "src" / "leastpath").rglob("*.py"), *(ROOT / "studies").rglob("*.py")],
)
# Nothing of their own to test: names that are passed on, and the doors of `python -m`.
WITHOUT_TESTS = {"__init__.py", "__main__.py"}


def mirror_of(source: Path) -> Path:
    inner = source.relative_to(ROOT / "src" / "leastpath") if "src" in source.parts else source.relative_to(ROOT)
    return ROOT / "tests" / inner.parent / f"test_{inner.name}"


@pytest.mark.parametrize(
    "source", [s for s in SOURCES if s.name not in WITHOUT_TESTS], ids=lambda s: str(s.relative_to(ROOT))
)
def test_every_source_file_has_its_test_file(source):
    assert mirror_of(source).exists(), f"write {mirror_of(source).relative_to(ROOT)}"


def test_no_module_is_called_like_a_public_function():
    functions = {name for name in lp.__all__ if callable(getattr(lp, name)) and name.islower()}
    modules = {path.stem for path in (ROOT / "src" / "leastpath").iterdir()}
    assert not functions & modules


MODULES = sorted((ROOT / "src" / "leastpath").rglob("*.py"))
MOST_BODY, MOST_CLASS, MOST_FILE = 60, 250, 720  # lines


@pytest.mark.parametrize("source", MODULES, ids=lambda s: str(s.relative_to(ROOT)))
def test_functions_classes_and_files_stay_short(source):
    text = source.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_FILE, "make two files of it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            assert node.end_lineno - node.lineno < MOST_CLASS, f"{node.name}: make two classes of it"
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert lines <= MOST_BODY, f"{node.name}: make two functions of it"


def test_doors_are_few():
    """Files at the top are what users import: the verb and the adapters."""
    assert len([path for path in (ROOT / "src" / "leastpath").glob("*.py") if not path.name.startswith("_")]) <= 12


def test_classifiers_name_the_versions_that_the_workflow_tests():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    tested = re.findall(r'"(3\.\d+)"', re.search(r"python: \[.*\]", workflow)[0])
    said = [c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    lowest = next(need for need in project["dependencies"] if need.startswith("torch")).partition(">=")[2]
    assert said == tested and f"torch=={lowest}.*" in workflow


def test_the_workflow_asks_for_targets_that_the_makefile_has():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    asked = set(re.findall(r"run: make (\w+)", workflow))
    assert asked >= {"lint", "types", "docs", "unit", "release", "site"}
    assert asked <= set(re.findall(r"^(\w+):.*##", makefile, re.M))
    assert workflow.count("runs-on:") == workflow.count("timeout-minutes:")
