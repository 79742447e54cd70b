"""SHAP's container, so that its plots draw what leastpath computes.

The values are path attributions, not Shapley values: only the pictures are SHAP's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from leastpath._support.checks import check_kind
from leastpath._support.optional import import_optional
from leastpath.report.canvas import plain
from leastpath.result.attribution import Attribution
from leastpath.score.score import Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from leastpath.tabular import TableExplanation
    from leastpath.transformers import TextExplanation


KINDS = ("waterfall", "beeswarm", "bar", "heatmap", "scatter", "violin", "image")
WORDS = {
    " (impact on model output)": " (part of the change of score)",
    " (average impact on model output magnitude)": "",
    "SHAP value": "attribution",
    "E[f(X)]": r"f(\mathrm{baseline})",
}
"""What SHAP writes, and what it is here: values are attributions along a path, which starts at the baseline."""


def explanation(
    result: Attribution | TableExplanation | TextExplanation,
    feature_names: Sequence[str] | None = None,
    inputs: Any = None,
    *,
    score: Score | None = None,
    base_values: float | Sequence[float] | Tensor | None = None,
    channels_last: bool = False,
    output_names: str | None = None,
) -> Any:
    """A `shap.Explanation` for SHAP's waterfall, beeswarm, bar, image and text plots.

    Args:
        result: of `leastpath.attribute` with inputs (batch, features) or images (batch, channels, height, width), or
            of `leastpath.tabular.explain` or `leastpath.transformers.explain`, which know all the rest.
        feature_names: one per feature; by default columns' names where `inputs` is a data frame, or the result's.
        inputs: what was explained, shaped like the values: SHAP colours beeswarms and draws images with it.
        score: what was explained. With `inputs` it gives the base values: f(baseline) = f(x) − Δf.
        base_values: f(baseline), one number or (batch,), where you know it. Without this and without `score` it is
            0: plots then count from the baseline's score.

    Rarely needed:
        channels_last: the images are (batch, height, width, channels) already; otherwise they are turned for SHAP.
        output_names: what the score is called in the plots.

    Example:
        >>> import leastpath as lp, pytest
        >>> shap = pytest.importorskip("shap")
        >>> inputs, score = torch.rand(5, 3), lp.Score(lambda x: x.sum(1) + 1)
        >>> result = lp.attribute(score, inputs, method=lp.StraightLine())
        >>> explanation(result, ["age", "height", "mass"], inputs, score=score).shape
        (5, 3)
    """
    shap = import_optional("shap", "leastpath.shap needs SHAP", "shap")
    if output_names is not None:
        check_kind("output_names", output_names, str, "one name: an explanation has one score")
    given: Any = result
    if hasattr(given, "encoded_values"):
        return _of_table(shap, given, output_names)
    if hasattr(given, "shown_values"):
        return _of_text(shap, given, output_names)
    if not isinstance(result, Attribution):
        expected = "the Attribution of lp.attribute, or what tabular.explain or transformers.explain gives"
        raise ValueError(f"result is a {type(result).__name__}, expected {expected}")
    values = result.values
    if isinstance(values, tuple):
        one = "dataclasses.replace(result, values=result.values[0])"
        raise ValueError(f"the result has values for {len(values)} inputs, SHAP draws one table: pass {one}")
    names = None if feature_names is None else list(feature_names)
    if names is None:
        names = [str(name) for name in getattr(inputs, "columns", result.names or ())] or None
    base = _base_values(result, inputs, score, base_values)
    data = None if inputs is None else _array(inputs)
    table = _array(values)
    if data is not None and data.shape != table.shape:
        raise ValueError(f"inputs have shape {data.shape}, values {table.shape}: pass the inputs that were explained")
    if table.ndim == 4 and not channels_last:
        table = np.moveaxis(table, 1, -1)  # SHAP's images are (batch, height, width, channels)
        data = None if data is None else np.moveaxis(data, 1, -1)
    if table.ndim == 4 and output_names is not None:  # image_plot reads names only along a dimension of outputs
        return shap.Explanation(table[..., None], base[:, None], data, output_names=[output_names])
    if names is not None and len(names) != table.shape[1]:
        raise ValueError(f"got {len(names)} feature_names for {table.shape[1]} features: pass one per feature")
    return shap.Explanation(table, base, data, feature_names=names, output_names=output_names)


def plot(kind: str, explained: Any, **settings: Any) -> Figure:
    """A plot of SHAP with our words on it: "attribution" for "SHAP value", and f(baseline) for E[f(X)].

    Args:
        kind: "waterfall", "beeswarm", "bar", "heatmap", "scatter", "violin" or "image".
        explained: what `explanation` gave, or a part of it: a waterfall draws one row, `explained[0]`.
        settings: of SHAP's own function, `shap.plots.waterfall` and so on.

    Example:
        >>> import leastpath as lp, pytest
        >>> shap = pytest.importorskip("shap")
        >>> result = lp.attribute(lp.Score(lambda x: x.sum(1)), torch.rand(5, 3), method=lp.StraightLine())
        >>> plot("bar", explanation(result)).axes[0].get_xlabel()
        'mean(|attribution|)'
    """
    shap = import_optional("shap", "leastpath.shap needs SHAP", "shap")
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is unknown: use one of {list(KINDS)}, or call SHAP's own plot")
    import matplotlib.pyplot as plt  # which SHAP draws on
    from matplotlib.text import Text
    from matplotlib.ticker import FixedFormatter, FuncFormatter
    from matplotlib.transforms import ScaledTranslation

    check_kind("explained", explained, shap.Explanation, "what leastpath.shap.explanation gives")
    fresh = None if "ax" in settings else plt.figure()  # SHAP draws on whatever figure is current, also an earlier plot
    names = explained.feature_names
    try:
        if isinstance(names, (list, np.ndarray)):  # SHAP writes them as they are, and dollars are mathematics
            explained.feature_names = [plain(name) for name in names]
        getattr(shap.plots, kind)(explained, show=False, **settings)
    except Exception as error:  # SHAP raises errors of every kind for values that a plot is not made for
        raise ValueError(
            f"SHAP cannot draw a {kind} plot of values of shape {tuple(explained.shape)}: {error}"
        ) from error
    finally:
        explained.feature_names = names
    figure = plt.gcf() if fresh is not None else settings["ax"].figure
    if fresh is not None and figure is not fresh:  # it made one of its own
        plt.close(fresh)
    for text in figure.findobj(Text):
        if "E[f(X)]" in text.get_text():  # ours is longer, and its number stands at the right of it
            text.set_transform(text.get_transform() + ScaledTranslation(-24 / 72, 0, figure.dpi_scale_trans))
        text.set_text(_in_our_words(text.get_text()))
    for ax in figure.axes:  # tick labels are written anew at each drawing, from these
        for axis in (ax.xaxis, ax.yaxis):
            formatter = axis.get_major_formatter()
            if isinstance(formatter, FixedFormatter):
                formatter.seq = [_in_our_words(str(label)) for label in formatter.seq]
            elif isinstance(formatter, FuncFormatter):
                formatter.func = partial(_reword, formatter.func)
    if fresh is not None and kind != "image":
        figure.set_layout_engine("tight")  # SHAP leaves no room for long names
    return figure


def _reword(label: Callable[[float, int | None], str], at: float, position: int | None = None) -> str:
    return _in_our_words(label(at, position))


def _in_our_words(text: str) -> str:
    for theirs, ours in WORDS.items():
        text = text.replace(theirs, ours)
    return text


def _of_table(shap: Any, explained: TableExplanation, output_names: str | None) -> Any:
    """Categories are coloured by their number and shown by their name."""
    codes = {
        name: column if column.dtype.kind in "biuf" else column.astype("category").cat.codes
        for name, column in explained.frame.items()
    }
    return shap.Explanation(
        explained.values.to_numpy(),
        explained.base_values.to_numpy(),
        np.stack([np.asarray(column, dtype=np.float64) for column in codes.values()], 1),
        display_data=explained.frame.to_numpy(dtype=object),
        feature_names=[str(name) for name in explained.values.columns],
        output_names=output_names,
    )


def _of_text(shap: Any, explained: TextExplanation, output_names: str | None) -> Any:
    """Tokens as data; texts of different length make a ragged array."""
    values, data = (np.empty(len(explained.pieces), dtype=object) for _ in range(2))
    values[:] = [_array(v) for v in explained.shown_values]
    data[:] = [np.array(explained.display_tokens(b), dtype=object) for b in range(len(values))]
    name = output_names or explained.target_name
    return shap.Explanation(values, _array(explained.base_values), data, output_names=name)


def _base_values(result: Attribution, inputs: Any, score: Score | None, base_values: Any) -> np.ndarray:
    batch = len(result.score_change)
    if base_values is not None:
        base = _array(base_values)
        if base.shape not in ((), (1,), (batch,)):
            raise ValueError(f"base_values have shape {base.shape}, expected a number or ({batch},): f(baseline)")
        return np.broadcast_to(base, (batch,)).copy()
    if score is None:
        return np.zeros(batch)
    if not isinstance(inputs, Tensor):
        raise ValueError("score needs the inputs as a tensor: explanation(result, inputs=inputs, score=score)")
    return _array(score(inputs) - result.score_change)


def _array(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype in (torch.bfloat16, torch.float16) else values).numpy()
    return np.asarray(values)
