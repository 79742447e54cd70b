"""The table of measures that comparisons, studies and the command line share, and `register`, which adds to it."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, get_args

from leastpath._support.registry import Registry
from leastpath.evaluation import axioms, ground_truth, masking, robustness
from leastpath.evaluation.fine_tuning import FineTunedFidelity
from leastpath.evaluation.magnitude import MagnitudeAlignedDeletion, MagnitudeAlignedInsertion
from leastpath.evaluation.measure import Measure, column_of
from leastpath.evaluation.randomization import ModelRandomization
from leastpath.evaluation.support import SymmetricRelevanceGain
from leastpath.features.groups import Kind, Word, default_groups
from leastpath.removal.curves import Fill

OneMeasure = TypeVar("OneMeasure", bound=type)


class Measures(Registry[type[Measure]]):
    """A table name -> class of measures. `MEASURES["deletion"]()` makes a measure, `print(MEASURES)` lists all.

    Example:
        >>> from leastpath.evaluation import MEASURES
        >>> MEASURES["log_odds"]().higher_is_better, MEASURES.fits("noise_robustness")
        (True, ('image',))
    """

    def summary(self, name: str) -> str:
        """What a measure measures, in a sentence: the first of its documentation."""
        words = inspect.getdoc(self[name]) or "A measure of your own."
        return words.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".") + "."

    def fits(self, name: str) -> tuple[Kind, ...]:
        """The kinds of input that a measure is for: all of them, unless it says otherwise."""
        return getattr(self[name], "fits", get_args(Kind))

    def needs(self, name: str) -> tuple[str, ...]:
        """The settings without which a measure cannot be made, such as the answer that it compares with."""
        settings = _settings(self[name]).values()
        return tuple(f.name for f in settings if f.init and f.default is f.default_factory is MISSING)

    def make(self, name: str, kind: Kind, *, fill: Fill = "baseline", **settings: Any) -> Measure:
        """A measure for a kind of input: what it removes together, and what replaces it, follow from that kind.

        Args:
            name: in the table.
            kind: of the input: see `leastpath.features`.
            fill: what replaces removed features, for measures that remove some.
            settings: others of the measure, such as the `judge` of "fine_tuned_fidelity".

        Example:
            >>> from leastpath.evaluation import MEASURES
            >>> MEASURES.make("deletion", "image", fill="blur").masking.groups
            'pixels'
        """
        measure = self[name]
        if kind not in self.fits(name):
            raise ValueError(
                f"{name} is for inputs of kind {', '.join(self.fits(name))}, and this is {kind}: leave it out"
            )
        missing = [needed for needed in self.needs(name) if needed not in settings]
        if missing:
            raise ValueError(f"{name} needs {missing[0]}: make it by {measure.__name__}({missing[0]}=…)")
        known = _settings(measure)
        removed: Word = "pixels" if kind == "image" else default_groups(kind)
        if "masking" in known:
            settings.setdefault("masking", _masking(known["masking"].default, removed, fill))  # type: ignore[arg-type]
        if "groups" in known:  # the gain removes what `attribute` tests by
            settings.setdefault("groups", default_groups(kind) if measure is SymmetricRelevanceGain else removed)
        if "fill" in known:
            settings.setdefault("fill", fill)
        return measure(**settings)

    def __repr__(self) -> str:
        rows = [f"  {name:<28}{self.summary(name)}" for name in self]
        return "\n".join([f"{len(self)} measures", *rows])


def _settings(measure: Any) -> dict[str, Field[Any]]:
    return {field.name: field for field in fields(measure)} if is_dataclass(measure) else {}


@cache
def _masking(standard: masking.Masking, groups: Word, fill: Any) -> masking.Masking:
    """One object for all measures over it, so that they share its forward passes."""
    return replace(standard, groups=groups, fill=fill)


def _check_class(measure: Any, name: str) -> Any:
    """The class, if its objects are measures and have its name in the table."""
    if not isinstance(measure, type):
        raise ValueError(f"{measure!r} is not a class of measures: register the class, not one of its objects")
    if not hasattr(measure, "higher_is_better") or "__call__" not in dir(measure):
        raise ValueError(
            f"{measure.__name__} is no class of measures: give it higher_is_better, True or False, and a call"
        )
    own = getattr(measure, "name", "")
    if isinstance(own, str) and own not in ("", name):
        raise ValueError(
            f"{measure.__name__} fills a column {own!r}, and is called {name!r} in the table: use one name"
        )
    return measure


MEASURES = Measures(
    "measure",
    {
        column_of(measure): measure
        for measure in (
            SymmetricRelevanceGain, masking.Comprehensiveness, masking.Sufficiency, masking.LogOdds,
            masking.LogProbRatio, masking.AbsoluteChange, masking.Deletion, masking.Insertion,
            MagnitudeAlignedDeletion, MagnitudeAlignedInsertion, robustness.Infidelity, robustness.MaxSensitivity,
            robustness.NoiseRobustness, robustness.AttackRobustness, ModelRandomization, FineTunedFidelity,
            ground_truth.Localization, ground_truth.RankCorrelation, axioms.CompletenessGap, axioms.Cancellation,
            axioms.Certificate, axioms.Asymmetry,
        )
    },
    group="leastpath.measures",
    adder="leastpath.evaluation.register",
    adopt=_check_class,
)  # fmt: skip
"""Every measure by the name of its column."""


def register(measure: OneMeasure) -> OneMeasure:
    """Add a class of measures of your own to `MEASURES`; also as a decorator.

    Its name in the table is that of the class in small letters, `MyMeasure` is "my_measure", and its objects have that
    name too, unless they are given another one. An installed package names its classes as entry points of the group
    "leastpath.measures" instead.

    Example:
        >>> from dataclasses import dataclass
        >>> from leastpath.evaluation import MEASURES, Measured, register
        >>> @register
        ... @dataclass(frozen=True)
        ... class LargestValue:
        ...     '''The largest attribution.'''
        ...
        ...     name: str = "largest_value"
        ...     higher_is_better: bool = False
        ...
        ...     def __call__(self, score, inputs, baselines, result, *, seed=0):
        ...         return Measured.of(result.values.flatten(1).amax(1))
        >>> MEASURES.summary("largest_value")
        'The largest attribution.'
    """
    name = getattr(measure, "__name__", "") and column_of(measure)
    MEASURES.add(name, _check_class(measure, name))
    return measure
