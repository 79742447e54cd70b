"""The `leastpath` command: explain one picture or one row, explore in the browser, compare methods, run jobs.

The commands are in `leastpath.commands` and `leastpath.jobs.command`; this file puts them together. Neither it nor the
signatures of commands import PyTorch: help pages must answer quickly.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from leastpath.commands.memory import keep_freed_memory

if TYPE_CHECKING:
    from typer import Typer

HELP = (
    "Explain predictions along the path of least resistance.\n\n"
    "`explain` and `compare` write a folder: config.json, environment.json, raw results, figures or tables, and a "
    "report.html that needs no other file. An interrupted run keeps what was finished: run it again with --resume.\n\n"
    "`judge` tests an explanation that another library made.\n\n"
    "`explore` shows the same in the browser, step by step along the path.\n\n"
    "Try first: `leastpath explore`, or `leastpath explain picture.jpg`"
)
MISSING = "the leastpath command needs typer and rich, which are not installed: pip install 'leastpath[cli]'"


def main() -> None:
    """The entry point of the shell command. A user's mistake is one sentence on stderr, without traceback."""
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.exit(MISSING)
    keep_freed_memory()
    # Before PyTorch is loaded: on a busy machine, threads that wait by spinning made a gradient ten times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    reporting_mistakes(application())


def reporting_mistakes(command: Callable[[], Any]) -> None:
    """Run a command. For an error that a user can correct, print its sentence and exit with 1."""
    from rich.console import Console
    from rich.text import Text

    try:
        command()
    except (ValueError, ImportError, OSError) as error:
        if "--traceback" in sys.argv:
            raise
        Console(stderr=True, highlight=False).print(Text.assemble(("error: ", "bold red"), str(error)), soft_wrap=True)
        sys.exit(1)


def application() -> "Typer":
    """All commands, as a typer application."""
    import typer

    app = typer.Typer(
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )

    def print_version(wanted: bool) -> None:
        if wanted:
            from leastpath import __version__

            print(__version__)
            raise typer.Exit

    version = typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and leave.")
    traceback = typer.Option("--traceback", help="Show where an error came from.")
    modules = typer.Option("--import", metavar="MODULE", help="Import it first: a module that registers your methods.")

    @app.callback()
    def frame(
        version: Annotated[bool, version] = False,
        traceback: Annotated[bool, traceback] = False,
        modules: Annotated[list[str], modules] = [],  # noqa: B006
    ) -> None:
        """Options of every command; `main` reads --traceback."""
        sys.path[:0] = [os.getcwd()] if modules else []  # where a user's own modules usually are
        for module in modules:
            importlib.import_module(module)

    from leastpath.commands.options import CompareOptions, ExplainOptions, ExploreOptions, JudgeOptions, make_command
    from leastpath.jobs.command import run

    commands: dict[str, Callable[..., Any]] = {
        "explain": make_command(ExplainOptions, "leastpath.commands.explain", "run_explain"),
        "judge": make_command(JudgeOptions, "leastpath.commands.judge", "run_judge"),
        "explore": make_command(ExploreOptions, "leastpath.commands.explore", "run_explore"),
        "compare": make_command(CompareOptions, "leastpath.commands.compare", "run_compare"),
        "run": run, "solvers": solvers, "methods": methods,
    }  # fmt: skip
    for name, command in commands.items():
        app.command(name)(command)
    return app


def solvers() -> None:
    """What finds a path: the solvers, with their settings."""
    import leastpath.solvers as module

    rows = []
    for name, solver in sorted(vars(module).items()):  # among results, types and folders
        if isinstance(solver, type) and is_dataclass(solver) and issubclass(solver, module.Solver):
            settings = ", ".join(field.name for field in fields(solver))
            summary = " ".join((inspect.getdoc(solver) or "").split("\n\n")[0].split())
            rows.append((name, summary, settings))
    title = "Solvers: leastpath.attribute(score, inputs, baselines, method=…)"
    _print_table(title, ("solver", "what it does", "settings"), rows)


def methods() -> None:
    """What explains a prediction: the methods that the verb, comparisons and jobs know by name."""
    from leastpath.methods import METHODS
    from leastpath.methods.method import KINDS

    rows = [
        (
            method.name, method.title, method.role, "yes" if method.complete else "no",
            "all" if set(method.recommended) == set(KINDS) else ", ".join(method.recommended), method.summary,
            method.extra or "",
        )
        for method in METHODS.values()
    ]  # fmt: skip
    title = "Methods: lp.attribute(score, inputs, baselines, method=name), or METHODS[name](score, inputs, baselines)"
    _print_table(title, ("name", "title", "role", "complete", "recommended for", "what it does", "extra"), rows)


def _print_table(title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text  # unlike strings, leaves [brackets] as they are

    table = Table(title=Text(title), title_justify="left", pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold", no_wrap=head in ("name", "solver", "role", "extra"))
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console()
    if not console.is_terminal:  # a file or a pager has room for whole sentences
        console = Console(width=160)
    console.print(table)


if __name__ == "__main__":
    main()
