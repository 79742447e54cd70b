"""A library that is there is given, one that is not is named with its extra; import paths give what they name."""

import json

import pytest

from leastpath._support.optional import import_by_name, import_optional


def test_a_library_that_is_there():
    assert import_optional("json", "settings are JSON", "io") is json


def test_one_that_is_not_names_the_extra():
    with pytest.raises(ImportError, match=r"x needs y: pip install 'leastpath\[jobs\]'"):
        import_optional("no_such_library.part", "x needs y", "jobs")


def test_an_import_path_gives_what_it_names():
    assert import_by_name("json:JSONDecoder.decode") is json.JSONDecoder.decode and import_by_name(3) == 3
    with pytest.raises(ValueError, match=r"'json' is not an import path: write package\.module:name"):
        import_by_name("json")
    with pytest.raises(ValueError, match="'json:nothing' cannot be imported"):
        import_by_name("json:nothing")
