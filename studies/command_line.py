"""The frame of every study's command: options from its signature, and a user's mistake as one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leastpath.cli import reporting_mistakes


def run(command: Callable[..., Any]) -> None:
    """Run a study's `command` with the arguments of the shell."""
    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.command()(command)
    reporting_mistakes(app)
