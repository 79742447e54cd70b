"""The catalogue: a table of what users do wrong, or what is unusual, and what must come of it.

A case has a group (the public name that it is about), a name, a call and an expected outcome. The outcomes:
`Refused` (a sentence that matches), `Right` (what the oracle says), `Warned` (the answer, and a warning that matches).
A raw error of torch, NumPy or Python is never an expected outcome: it is a hole in a boundary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

LONGEST = 900  # letters of an error: a sentence or three, no dump of numbers


@dataclass(frozen=True)
class Refused:
    """A ValueError (or what the standard says: FileNotFoundError, ImportError) whose words match."""

    match: str
    kind: type[Exception] = ValueError

    def holds_for(self, call: Callable[[], Any]) -> None:
        with pytest.raises(self.kind, match=self.match) as caught:
            call()
        assert len(str(caught.value)) <= LONGEST


@dataclass(frozen=True)
class Right:
    """The call gives what the oracle gives: a tensor, or anything that `==` compares."""

    oracle: Callable[[], Any]
    atol: float = 0.0

    def holds_for(self, call: Callable[[], Any]) -> None:
        found, expected = call(), self.oracle()
        if isinstance(expected, Tensor):
            torch.testing.assert_close(found, expected, rtol=0, atol=self.atol)
        else:
            assert found == expected


@dataclass(frozen=True)
class Case:
    group: str
    name: str
    call: Callable[[], Any]
    expects: Refused | Right

    @property
    def id(self) -> str:
        return f"{self.group}: {self.name}"
