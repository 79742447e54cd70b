"""`python -m studies.language`."""

from studies.command_line import run
from studies.language.command import command

if __name__ == "__main__":
    run(command)
