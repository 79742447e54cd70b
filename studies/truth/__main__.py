"""`python -m studies.truth`"""

from studies.command_line import run_command
from studies.truth.command import command

if __name__ == "__main__":
    run_command(command)
