"""The layout of the project: every source file has its test file, and no module hides a public name."""

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
