"""Session: what one explorer shows and what has been found so far; and how one is opened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from leastpath._support.version import __version__
from leastpath.explorer.arrays import unpack
from leastpath.explorer.code import python_code
from leastpath.explorer.explaining import (
    LINE,
    Finding,
    cost_of,
    expected_rows,
    kind_of_subject,
    make_finding,
    offered_methods,
    opening_methods,
)
from leastpath.explorer.findings import as_result, correct_verdict, describe, removed_view
from leastpath.explorer.meter import Meter
from leastpath.explorer.prompts import PromptSession, PromptSource
from leastpath.explorer.question import Question
from leastpath.explorer.removal import remove_features
from leastpath.explorer.saved import SavedSession, save_finding
from leastpath.explorer.sources.tensors import TensorSource
from leastpath.explorer.subject import Subject, SubjectSource
from leastpath.explorer.tasks import EMPTY, Task, Unknown, Working, check_mapping
from leastpath.result.attribution import Attribution
from leastpath.score.score import Score

MOST_QUESTIONS = 8


@dataclass(frozen=True)
class Entry:
    """What was found for one key: as the page reads it and, once its removal is measured, the finding itself."""

    about: Mapping[str, Any]
    shown: dict[str, Any]
    finding: Finding | None = None


class Session(Working[Entry]):
    """One source, and the results so far. It keeps no choice: every request says what it is about.

    That is a mapping with any of "sample", "target", "output" and "baseline"; what is not named is as the sample has
    it.
    """

    page = "index.html"

    def __init__(self, source: SubjectSource, methods: Sequence[str] | None = None, sentence: str = "") -> None:
        super().__init__()
        self.source, self.sentence = source, sentence
        self._questions: dict[str, tuple[int, Question]] = {}  # asked lately, so that the model is not asked again
        subject = self.question({})[1].subject
        self.methods = offered_methods(kind_of_subject(subject), methods, subject.shape)
        self.answers = {"choose": self.choose, "remove": self.remove}

    # ---- choices -------------------------------------------------------------------------------------------------

    def question(self, about: Mapping[str, Any]) -> tuple[int, Question]:
        """The number of a sample, and what is asked of it."""
        _check_choice(about)
        name = json.dumps(dict(about), sort_keys=True)
        asked = self._questions.get(name)
        if asked is None:
            sample = about.get("sample", 0)
            if not 0 <= sample < len(self.source.samples):
                raise ValueError(f"sample {sample} is not there: there are 0 to {len(self.source.samples) - 1}")
            choices = (about.get(choice) for choice in ("target", "output", "baseline"))
            asked = sample, Question.about(self.source.subject(sample), *choices)
            self._questions = {**dict(list(self._questions.items())[1 - MOST_QUESTIONS :]), name: asked}
        return asked

    def state(self, about: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
        """What is chosen, and all that may be chosen."""
        sample, question = self.question(about)
        subject = question.subject
        labels = {name: start.label for name, start in subject.starts.items()}
        chosen = ", ".join(labels[name] for name in question.starts)
        return {
            **describe(subject),
            "about": _name_choice(sample, question),
            "sentence": self.sentence,
            "version": __version__,
            "offline": False,
            "samples": [{"name": name} for name in self.source.samples],
            "sample": sample,
            "classes": question.classes(),
            "target": question.target,
            "outputs": list(question.outputs),
            "output": question.output,
            "baselines": [{"name": name, "label": label} for name, label in labels.items()],
            "baseline": list(question.starts),
            "methods": [self._method(name, subject) for name in self.methods],
            "opening": opening_methods(self.methods),
            "fills": [
                {"name": name, "label": chosen if name == "baseline" else labels[name]} for name in question.fills
            ],
            "rank": "signed",
            "score": question.score_here,
            "baseline_score": question.score_there,
            "results": self._keys_of(question, sample),
        }

    def choose(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """The state after a change of what a page is "about". What is not named stays, as far as it fits."""
        change = check_mapping("change", wanted.get("change", {}))
        _check_choice(change)
        shown, old = self.question(check_mapping("about", wanted.get("about", {})))
        sample = change.get("sample", shown)
        kept = _name_choice(shown, old)
        if sample != shown:
            starts = self.question({"sample": sample})[1].subject.starts
            fitting = [name for name in old.starts if name in starts]
            kept = {"output": kept.get("output"), "baseline": fitting or None}
        merged = {**kept, **change}
        return self.state({name: value for name, value in merged.items() if value is not None and value != []})

    def add(self, name: str, content: bytes, about: Mapping[str, Any] = EMPTY) -> dict[str, Any]:
        """A file of the user's becomes a sample, and is shown."""
        number = self.source.add(name, content, Question.about)  # one that cannot be asked about is refused
        return self.choose({"about": about, "change": {"sample": number}})

    # ---- work ----------------------------------------------------------------------------------------------------

    def start(self, wanted: Mapping[str, Any]) -> Task:
        """Begin to explain what is wanted: "about", "method", "stiffness". What is finished already is so at once."""
        name, about = wanted.get("method"), check_mapping("about", wanted.get("about", {}))
        if not isinstance(name, str) or name not in self.methods:
            raise ValueError(f"method {name!r} is not offered here: use one of {', '.join(self.methods)}")
        method = self.methods[name]
        stiffness = _check_stiffness(wanted.get("stiffness")) if "stiffness" in method.defaults else None
        sample, question = self.question(about)
        key, line = question.key(sample, name, stiffness), question.key(sample, LINE, None)
        about = _name_choice(sample, question)

        def work(task: Task) -> tuple[str, bool]:
            known, of_line = (None if entry is None else entry.finding for entry in map(self._found.get, (key, line)))
            if known is None or known.stopped:
                show = partial(self._show_early, key, about, task)
                known = make_finding(question, method, stiffness, task.meter, of_line, show)
                # What the page shows of the walk is kept; its points are as large as forty pictures.
                self._found.put(key, Entry(about, as_result(key, known), replace(known, walk=None)))
            return key, known.stopped

        return self._worker.begin(work, Meter(expected_rows(question, method)), key)

    def start_first(self) -> list[Task]:
        """Begin with what the page asks for first, before it asks."""
        return [self.start({"method": name}) for name in opening_methods(self.methods)]

    # ---- results -------------------------------------------------------------------------------------------------

    def result(self, key: str) -> dict[str, Any]:
        """What was found, and the verdicts of all: each counts how many methods were tried on its question by now."""
        entry = self._found.ask(key)
        if entry.finding is None:
            return entry.shown
        known = {name: (one.shown, one.finding) for name, one in self._found.items() if one.finding is not None}
        found = [finding for _, finding in known.values()]
        said = {name: shown | correct_verdict(finding, found) for name, (shown, finding) in known.items()}
        return said[key] | {"verdicts": {n: {w: one[w] for w in ("headline", "trusted")} for n, one in said.items()}}

    def finding(self, key: str) -> Finding:
        """What was found, as it is."""
        finding = self._found.ask(key).finding
        if finding is None:
            raise Unknown(f"the result {key!r} is not finished: wait for its removal")
        return finding

    def save(self, key: str) -> bytes:
        """A result as a file for `lp.load` and `leastpath explore`."""
        return save_finding(self.finding(key), self.state(self._found.ask(key).about), self.result(key))

    def code(self, about: Mapping[str, Any] = EMPTY) -> str:
        """Python that reproduces what is shown."""
        sample, question = self.question(about)
        findings = [self.finding(key) for key in self._keys_of(question, sample)]
        return python_code(question, [(f.method, f.stiffness) for f in findings])

    def remove(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """What the model says of what a page is "about", without what is "removed" and with its "fill": one forward."""
        question = self.question(check_mapping("about", wanted.get("about", {})))[1]
        subject, fills, fill = question.subject, question.fills, wanted.get("fill", "baseline")
        if not isinstance(fill, str) or fill not in fills:
            raise ValueError(f"fill {fill!r} is unknown: use one of {', '.join(fills)}")
        mask = subject.mask(unpack(wanted.get("removed")))
        filled, logits = remove_features(subject, question.score, mask, fills[fill])
        word = f"[{fill if fill != 'baseline' else next(iter(question.starts))}]"
        picture, text = removed_view(subject, filled, mask, word)
        return {
            "score": question.score_of(logits), "classes": question.classes(logits, 5), "picture": picture,
            "text": text,
        }  # fmt: skip

    def _show_early(self, key: str, about: Mapping[str, Any], task: Task, finding: Finding) -> None:
        self._found.put(key, Entry(about, as_result(key, finding)))
        task.show(key)

    def _keys_of(self, question: Question, sample: int) -> list[str]:
        findings = [(key, entry.finding) for key, entry in self._found.items() if entry.finding is not None]
        return [key for key, f in findings if key == question.key(sample, f.method.name, f.stiffness)]

    def _method(self, name: str, subject: Subject) -> dict[str, Any]:
        method = self.methods[name]
        return {
            "name": name, "label": method.title, "sentence": method.summary, "path": method.has_path,
            "stiffness": "stiffness" in method.defaults, "gradients": cost_of(subject, method),
        }  # fmt: skip


def _name_choice(sample: int, question: Question) -> dict[str, Any]:
    """What a question is about, by names: what asks for it again."""
    chosen = {"target": question.target, "output": question.output if len(question.outputs) > 1 else None}
    known = {name: value for name, value in chosen.items() if value is not None}
    return {"sample": sample, **known, "baseline": list(question.starts)}


def _check_choice(wanted: Mapping[str, Any]) -> None:
    unknown = sorted(set(wanted) - {"sample", "target", "output", "baseline"})
    if unknown:
        raise ValueError(f"{unknown[0]!r} cannot be chosen: choose sample, target, output or baseline")
    for name in ("sample", "target"):
        if name in wanted and type(wanted[name]) is not int:
            raise ValueError(f"{name}={wanted[name]!r} must be a whole number")
    if "output" in wanted and not isinstance(wanted["output"], str):
        raise ValueError(f"output={wanted['output']!r} must be a name")
    names = wanted.get("baseline", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"baseline={names!r} must be a list of names")


def _check_stiffness(stiffness: Any) -> float:
    given = 1.0 if stiffness is None else stiffness
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given < 1e6:
        raise ValueError(f"stiffness={stiffness!r} must be a number from 0: 1.0 is a good start")
    return float(given)


def session_of(
    given: Any,
    inputs: Any = None,
    baselines: Any = None,
    *,
    methods: Sequence[str] | None = None,
    sentence: str = "",
    **about: Any,
) -> Session | SavedSession | PromptSession:
    """A session over a score and inputs, over a source, or over a result; `about` is given to `TensorSource`."""
    if isinstance(given, PromptSource):
        return PromptSession(given, sentence)
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
