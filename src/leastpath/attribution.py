"""attribute(): the one verb. Bind the score, explain by a method, test by removal, put the result together."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from leastpath._support.checks import check_kind, check_setting
from leastpath._support.rows import flat_rows
from leastpath.account.run import Run
from leastpath.features.groups import Groups, Kind, check_groups, kind_of, kind_of_shape, label_groups
from leastpath.methods.method import Along, Explained, Method, Problem
from leastpath.methods.table import METHODS, method_of
from leastpath.removal.referee import Referee, judge_result
from leastpath.removal.verdict import Judgment, leave_untested
from leastpath.result.attribution import Attribution, without_path
from leastpath.result.status import Interrupted, Note, Outcome, Status, finished
from leastpath.score.baselines import Several
from leastpath.score.calls import leave_untouched, warn_of_training_mode
from leastpath.score.score import Baselines, Inputs, Score
from leastpath.solvers.solution import Solver


def attribute(
    score: Score,
    inputs: Inputs,
    baselines: Baselines | Several = None,
    *,
    method: str | Method | Solver | None = None,
    groups: Groups = None,
    support: bool | Literal["full"] | Referee = True,
    progress: bool = False,
    seed: int = 0,
    on_interrupt: Literal["raise", "return"] = "raise",
    **settings: Any,
) -> Attribution:
    """Explain a score: how much each input feature moved it on the way from the baseline.

    Args:
        score: the model and the number that is explained.
        inputs: (batch, *features), or a tuple of such tensors (one joint path).
        baselines: None (zeros), a number, (1, …), (batch, …), or several per example: (batch, m, …), or by name,
            `lp.several("black", "mean")`. With a layer: raw inputs, or activations shaped like its output.
        method: a name of `lp.METHODS` ("staircase", "idgi"), a solver (`lp.ElasticBand()`), or a `Method`. None: what
            the study of truth chose for this kind of input (docs/truth.md): the elastic band for up to 20 features,
            windows in context for images, and else the straight line. `result.method` names the choice. Images below 16
            pixels a side, of a layer, or with settings of a path (metric, n_steps, tolerance, …) have the line, too.
        settings: of the method; `lp.METHODS[name].defaults` lists them.

    Settings of images (`windows_in_context`):
        quality: "fast", "default" or "best": about 56, 448 and 960 gradients' worth.

    Settings of methods with a path:
        metric: what lengths are measured in, and what the solver makes short. `Conformal` by default.
        tolerance: the error that the integrator must reach, 0.01 (see `integrate`). None: exactly `n_steps`.
        n_steps: gradients per path for `tolerance=None`; otherwise where refinement starts.
        max_gradients: per example, solver and integral together; solvers leave about half of it to the integral.
            None: as the solver says, and 10,000 for the integral.
        max_seconds: time for the call, about half of it for the solver. When it is used up, what is known is returned,
            and the status says what was cut. A model call that has begun is not cut off, and one gradient per segment
            is always taken.
        geometry: another score of the same inputs, whose geometry bends the path, or another output of the same score:
            "logit_margin" does not saturate where a softmax does. What is measured is `score`.
        weighting: what a gradient adds to the attribution; the line integral by default.
        rule: "gauss_legendre", "midpoint" or "trapezoid".
        measure: "values" leaves lengths out, which saves gradients: `length`, `length_ratio` and `certificate` are NaN,
            and a path is not compared with the straight line. "all" measures everything.

    Rarely needed:
        groups: which features belong together: integer labels (1 or batch, *features), or words (`features.groups`).
            They are removed together in the test, and methods that switch features switch them together.
        support: whether removal tests the result: `support`, `p_value`, `p_model` and the first sentence of the status
            (docs/verdict.md). "full": with four times as many removals. A `Referee` of the same inputs: by its
            removals, which several methods share.
        progress: show progress bars, and after the first gradients about how long it will take.
        seed: of everything random.
        on_interrupt: what Ctrl-C does. "raise": `Interrupted`, a KeyboardInterrupt whose `result` holds what is
            finished, so that a loop around this call ends too. "return": that result; its status says what is missing.

    Example:
        >>> import leastpath as lp
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
        >>> score = lp.Score(model, target=2, output="log_softmax")
        >>> lp.attribute(score, torch.rand(5, 4), method="integrated_gradients").values.shape
        torch.Size([5, 4])
    """
    _check(score, on_interrupt, support)
    check_setting("progress", progress, bool)
    chosen = _choose(method, settings) or _choose_for_picture(score, inputs, settings)
    check_groups(groups)
    if groups is not None and chosen is not None and "groups" in chosen.defaults:
        settings["groups"] = groups
    (chosen or DEFAULTS["table"]).check(score, baselines, settings)
    run = Run(seed, progress=progress)
    warn_of_training_mode(score.model)
    with leave_untouched(score.model, inputs, chosen, settings):
        baselines = baselines.of(inputs, score) if isinstance(baselines, Several) else baselines
        problem = Problem.bind(score, inputs, baselines, run)
        chosen = chosen or DEFAULTS[kind_of(problem.bound)]
        if groups is not None and not isinstance(groups, int):
            label_groups(groups, problem.end[:: problem.m])  # refused before the method works
        explained = chosen.explain(problem, **{**chosen.defaults, **settings})
        test = _test(problem, explained, groups, support)
        result = _put_together(problem, explained, test)
    if on_interrupt == "raise":
        if explained.along is not None and explained.along.interrupted:
            raise Interrupted(result)
        finished(result)
    return result


def every_class(
    score: Score,
    inputs: Inputs,
    baselines: Baselines | Several = None,
    *,
    method: str | Method = "staircase",
    classes: Sequence[int] | Tensor | None = None,
    seed: int = 0,
    **settings: Any,
) -> Tensor:
    """Values of every class (batch, classes, *features) for the forwards of one. Nothing is tested.

    Every masked input is shown to the model once, and read for all classes. So this is for methods that need no
    gradients: "staircase", "occlusion" and "rise", and those of your own that say `every_class`.

    Args:
        score: its target is not looked at; its output is: "log_softmax" of each class, for instance.
        inputs: (batch, *features).
        baselines: as for `attribute`; several are averaged.
        method: a method that can, or its name.
        classes: which, in this order. None: all. Values take 4 bytes per class and feature: 1,000 classes of a picture
            of 128 pixels are 197 MB.
        seed: of everything random.
        settings: of the method.

    Example:
        >>> import leastpath as lp
        >>> net = torch.nn.Linear(4, 3).eval()
        >>> values = lp.every_class(lp.Score(net), torch.ones(2, 4))
        >>> torch.allclose(values[0], net.weight, atol=1e-6)
        True
    """
    _check(score, "raise", False)
    chosen = method_of(method)
    if not chosen.every_class:
        able = ", ".join(other.name for other in METHODS.values() if other.every_class)
        raise ValueError(f"{chosen.name} cannot explain every class at once: use one of {able}, or a loop of attribute")
    score = replace(score, target=0)
    chosen.check(score, baselines, settings)
    warn_of_training_mode(score.model)
    with leave_untouched(score.model, inputs, chosen, settings):
        starts = baselines.of(inputs, score) if isinstance(baselines, Several) else baselines
        problem = Problem.bind(score, inputs, starts, Run(seed))
        n = problem.bound.outputs(problem.end[:1], torch.tensor([0])).shape[-1]
        wanted = torch.arange(n) if classes is None else torch.as_tensor(classes).reshape(-1).long()
        if not len(wanted) or int(wanted.min()) < 0 or int(wanted.max()) >= n:
            raise ValueError(f"classes={classes!r} are not among the model's {n}, 0 to {n - 1}: pass indices")
        return problem.mean(chosen.explain(replace(problem, classes=wanted), **{**chosen.defaults, **settings}).values)


def _check(score: Any, on_interrupt: Any, support: Any) -> None:
    check_kind("score", score, Score, "a Score: attribute(lp.Score(model, target), inputs)")
    check_setting("on_interrupt", on_interrupt, Literal["raise", "return"])
    if not isinstance(support, (bool, Referee)) and not (isinstance(support, str) and support == "full"):
        raise ValueError(f'support={support!r} must be True, False, "full" or a Referee; labels are given as groups=')


# What studies/truth chose for each kind of input: clearly worse than the straight line on no net, fill or gate. For few
# features that is the band. For the others no bent path has both a better mean and no cell in which it is clearly
# worse, so they keep the line (docs/truth.md). Pictures have windows in context, unless they are so small that single
# pixels matter: by the development half alone, the reporting half is not measured yet (docs/methods.md).
SMALLEST = 16  # pixels per side of a picture that windows are for
LINE = METHODS["integrated_gradients"]
DEFAULTS: Mapping[Kind, Method] = {kind: LINE for kind in get_args(Kind)} | {
    "few": METHODS["elastic_band"],
    "image": METHODS["windows_in_context"],
}


def _choose_for_picture(score: Score, inputs: Inputs, settings: Mapping[str, Any]) -> Method | None:
    """The default of pictures; the line for tiny ones, a layer's maps or settings of a path; None for other inputs."""
    if not isinstance(inputs, Tensor) or kind_of_shape(inputs.shape[1:]) != "image":
        return None
    # A tolerance or a number of steps is the integral's, as it always was: so callers who name them get the line.
    of_path = (set(settings) & set(LINE.defaults)) - {"max_gradients"}
    if score.layer is not None or of_path:
        return LINE
    return DEFAULTS["image"] if settings.keys() & {"quality", "detail"} else default_method("image", inputs.shape[1:])


def default_method(kind: Kind, shape: Sequence[int] = ()) -> Method:
    """What is taken where no method is named, for inputs of a kind and shape: the line for tiny pictures.

    Example:
        >>> default_method("image", (1, 8, 8)).name, default_method("image", (3, 64, 64)).name
        ('integrated_gradients', 'windows_in_context')
    """
    return LINE if kind == "image" and min(shape[1:], default=SMALLEST) < SMALLEST else DEFAULTS[kind]


def _choose(method: Any, settings: dict[str, Any]) -> Method | None:
    """The method that is meant; None for the default. Takes `solver`, the word of version 0.2, out of the settings."""
    if method is None and "solver" in settings:
        sentence = "solver= is called method= now and will go: attribute(score, inputs, baselines, method=…)"
        warnings.warn(sentence, DeprecationWarning, stacklevel=3)
        method = settings.pop("solver")
    return None if method is None else method_of(method)


def _test(problem: Problem, explained: Explained, groups: Groups, wanted: bool | str | Referee) -> Judgment:
    """Does removal confirm the values, and does it confirm those of the straight line more?"""
    values, along = problem.mean(explained.values), explained.along
    start, line, bent = problem.start, None, None
    if explained.whole is not None:
        found = explained.whole.values
        values = problem.bound.space.join(found if isinstance(found, tuple) else (found,))
        if not explained.whole.support.isnan().all():  # a function that calls the verb has tested its result
            return leave_untested(len(values))
    if along is not None:
        start, line = along.path.start, problem.mean(along.line)
        bent = ~along.path.is_straight.unflatten(0, (-1, problem.m)).all(1)
    if wanted is False:
        return leave_untested(len(values))
    if isinstance(wanted, Referee):
        wanted.check_inputs(problem.bound)
        return wanted.judge_points(values, line, bent)
    starts, run = start.unflatten(0, (-1, problem.m)), explained.run or problem.run
    return judge_result(problem.bound, problem.inputs, starts, groups, run, wanted == "full", values, line, bent)


def _put_together(problem: Problem, explained: Explained, test: Judgment) -> Attribution:
    """The result: rows become examples, by the mean over their baselines."""
    whole = explained.whole
    if whole is not None:  # a function that calls the verb has tested its result
        return test.add_to(whole) if whole.support.isnan().all() else whole
    bound, m, mean = problem.bound, problem.m, problem.mean
    values, along = explained.values.detach().to(bound.work_dtype), explained.along
    change = problem.change if explained.change is None else explained.change
    flat = flat_rows(values)
    if along is None:  # the integral refuses what is not finite itself, and marks what an interruption left unknown
        _check_finite(problem, flat, explained)
    statuses = [Status(notes) for notes in _notes(explained, flat)]
    spread = None if explained.uses_all_baselines or m == 1 else problem.spread(values)
    result = without_path(
        bound.space.split(mean(values)),
        mean(flat.sum(1) - change if along is None else along.gap),
        mean(flat.abs().sum(1) - change.abs()),
        mean(change),
        tuple(_merge(statuses[b : b + (1 if explained.uses_all_baselines else m)]) for b in range(0, len(statuses), m)),
        n_gradients=problem.count(torch.as_tensor(bound.gradients_spent)),
        n_forwards=problem.count(torch.as_tensor(bound.forwards_spent)),
        method=explained.described,
        baseline_spread=None if spread is None else bound.space.split(spread),
        stats=explained.stats,
    )
    if explained.path_spread is not None:
        result = replace(result, path_spread=bound.space.split(mean(explained.path_spread)))
    if explained.certificate is not None:
        result = replace(result, certificate=mean(explained.certificate.to(change)))
    return test.add_to(result if along is None else _with_path(problem, result, along))


def _with_path(problem: Problem, result: Attribution, along: Along) -> Attribution:
    """The result with what is known of its path."""
    mean, samples = problem.mean, along.samples
    return replace(
        result,
        length=mean(along.length),
        length_error=mean(along.length_error),
        length_ratio=mean(along.length_ratio),
        certificate=_finite_mean(along.certificate, problem.m),
        path=along.path,
        n_gradients=problem.count(along.gradients),
        attribution_error=mean(along.attribution_error),
        path_spread=None if len(samples) < 2 else problem.bound.space.split(torch.stack([*map(mean, samples)]).std(0)),
        geometry=along.geometry,
        metric=along.metric,
    )


def _check_finite(problem: Problem, flat: Tensor, explained: Explained) -> None:
    bad = (~torch.isfinite(flat).all(1)).nonzero()
    if len(bad) and not any(note.outcome is Outcome.INTERRUPTED for note in _notes(explained, flat)[int(bad[0])]):
        example, causes = problem.bound.space.row(int(bad[0])), "sqrt(0), log(0), 0/0 or norm(0)"
        raise ValueError(
            f"{explained.described} gives NaN or infinite attributions for example {example}: look for {causes}"
        )


def _notes(explained: Explained, flat: Tensor) -> Sequence[tuple[Note, ...]]:
    """What is to be said of each row, besides the test."""
    if explained.along is not None:
        return explained.notes
    return [_notes_without_path(explained, row, bool(flat[row].any())) for row in range(len(flat))]


def _notes_without_path(explained: Explained, row: int, moves: bool) -> tuple[Note, ...]:
    notes = list(explained.notes[row]) if explained.notes else []
    if not moves:
        remedy = "choose another baseline, target, output or setting"
        notes.append(Note(Outcome.FLAT, f"{explained.described} gives zero everywhere; {remedy}"))
    if explained.remarks and explained.remarks[row]:
        notes.append(Note(Outcome.SOLVER_NOTE, explained.remarks[row]))
    if explained.certificate is not None:
        return tuple(notes)
    return (*notes, Note(Outcome.SOLVER_NOTE, "this method has no path, so it has no length and no certificate"))


def _merge(statuses: Sequence[Status]) -> Status:
    """One status for all baselines of an example: each kind of outcome once, with how many baselines it is about."""
    if len(statuses) == 1:
        return statuses[0]
    notes: dict[Outcome, list[Note]] = {}
    for note in sorted((n for s in statuses for n in s.notes), key=lambda n: n.outcome.ok is True):
        notes.setdefault(note.outcome, []).append(note)
    return Status(tuple(Note(kind, _say_of_baselines(some, len(statuses))) for kind, some in notes.items()))


def _say_of_baselines(notes: list[Note], m: int) -> str:
    """One sentence for notes of one kind, from as many of an example's m baselines."""
    alike = len({note.sentence for note in notes}) == 1
    if alike and len(notes) == m:
        return notes[0].sentence
    count = f"{len(notes)} of {m}" if len(notes) < m else "both" if m == 2 else f"all {m}"
    return f"from {count} baselines{'' if alike else ', for instance'}: {notes[0].sentence}"


def _finite_mean(values: Tensor, m: int) -> Tensor:
    """Mean over an example's m baselines of those that are finite; inf or NaN only where none is."""
    if m == 1:
        return values
    each = values.unflatten(0, (-1, m))
    finite = torch.isfinite(each)
    mean = torch.where(finite, each, 0).sum(1) / finite.sum(1).clamp_min(1)
    return torch.where(finite.any(1), mean, each[:, 0])
