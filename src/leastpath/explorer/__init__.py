"""The explorer: a page in the browser that walks along a path, compares methods and removes what they rank first.

`lp.explore` starts it; `leastpath explore` does so from the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from leastpath.explorer.prompts import PromptSource
    from leastpath.explorer.server import Explorer
    from leastpath.explorer.subject import SubjectSource
    from leastpath.result.attribution import Attribution
    from leastpath.score.baselines import Several
    from leastpath.score.score import Baselines, Inputs, Score


def explore(
    score: Score | SubjectSource | PromptSource | Attribution,
    inputs: Inputs | None = None,
    baselines: Baselines | Several = None,
    *,
    names: Sequence[Any] | None = None,
    classes: Sequence[str] | None = None,
    data: Tensor | None = None,
    methods: Sequence[str] | None = None,
    open: bool = True,
    host: str = "127.0.0.1",
    port: int = 0,
) -> Explorer:
    """Explain in the browser: walk along the path, compare methods, remove features and see what the model says.

    A server on this machine is started, in a thread of its own. Needs `pip install 'leastpath[explore]'`.

    Args:
        score: what is explained. Or a source: `leastpath.explorer.sources.tables.TableSource` for data frames,
            `leastpath.explorer.sources.texts.TextSource` for texts, `leastpath.explorer.prompts.PromptSource` for
            prompts of a language model. Or a result, which is shown as it is.
        inputs: (batch, *features): pictures (batch, channels, height, width), rows (batch, features), or token ids for
            a score with a layer.
        baselines: as in `attribute`. The page offers others as well.
        names: of a table's columns, or of the tokens: one list per example.
        classes: names of the classes.
        data: (n, features) rows that the baselines of a table come from.
        methods: names of `leastpath.methods.METHODS` that the page offers; None: those that fit.

    Rarely needed:
        open: show the page in the browser. In a notebook the page is shown in place, where this is the last line.
        host: other than this machine alone. The address then has a token, which every visitor needs.
        port: 0 takes one that is free.

    Example:
        >>> import leastpath as lp, torch
        >>> explorer = lp.explore(lp.Score(lambda x: x.prod(1)), torch.ones(1, 2), open=False)  # doctest: +SKIP
        >>> explorer.close()  # doctest: +SKIP
    """
    from leastpath.explorer.server import Explorer
    from leastpath.explorer.session import session_of

    session = session_of(score, inputs, baselines, names=names, classes=classes, data=data, methods=methods)
    explorer = Explorer(session, host, port)
    if open and not _in_notebook():
        explorer.open()
    return explorer


def _in_notebook() -> bool:
    """Whether a notebook runs this: it shows the explorer itself."""
    import sys

    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
