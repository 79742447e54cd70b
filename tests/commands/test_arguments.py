"""The signature that typer reads against the function that does the work."""

import inspect

from leastpath.commands import arguments, compare, explain


def test_the_command_takes_what_the_function_takes():
    def defaults(function):
        parameters = inspect.signature(function).parameters.values()
        return {p.name: tuple(p.default) if p.name == "drop" else p.default for p in parameters}

    assert defaults(arguments.explain) == defaults(explain.run_explain)
    typed = defaults(arguments.compare)
    assert typed.pop("choices") is False  # --list needs no run
    assert typed == defaults(compare.run_compare)


def test_the_help_names_the_solvers_that_there_are():
    assert set(explain.SOLVERS) == set(arguments.SOLVERS)
