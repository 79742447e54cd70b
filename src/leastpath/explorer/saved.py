"""Saved results in the explorer: shown as they are, without their model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

import torch
from torch import Tensor

from leastpath._support.version import __version__
from leastpath.explorer.arrays import is_array, map_leaves, pack, unpack
from leastpath.explorer.explaining import Finding
from leastpath.explorer.findings import describe, frames_of, show_result
from leastpath.explorer.subject import Subject, View, plain_subject
from leastpath.explorer.tasks import EMPTY, Unknown, check_mapping
from leastpath.explorer.uploads import refusing
from leastpath.explorer.walk import PLACES
from leastpath.features.groups import kind_of_shape
from leastpath.removal.curves import Rank
from leastpath.result.attribution import Attribution
from leastpath.result.files import packed_fields
from leastpath.score.score import Score

READ_ONLY = "this is a saved result without its model, so it can only be looked at: explain anew with lp.explore"
NO_PATH = "This result has no path to walk along."
PATH_ONLY = (
    "Where the path goes. The score along it is not in the file: save the result from the explorer's page to keep it."
)
SENTENCE = "A saved result, without its model."
SAVED_RANK: Rank = "signed"
_LISTS = ("samples", "shape", "features", "channels", "classes", "outputs", "baselines", "baseline", "methods", "fills")
KEPT_STATE: Mapping[str, type] = {
    "kind": str, "title": str, "output": str, "rank": str, "sample": int, **dict.fromkeys(_LISTS, list),
}  # fmt: skip
KEPT_RESULT: Mapping[str, type] = {
    **dict.fromkeys(("key", "method", "label", "headline", "status"), str), "values": dict, "evidence": list,
    "order": list, "curves": dict,
}  # fmt: skip


def save_finding(finding: Finding, state: Mapping[str, Any], shown: Mapping[str, Any]) -> bytes:
    """A finding as a file for `lp.load`, with what the page shows of it, so that the explorer can open it again."""
    result = finding.result
    found = {field.name: getattr(result, field.name) for field in fields(result)}
    page = {"state": _with_tensors({**state, "offline": True}), "result": _with_tensors(shown)}
    return packed_fields({**found, "stats": {**result.stats, "explorer": page}})


class SavedSession:
    """A result that is shown as it is. It answers what a session answers, and refuses what needs a model."""

    page = "index.html"

    def __init__(self, result: Attribution, title: str = "saved result") -> None:
        self.answers = {"choose": self.choose, "remove": self._refuse}
        with refusing(title, "saved result"):  # whoever wrote it
            self._open(result, title)

    def _open(self, result: Attribution, title: str) -> None:
        page = result.stats.get("explorer")
        if page is not None:
            state, shown = _check_page(page)
            state = {**state, "results": [shown["key"]], "sentence": SENTENCE, "offline": True}
            self._states, self._results = [state], {shown["key"]: shown}
            return
        if not isinstance(result.values, Tensor):
            raise ValueError("the saved result explains several inputs, and the explorer shows one: use result.values")
        if not result.values.numel() or len(result.values) != len(result.status):
            raise ValueError(f"it holds values of {len(result.values)} examples and {len(result.status)} statuses")
        self._whole, self._title, self._results = result, title, {}
        examples = range(len(result.values))
        names = [{"name": f"example {b}"} for b in examples]
        self._states = [_state(result, _subject(result, b, title), b, names) for b in examples]

    def start_first(self) -> None:
        """All is there already."""

    finish_first = start_first

    def close(self) -> None:
        """Nothing runs."""

    def state(self, about: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
        """What is shown of an example of the result. All else needs the model."""
        sample = about.get("sample", 0)
        if not set(about) <= {"sample"} or type(sample) is not int or not 0 <= sample < len(self._states):
            raise ValueError(READ_ONLY)
        return {**self._states[sample], "about": {"sample": sample}}

    def choose(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Another example."""
        return self.state(check_mapping("change", wanted.get("change", {})))

    def result(self, key: str) -> dict[str, Any]:
        """What was saved, as the page reads it."""
        if key not in self._results:
            known = [b for b, state in enumerate(self._states) if key in state["results"]]
            if not known:
                raise Unknown(f"no result is called {key!r}")
            with refusing(self._title, "saved result"):
                subject = _subject(self._whole, known[0], self._title)
                self._results = {key: _show_saved(self._whole, subject, known[0])}  # one at a time: frames are large
        return self._results[key]

    def code(self, about: Mapping[str, Any] = EMPTY) -> str:
        """How the file is opened in Python."""
        return f"import leastpath as lp\n\nresult = lp.load({self._states[0]['title']!r})\nprint(result)\n"

    def _refuse(self, *_: Any) -> Any:
        """It needs the model."""
        raise ValueError(READ_ONLY)

    add = start = _refuse

    def task(self, name: str, seen: str | None = None, patience: float = 0.0) -> dict[str, Any]:
        """There is none."""
        raise Unknown(f"no task is called {name!r}")

    stop = leave = task

    def save(self, key: str) -> bytes:
        """Refused: it is a file already."""
        raise ValueError("this result is saved already: copy its file")


def _check_page(page: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a page kept of itself: state and result, if they have what a page reads."""
    state, shown = (_check_part(page, name, kinds) for name, kinds in (("state", KEPT_STATE), ("result", KEPT_RESULT)))
    if not is_array(shown["values"]) or state["kind"] not in get_args(View):
        raise ValueError("the page that it holds has no values, or is of no known kind")
    json.dumps([state, shown])  # as the page will read it: what is no JSON is refused here
    return state, shown


def _check_part(page: Any, name: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    part = _with_arrays(page.get(name)) if isinstance(page, Mapping) else None
    held = part if isinstance(part, dict) else {}
    wrong = [key for key, kind in kinds.items() if not isinstance(held.get(key), kind)]
    if wrong:
        raise ValueError(f"the page that it holds lacks {name}[{wrong[0]!r}], or has it wrong")
    return held


def _subject(result: Attribution, b: int, title: str) -> Subject:
    """What a result tells of its input: the end of its path; zeros where it has none."""
    values = result.values
    assert isinstance(values, Tensor)
    shape = values.shape[1:]
    m = 1 if result.path is None else len(result.path) // len(values)
    inputs = torch.zeros(1, *shape) if result.path is None else result.path.end[b * m : b * m + 1].float().cpu()
    kind: View = "image" if kind_of_shape(shape) == "image" else "text" if len(shape) == 2 else "table"
    return plain_subject(kind, title, Score(_no_model), inputs, starts={})


def _no_model(points: Tensor) -> Tensor:
    raise ValueError(READ_ONLY)


def _state(result: Attribution, subject: Subject, b: int, names: list[dict[str, str]]) -> dict[str, Any]:
    method = {"name": "saved", "label": _label(result), "sentence": result.method, "path": False, "stiffness": False}
    return {
        **describe(subject), "sentence": SENTENCE, "version": __version__, "offline": True, "samples": names,
        "sample": b, "classes": [], "target": None, "outputs": ["saved"], "output": "saved",
        "baselines": [{"name": "saved", "label": "as saved"}], "baseline": ["saved"],
        "methods": [{**method, "gradients": int(result.n_gradients[b])}], "fills": [], "rank": SAVED_RANK,
        "opening": [], "score": None, "baseline_score": None, "results": [f"saved-{b}"],
    }  # fmt: skip


def _label(result: Attribution) -> str:
    return result.method.partition("(")[0]


def _show_saved(result: Attribution, subject: Subject, b: int) -> dict[str, Any]:
    one = Attribution(**{field.name: _row(result, field.name, b) for field in fields(result)})
    return {
        "key": f"saved-{b}", "method": "saved", "label": _label(result), "stiffness": None, "stopped": False,
        **show_result(subject, one, SAVED_RANK), "walk": _walk_of_path(result, subject, b),
        "sentence_walk": NO_PATH if result.path is None else PATH_ONLY, "curves": {},
    }  # fmt: skip


def _walk_of_path(result: Attribution, subject: Subject, b: int) -> dict[str, Any] | None:
    """Where the path goes. What the score says there is not in the file."""
    if result.path is None:
        return None
    m = len(result.path) // len(result.status)
    own = result.path.select(torch.arange(b * m, (b + 1) * m))
    places = torch.linspace(0, 1, PLACES, dtype=torch.float64)
    points, start = own.at(places).float().mean(0), own.start.float().mean(0, keepdim=True)
    return {
        "positions": places.tolist(), "scores": None, "gradient_norms": None, "attributed": None, "idle": [],
        "frames": pack(frames_of(subject, points, start)), "cumulative": None,
    }  # fmt: skip


def _row(result: Attribution, name: str, b: int) -> Any:
    value, batch = getattr(result, name), len(result.status)
    if name == "stats":
        line = value.get("line_support")
        return {"line_support": line[b : b + 1]} if isinstance(line, Tensor) and len(line) == batch else {}
    if name == "path" or not isinstance(value, (Tensor, tuple)):
        return value
    return value[b : b + 1]


def _with_tensors(value: Any) -> Any:
    """Arrays of the page as tensors, which a file keeps without base64."""
    return map_leaves(value, lambda leaf: unpack(leaf) if is_array(leaf) else leaf)


def _with_arrays(value: Any) -> Any:
    """The inverse."""
    return map_leaves(value, lambda leaf: pack(leaf) if isinstance(leaf, Tensor) else leaf)
