"""Registry: a table of what is known by a name, to which users and other packages add their own."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

T = TypeVar("T")


MOST_NAMED = 24  # names that an error lists


class UnknownName(KeyError, ValueError):
    """A table has nothing of this name. It is a KeyError, so `in` and `.get` work as in any mapping."""

    def __str__(self) -> str:  # KeyError would show the repr of the sentence
        return str(self.args[0])


class Registry(Mapping[str, T], Generic[T]):
    """A table name -> thing, in the order in which reports show it. `add` adds to it; nothing is ever removed.

    Installed packages join by entry points. These are read when a name is not found or the table is listed, and one
    that cannot be loaded is a warning: the others stay usable.

    Args:
        what: one of the things, in a word for sentences, such as "method".
        built_in: the library's own things by name, which nobody can change.
        group: of the entry points, such as "leastpath.methods".
        adder: the function that adds to this table, for the sentence that tells of it.
        adopt: makes a thing of what an entry point names, or of what a user gives, and of its name.
    """

    def __init__(
        self,
        what: str,
        built_in: Mapping[str, T],
        *,
        group: str,
        adder: str,
        adopt: Callable[[Any, str], T] = lambda given, name: given,
    ) -> None:
        self.what, self._group, self._adder, self._adopt = what, group, adder, adopt
        self._things = dict(built_in)
        self.built_in = frozenset(built_in)
        """Names whose meaning no user can change."""
        self._read: set[EntryPoint] = set()
        self._searched: list[str] | None = None  # the folders in which entry points were looked for

    def add(self, name: str, thing: T) -> None:
        """Add a thing of a user's own. Adding its name again replaces it."""
        if name in self.built_in:
            raise ValueError(f"{name!r} is a {self.what} of leastpath itself: give yours another name")
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(f"{name!r} is not a {self.what}'s name: use letters, digits, '_', '-' and '.' only")
        self._things[name] = thing

    def __getitem__(self, name: str) -> T:
        name = str(name)  # a list could not even be looked for
        if name not in self._things:
            self._read_entry_points()
        if name not in self._things:
            close = list(self._things)
            if len(close) > MOST_NAMED:
                close = get_close_matches(name, close, n=MOST_NAMED, cutoff=0)  # the most similar first
            known = ", ".join(close) + (f" … ({len(self._things)} in all)" if len(close) < len(self._things) else "")
            own = f"in every process that asks for it, by {self._adder}"
            raise UnknownName(f"no {self.what} is called {name!r}: use one of {known}; or add yours, {own}")
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        self._read_entry_points()
        return iter(self._things)

    def __len__(self) -> int:
        self._read_entry_points()
        return len(self._things)

    def _read_entry_points(self) -> None:
        """Add what installed packages name, each once. Packages are looked for again when `sys.path` has changed."""
        if self._searched == sys.path:
            return
        self._searched = list(sys.path)
        for entry in entry_points(group=self._group):
            if entry in self._read or (entry.name in self._things and entry.name not in self.built_in):
                continue
            self._read.add(entry)
            try:
                self.add(entry.name, self._adopt(entry.load(), entry.name))
            except Exception as error:  # whatever another package raises
                owner = entry.dist.name if entry.dist is not None else entry.value
                words = f"the {self.what} {entry.name!r} of {owner} is left out, as it cannot be loaded"
                warnings.warn(f"{words}: {type(error).__name__}: {error}", UserWarning, stacklevel=3)
