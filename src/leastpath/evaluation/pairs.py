"""compare(): several methods, several measures, the same inputs; one table with error bars, costs and winners."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from torch import Tensor

from leastpath._support.checks import check_integer, check_kind, in_words
from leastpath._support.fingerprint import describe, digest
from leastpath._support.store import Store, Unit
from leastpath.account.run import STOPS, Bar, Clock, OutOfTime, Run
from leastpath.evaluation.comparison import EVIDENCE, RESERVED, Comparison
from leastpath.evaluation.measure import HoldsExamples, Measure, Measured, measure_all
from leastpath.evaluation.statistics import check_level
from leastpath.evaluation.table import MEASURES
from leastpath.features.groups import kind_of
from leastpath.integral.accuracy import Limits
from leastpath.methods.controls import name_controls
from leastpath.methods.explainer import Contender, Explainer, explainer_of
from leastpath.removal.referee import Referee
from leastpath.removal.verdict import TESTED, Judgment, leave_untested
from leastpath.result.attribution import Attribution
from leastpath.result.status import Note, Outcome
from leastpath.score.behavior import check_behavior
from leastpath.score.calls import Baselines, Inputs
from leastpath.score.score import Score, rows_of, with_marks


class _Memory(dict[str, Unit]):
    """The store's verbs without a disk."""

    def write(self, key: str, record: dict[str, Any], arrays: dict[str, Tensor]) -> None:
        self[key] = Unit(record, arrays)

    def read(self, key: str) -> Unit:
        return self[key]


def compare(
    methods: Sequence[Contender] | Mapping[str, Contender],
    score: Score,
    inputs: Inputs,
    baselines: Baselines = None,
    measures: Sequence[Measure | str] = (),
    *,
    store: str | PathLike[str] | None = None,
    names: Sequence[str] | None = None,
    reference: str | None = None,
    level: float = 0.95,
    batch_size: int = 1,
    fail_fast: bool = False,
    controls: bool = False,
    seed: int = 0,
    max_seconds: float | None = None,
    progress: bool = False,
    resume: bool = False,
) -> Comparison:
    """Explain the same inputs with every method, measure all explanations, and report the best method and its cost.

    Every explanation is also judged (see `verdict`), all of an input by the same removals, which are paid once.

    Args:
        methods: names of `leastpath.methods.METHODS`, `Method` objects, solvers, or, in a mapping name -> method, also
            callables `(score, inputs, baselines, seed) -> Attribution`.
        score: the model and the number that is explained; a target may differ from example to example.
        inputs: (batch, *features), or a tuple of such tensors.
        baselines: as for `attribute`.
        measures: from `leastpath.evaluation`, or names of its `MEASURES`, which are then made for this kind of input;
            without any, the evidence and costs that every result carries.
        store: a folder that keeps each finished (method, input) pair. The same call with the same folder goes on where
            the last one was killed. Methods and inputs may be added; another score, measure or seed is an error. So
            is a model that gives other outputs than it did.

    Rarely needed:
        names: what to call the inputs, one each; their numbers by default.
        reference: the method that the others are also tested against; integrated gradients where present, else the
            first.
        level: of confidence intervals, and 1 − level of the tests.
        batch_size: inputs that are explained together. A batch gives what a loop gives, up to rounding.
        fail_fast: raise the first error. Otherwise a pair that fails becomes a row with the reason, and is tried
            again by the next call.
        controls: add what no test may support, at the bottom of the table: random values, the input alone, an untrained
            net and another class, as far as the score has them.
        seed: of methods and measures.
        max_seconds: time for the comparison. When it is used up, no further pair is begun.
        progress: show a progress bar, and after the first pairs about how long it will take.
        resume: go on in `store` although the model or a method holds something that cannot be described, such as an
            open file. It is an error otherwise, since it may have changed.

    Ctrl-C, or the end of `max_seconds`, ends the comparison and returns what is finished.

    Example:
        >>> import leastpath as lp, torch
        >>> found = compare([lp.StraightLine(), lp.Descent()], lp.Score(lambda x: (x**2).prod(1)), torch.ones(1, 2))
        >>> found.per_example["method"].tolist()
        ['StraightLine', 'Descent']
    """
    entrants = _entrants(methods)
    check_level(level)
    check_integer("batch_size", batch_size, 1)
    Limits(max_seconds=max_seconds)
    finished, run = True, Run(seed, None, progress, clock=Clock(max_seconds))
    judges = _choose_measures(measures, score, inputs)  # refuses wrong inputs and targets before any method runs
    batch = len(inputs[0] if isinstance(inputs, tuple) else inputs)
    if names is not None and len(names) != batch:
        raise ValueError(f"{len(names)} names for {batch} inputs: give one name per input")
    entrants = _put_controls_last(entrants, score) if controls else entrants
    score = with_marks(score, inputs)  # a part of the batch may be as long as an argument that all share
    if reference not in (None, *(e.name for e in entrants)):
        raise ValueError(f"reference={reference!r} is not compared: choose one of {[e.name for e in entrants]}")
    kept = _Memory() if store is None else _open_store(store, score, judges, inputs, seed, resume)
    examples = [_describe_example(*rows_of(score, inputs, baselines, range(b, b + 1))) for b in range(batch)]
    keys = {(e.name, b): f"{e.name[:60]} {digest([e.what, x])}" for e in entrants for b, x in enumerate(examples)}
    failures: dict[tuple[str, int], str] = {}
    try:
        with run.bar("compare", len(keys)) as bar:
            pairs = _Pairs(score, inputs, baselines, judges, kept, keys, fail_fast, seed, bar, failures)
            for entrant in entrants:
                begin = run.clock.spent()
                for start in range(0, batch, batch_size):
                    if run.clock.left() == 0:
                        raise OutOfTime
                    pairs.do(entrant, range(start, min(start + batch_size, batch)))
                    if start == 0 and batch > batch_size:
                        seconds = (run.clock.spent() - begin) * batch / batch_size
                        run.say(f"{entrant.name}: about {in_words(seconds)} for {batch} inputs")
    except STOPS:
        finished = False
    units = {pair: kept.read(key) for pair, key in keys.items() if key in kept}
    if not finished:
        _tell_how_to_resume(len(units), len(keys), store, run.clock)
    titles, rows = [e.name for e in entrants], names or range(batch)
    return Comparison.of(titles, rows, judges, units, failures, reference, level, finished)


@dataclass(frozen=True)
class _Pairs:
    """What all pairs share, and the two steps of each pair."""

    score: Score
    inputs: Inputs
    baselines: Baselines
    measures: Sequence[Measure]
    kept: Store | _Memory
    keys: Mapping[tuple[str, int], str]
    fail_fast: bool
    seed: int
    bar: Bar
    failures: dict[tuple[str, int], str]
    referees: dict[range, Referee] = field(default_factory=dict)  # one for all explanations of some inputs

    def do(self, entrant: Explainer, rows: range) -> None:
        """One method on some inputs. A batch is computed as a whole or not at all, so that it always rounds alike."""
        missing = [b for b in rows if self.keys[entrant.name, b] not in self.kept]
        if missing:
            try:
                self._keep(entrant, rows, missing)
            except Exception as error:
                if self.fail_fast:
                    raise
                if len(rows) > 1:  # find the input that fails
                    for b in rows:
                        self.do(entrant, range(b, b + 1))
                    return
                self.failures[entrant.name, rows[0]] = f"{type(error).__name__}: {error}"
        self.bar.advance(len(rows), entrant.name)

    def _keep(self, entrant: Explainer, rows: range, missing: list[int]) -> None:
        score, inputs, baselines = rows_of(self.score, self.inputs, self.baselines, rows)
        start = time.perf_counter()
        result = entrant(score, inputs, baselines, self.seed, support=False)
        if len(result.status) != len(rows):
            raise ValueError(f"{entrant.name} returned {len(result.status)} results for {len(rows)} inputs")
        explained = time.perf_counter()
        test = self._judge(rows, score, inputs, baselines, result)
        judged = time.perf_counter()
        own = [m.select(rows) if isinstance(m, HoldsExamples) else m for m in self.measures]
        found = measure_all(own, score, inputs, baselines, result, explain=entrant, seed=self.seed)
        measured = {m.name: part for m, part in zip(self.measures, found, strict=True)}
        tested = replace(test.add_to(result), n_forwards=result.n_forwards)  # the test is no cost of the method
        seconds = ((explained - start) / len(rows), (time.perf_counter() - judged) / len(rows))
        for i, b in enumerate(rows):
            if b in missing:
                self.kept.write(self.keys[entrant.name, b], *_unit(entrant.name, tested, test, measured, i, seconds))

    def _judge(self, rows: range, score: Score, inputs: Inputs, baselines: Baselines, result: Attribution) -> Judgment:
        """The verdict on an explanation, by the removals that all explanations of these inputs share."""
        try:
            if rows not in self.referees:
                self.referees[rows] = Referee(score, inputs, baselines, seed=self.seed)
                # Else a verdict would depend on what was judged before, and a resumed comparison be another one.
                self.referees[rows].stops_early = False
            return self.referees[rows].judge(result.values)
        except Exception as error:  # the model may refuse inputs that lack features as it likes
            why = str(error).partition("\n")[0] or type(error).__name__
            return leave_untested(len(rows), Note(Outcome.NOT_TESTED, f"support is not known: {why}"))


def _unit(
    name: str,
    result: Attribution,
    test: Judgment,
    measured: Mapping[str, Measured],
    i: int,
    seconds: tuple[float, float],
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Row i of a result and its measurements, as a unit of the store."""
    record = {
        "method": name,
        "measures": {title: float(found.values[i]) for title, found in measured.items()},
        "status": result.status[i].value,
        "ok": result.status[i].ok,
        "outcome": next((o.value for o in test.status[i].outcomes if o in TESTED), ""),
        **{evidence: float(getattr(result, evidence)[i]) for evidence in EVIDENCE},
        "gradients": int(result.n_gradients[i]),
        "forwards": int(result.n_forwards[i]),
        "seconds": seconds[0],
        "measuring_gradients": sum(int(found.n_gradients[i]) for found in measured.values()),
        "measuring_forwards": sum(int(found.n_forwards[i]) for found in measured.values()),
        "measuring_seconds": seconds[1],
    }
    arrays = {
        f"{title}/{curve}": (points if curve == "x" else points[i]).detach().cpu().double()
        for title, found in measured.items()
        for curve, points in found.curves.items()
    }
    return record, arrays


def _entrants(methods: Sequence[Contender] | Mapping[str, Contender]) -> list[Explainer]:
    if isinstance(methods, str):
        raise ValueError(f"methods={methods!r} is one name: pass a list, methods=[{methods!r}]")
    if isinstance(methods, Mapping):
        entrants = [explainer_of(given, name) for name, given in methods.items()]
    else:
        entrants = [explainer_of(given) for given in methods]
    twice = _find_repeated([e.name for e in entrants])
    if twice:
        raise ValueError(f"two methods are called {twice!r}: name them in a mapping, {{'first': …, 'second': …}}")
    if not entrants:
        raise ValueError('methods is empty: name at least one, as in methods=["integrated_gradients"]')
    return entrants


def _put_controls_last(entrants: list[Explainer], score: Score) -> list[Explainer]:
    """What the user compares, then the controls that the score has."""
    names = name_controls(score)
    given = {e.name: e for e in entrants}
    return [e for e in entrants if e.name not in names] + [given.get(name) or explainer_of(name) for name in names]


def _describe_example(score: Score, inputs: Inputs, baselines: Baselines) -> Any:
    """What the results of one input depend on, beyond what all inputs share."""
    target = score.target if isinstance(score.target, Tensor) else None
    return describe([inputs, baselines, target, score.additional_forward_args])


def _open_store(
    store: str | PathLike[str], score: Score, measures: Sequence[Measure], inputs: Inputs, seed: int, resume: bool
) -> Store:
    found = Store(store, _config(score, measures, seed), resume=resume)
    check_behavior(found.folder, score, inputs)
    return found


def _config(score: Score, measures: Sequence[Measure], seed: int) -> dict[str, Any]:
    modules = [] if score.layer is None else score.model.named_modules()  # type: ignore[attr-defined]
    return {
        "kind": "comparison",
        "model": describe(score.model),
        "target": "one per example" if isinstance(score.target, Tensor) else describe(score.target),
        "output": describe(score.output),
        "layer": next((name for name, module in modules if module is score.layer), None),
        "measures": {measure.name: describe(measure) for measure in measures},
        "seed": seed,
    }


def _choose_measures(measures: Sequence[Measure | str], score: Score, inputs: Inputs) -> list[Measure]:
    """The measures, those that are names made for this kind of input."""
    check_kind("score", score, Score, "a Score: use lp.Score(model, target)")
    if isinstance(measures, str) or not isinstance(measures, Sequence):
        raise ValueError(f"measures={measures!r} is not a list: pass measures=[…], also for a single one")
    kind = kind_of(score.bind(inputs))
    chosen = [MEASURES.make(given, kind) if isinstance(given, str) else given for given in measures]
    for measure in chosen:
        if isinstance(measure, type):
            raise ValueError(f"the measure {measure.__name__} is a class: pass an instance, {measure.__name__}()")
        if not isinstance(measure, Measure):
            raise ValueError(f"{measure!r} is not a measure: it needs name, higher_is_better and a call")
        if measure.name in RESERVED:
            raise ValueError(f"a measure is called {measure.name!r}, as another column is: give it another name")
    twice = _find_repeated([measure.name for measure in chosen])
    if twice:
        raise ValueError(f"two measures are called {twice!r}: give one of them another name")
    return chosen


def _find_repeated(names: Sequence[str]) -> str | None:
    return next((name for name in sorted(names) if names.count(name) > 1), None)


def _tell_how_to_resume(done: int, total: int, store: str | PathLike[str] | None, clock: Clock) -> None:
    remedy = f"call compare again with the same arguments and store={str(store)!r} to go on from here"
    if store is None:
        remedy = "they are in this result only: give store=folder next time, to be able to go on"
    done_of = f"{done} of {total} (method, input) pairs finished"
    why = f"stopped after {clock.words}" if clock.left() == 0 else "interrupted"
    warnings.warn(f"{why} with {done_of}; {remedy}", UserWarning, stacklevel=3)
