"""The frame of every study's command: options from its signature, and a user's mistake as one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import typer

from leastpath.commands.cli import reporting_mistakes

Command = Callable[..., Any]


def application(command: Command | Mapping[str, Command]) -> typer.Typer:
    """One command, or several by their names, as a typer application.

    Example:
        >>> from typer.testing import CliRunner
        >>> CliRunner().invoke(application(lambda: print("done")), []).output
        'done\\n'
    """
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    for name, one in command.items() if isinstance(command, Mapping) else [(None, command)]:
        app.command(name)(one)
    return app


def run(command: Command | Mapping[str, Command]) -> None:
    """Run a study's command, or the named one, with the shell's words; --traceback shows where an error came from."""
    words = [word for word in sys.argv[1:] if word != "--traceback"]  # `reporting_mistakes` reads it
    reporting_mistakes(lambda: application(command)(words))
