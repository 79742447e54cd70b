"""A library that is there is given, one that is not is named with its extra; import paths give what they name."""

import json

import pytest

from leastpath._support.optional import imported, optional


def test_a_library_that_is_there():
    assert optional("json", "settings are JSON", "io") is json


def test_one_that_is_not_names_the_extra():
    with pytest.raises(ImportError, match=r"x needs y: pip install 'leastpath\[jobs\]'"):
        optional("no_such_library.part", "x needs y", "jobs")


def test_an_import_path_gives_what_it_names():
    assert imported("json:JSONDecoder.decode") is json.JSONDecoder.decode and imported(3) == 3
    with pytest.raises(ValueError, match=r"'json' is not an import path: write package\.module:name"):
        imported("json")
    with pytest.raises(ValueError, match="'json:nothing' cannot be imported"):
        imported("json:nothing")
