"""A library that is there is given, one that is not is named with its extra."""

import json

import pytest

from leastpath._support.optional import optional


def test_a_library_that_is_there():
    assert optional("json", "settings are JSON", "io") is json


def test_one_that_is_not_names_the_extra():
    with pytest.raises(ImportError, match=r"x needs y: pip install 'leastpath\[jobs\]'"):
        optional("no_such_library.part", "x needs y", "jobs")
