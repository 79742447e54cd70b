"""A table by name: what is built in stays, and what users and installed packages add joins it."""

import pytest

from leastpath._support.registry import Registry, UnknownName

GROUP = "leastpath.example"


def table(**more):
    return Registry("number", {"one": 1, "two": 2}, group=GROUP, adder="example.register", **more)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package: its code, and its entry points as pip writes them."""

    def installed(name, code, entries):
        folder = tmp_path / name
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{name}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{entry} = {value}" for entry, value in entries.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))
        monkeypatch.syspath_prepend(folder)

    return installed


def test_it_is_a_mapping_in_order():
    numbers = table()
    numbers.add("zero", 0)
    assert dict(numbers) == {"one": 1, "two": 2, "zero": 0} and list(numbers)[-1] == "zero"
    assert len(numbers) == 3 and "zero" in numbers and numbers.get("four") is None


def test_a_users_own_can_be_replaced_and_what_is_built_in_cannot():
    numbers = table()
    numbers.add("zero", 0)
    numbers.add("zero", 0.0)
    assert numbers["zero"] == 0.0 and numbers.built_in == {"one", "two"}
    with pytest.raises(ValueError, match="'one' is a number of leastpath itself: give yours another name"):
        numbers.add("one", 1)
    with pytest.raises(ValueError, match="'a b' is not a number's name: use letters"):
        numbers.add("a b", 3)


def test_an_unknown_name_says_what_is_known_and_how_to_add():
    with pytest.raises(
        UnknownName, match=r"no number is called 'four': use one of one, two; or add yours, .* by example.reg"
    ):
        table()["four"]


def test_installed_packages_join_by_their_entry_points(install):
    numbers = table(adopt=lambda given, name: given + len(name))
    assert list(numbers) == ["one", "two"]
    install("thirds", "three = 3\n", {"three": "thirds:three"})
    assert numbers["three"] == 3 + 5  # a name that was not found
    install("fourths", "four = 4\n", {"four": "fourths:four"})
    assert list(numbers) == ["one", "two", "three", "four"]  # a table that is listed


def test_a_broken_package_is_a_warning_with_its_name_and_breaks_nothing(install):
    numbers = table()
    install("broken", "raise RuntimeError('no licence')\n", {"half": "broken:half", "one": "broken:one"})
    install("sound", "three = 3\n", {"three": "sound:three", "gone": "sound:gone"})
    with pytest.warns(UserWarning) as warned:
        assert numbers["three"] == 3
    said = sorted(str(w.message) for w in warned)
    assert [" ".join(words.split()[:5]) for words in said] == [
        "the number 'gone' of sound", "the number 'half' of broken", "the number 'one' of broken",
    ]  # fmt: skip
    assert "RuntimeError: no licence" in said[1]
    assert dict(numbers) == {"one": 1, "two": 2, "three": 3}  # and no second warning


def test_what_a_user_added_stands_before_what_a_package_names(install):
    numbers = table()
    numbers.add("three", "mine")
    install("thirds", "three = 3\n", {"three": "thirds:three"})
    assert numbers["three"] == "mine" and dict(numbers)["three"] == "mine"
