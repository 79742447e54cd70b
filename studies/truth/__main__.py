"""`python -m studies.truth`"""

from studies.command_line import run
from studies.truth.command import command

if __name__ == "__main__":
    run(command)
