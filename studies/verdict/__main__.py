"""`python -m studies.verdict`."""

from studies.command_line import run
from studies.verdict.command import command

if __name__ == "__main__":
    run(command)
