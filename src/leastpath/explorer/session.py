"""Session: what one explorer shows, the choices made in it, and what has been found so far; and how one is opened."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from leastpath._support.version import __version__
from leastpath.explorer.arrays import unpack
from leastpath.explorer.code import python_code
from leastpath.explorer.explaining import QUICK, Finding, cost_of, expected_rows, make_finding, offered_methods
from leastpath.explorer.findings import as_result, correct_verdict, describe, removed_view
from leastpath.explorer.meter import Meter
from leastpath.explorer.question import Question
from leastpath.explorer.removal import remove_features
from leastpath.explorer.saved import SavedSession, save_finding
from leastpath.explorer.sources.tensors import TensorSource
from leastpath.explorer.subject import Subject, SubjectSource
from leastpath.explorer.tasks import Task, Unknown, Worker
from leastpath.result.attribution import Attribution
from leastpath.score.score import Score

T = TypeVar("T")
MOST_KEPT = 60  # results; the oldest go first


class Session:
    """One source, one choice of sample, class, output and baselines, and the results so far."""

    def __init__(self, source: SubjectSource, methods: Sequence[str] | None = None, sentence: str = "") -> None:
        self.source, self.sentence = source, sentence
        self.methods = offered_methods(source.kind, methods)
        self._lock = threading.RLock()
        self.chosen = 0, Question.about(source.subject(0))
        """The number of the sample, and what is asked of it."""
        self._findings: dict[str, Finding] = {}
        self._shown: dict[str, dict[str, Any]] = {}
        self._worker = Worker()

    def close(self) -> None:
        """Stop all work."""
        self._worker.close()

    # ---- choices -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """What is chosen, and all that may be chosen."""
        sample, question = self.chosen
        subject = question.subject
        labels = {name: start.label for name, start in subject.starts.items()}
        chosen = ", ".join(labels[name] for name in question.starts)
        return {
            **describe(subject),
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
            "fills": [
                {"name": name, "label": chosen if name == "baseline" else labels[name]} for name in question.fills
            ],
            "rank": "signed",
            "score": question.score_here,
            "baseline_score": question.score_there,
            "results": self._keys_of(question, sample),
        }

    def choose(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Another sample, class, output or baseline. What is not named stays, as far as it fits."""
        unknown = sorted(set(wanted) - {"sample", "target", "output", "baseline"})
        if unknown:
            raise ValueError(f"{unknown[0]!r} cannot be chosen: choose sample, target, output or baseline")
        _check_choice(wanted)
        with self._lock:
            shown, old = self.chosen
            sample = wanted.get("sample", shown)
            if not 0 <= sample < len(self.source.samples):
                raise ValueError(f"sample {sample} is not there: there are 0 to {len(self.source.samples) - 1}")
            subject = old.subject if sample == shown else self.source.subject(sample)
            kept = [name for name in old.starts if name in subject.starts]
            target = wanted.get("target", old.target if sample == shown else None)
            output = wanted.get("output", old.output if len(old.outputs) > 1 else None)
            self.chosen = sample, Question.about(subject, target, output, wanted.get("baseline") or kept or None)
        return self.state()

    def add(self, name: str, content: bytes) -> dict[str, Any]:
        """A file of the user's becomes a sample, and is shown."""
        with self._lock:
            number = self.source.add(name, content)
        return self.choose({"sample": number})

    # ---- work ----------------------------------------------------------------------------------------------------

    def start(self, name: Any, stiffness: Any = None) -> Task:
        """Begin to explain what is chosen by a method. One that is finished already is finished at once."""
        if not isinstance(name, str) or name not in self.methods:
            raise ValueError(f"method {name!r} is not offered here: use one of {', '.join(self.methods)}")
        method = self.methods[name]
        stiffness = _check_stiffness(stiffness) if "stiffness" in method.defaults else None
        sample, question = self.chosen
        key, line = question.key(sample, name, stiffness), question.key(sample, QUICK, None)

        def work(task: Task) -> tuple[str, bool]:
            if key not in self._findings or self._findings[key].stopped:
                show = partial(self._show_early, key, task)
                finding = make_finding(question, method, stiffness, task.meter, self._findings.get(line), show)
                self._keep(key, finding)
            return key, self._findings[key].stopped

        return self._worker.begin(work, Meter(expected_rows(question, method)), key)

    def start_first(self) -> None:
        """Begin with what the page asks for first, before it asks."""
        if self.methods:
            self.start(next(iter(self.methods)))

    def task(self, name: str, seen: str | None = None, patience: float = 0.0) -> dict[str, Any]:
        """How far a task has come. Where that is no more than `seen`, some seconds are waited for news."""
        task = self._worker.find(name)
        task.wait_for_news(seen, patience)
        return task.status()

    def stop(self, name: str) -> dict[str, Any]:
        """Ask a task to stop. One that has not begun never does."""
        task = self._worker.find(name)
        task.meter.stop()
        return task.status()

    # ---- results -------------------------------------------------------------------------------------------------

    def result(self, key: str) -> dict[str, Any]:
        """What was found, as the page reads it. Its verdict counts how many methods were tried on the same question."""
        shown = self._look_up(key, self._shown)
        with self._lock:
            finding, all_found = self._findings.get(key), list(self._findings.values())
        return shown if finding is None else shown | correct_verdict(finding, all_found)

    def finding(self, key: str) -> Finding:
        """What was found, as it is."""
        return self._look_up(key, self._findings)

    def _look_up(self, key: str, found: Mapping[str, T]) -> T:
        with self._lock:
            if key not in found:
                raise Unknown(f"no result is called {key!r}: explain first")
            return found[key]

    def save(self, key: str) -> bytes:
        """A result as a file for `lp.load` and `leastpath explore`."""
        return save_finding(self.finding(key), self.state(), self.result(key))

    def code(self) -> str:
        """Python that reproduces what is shown."""
        sample, question = self.chosen
        findings = [self.finding(key) for key in self._keys_of(question, sample)]
        return python_code(question, [(f.method, f.stiffness) for f in findings])

    def remove(self, removed: Any, fill: Any) -> dict[str, Any]:
        """What the model says without some features: one forward."""
        question = self.chosen[1]
        subject, fills = question.subject, question.fills
        if not isinstance(fill, str) or fill not in fills:
            raise ValueError(f"fill {fill!r} is unknown: use one of {', '.join(fills)}")
        mask = subject.mask(unpack(removed))
        filled, logits = remove_features(subject, question.score, mask, fills[fill])
        word = f"[{fill if fill != 'baseline' else next(iter(question.starts))}]"
        picture, text = removed_view(subject, filled, mask, word)
        return {
            "score": question.score_of(logits), "classes": question.classes(logits, 5), "picture": picture,
            "text": text,
        }  # fmt: skip

    def _show_early(self, key: str, task: Task, finding: Finding) -> None:
        shown = as_result(key, finding)
        with self._lock:
            self._shown[key] = shown
        task.show(key)

    def _keep(self, key: str, finding: Finding) -> None:
        shown = as_result(key, finding)
        with self._lock:
            self._findings[key], self._shown[key] = finding, shown
            while len(self._shown) > MOST_KEPT:
                oldest = next(iter(self._shown))
                del self._shown[oldest]
                self._findings.pop(oldest, None)  # none where removal failed

    def _keys_of(self, question: Question, sample: int) -> list[str]:
        with self._lock:
            return [key for key, f in self._findings.items() if key == question.key(sample, f.method.name, f.stiffness)]

    def _method(self, name: str, subject: Subject) -> dict[str, Any]:
        method = self.methods[name]
        return {
            "name": name, "label": method.title, "sentence": method.summary, "path": method.has_path,
            "stiffness": "stiffness" in method.defaults, "gradients": cost_of(subject, method),
        }  # fmt: skip


def _check_choice(wanted: Mapping[str, Any]) -> None:
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
