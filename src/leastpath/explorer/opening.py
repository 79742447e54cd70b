"""Opening: from what a user gives to a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leastpath.explorer.saved import SavedSession
from leastpath.explorer.session import Session
from leastpath.explorer.sources.tensors import TensorSource
from leastpath.explorer.subject import SubjectSource
from leastpath.result.attribution import Attribution
from leastpath.score.score import Score


def session_of(
    given: Any,
    inputs: Any = None,
    baselines: Any = None,
    *,
    methods: Sequence[str] | None = None,
    sentence: str = "",
    **about: Any,
) -> Session | SavedSession:
    """A session over a score and inputs, over a source, or over a result; `about` is given to `TensorSource`."""
    if isinstance(given, Attribution):
        return SavedSession(given)
    if isinstance(given, Score):
        if inputs is None:
            raise ValueError("a score needs inputs: lp.explore(score, inputs, baselines)")
        given = TensorSource(given, inputs, baselines, **about)
    if not isinstance(given, SubjectSource):
        raise ValueError(
            f"explore got a {type(given).__name__}, expected a Score, a source or a result: "
            "lp.explore(lp.Score(model, target), inputs)"
        )
    return Session(given, methods, sentence)
