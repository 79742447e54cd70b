"""The frame of every study's command: options from its signature, and a user's mistake as one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer

from leastpath.commands.cli import reporting_mistakes


def application(command: Callable[..., Any]) -> typer.Typer:
    """One command as a typer application.

    Example:
        >>> from typer.testing import CliRunner
        >>> CliRunner().invoke(application(lambda: print("done")), []).output
        'done\\n'
    """
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.command()(command)
    return app


def run(command: Callable[..., Any]) -> None:
    """Run a study's `command` with the arguments of the shell; --traceback shows where an error came from."""
    words = [word for word in sys.argv[1:] if word != "--traceback"]  # `reporting_mistakes` reads it
    reporting_mistakes(lambda: application(command)(words))
