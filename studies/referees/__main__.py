"""`python -m studies.referees`"""

from studies.command_line import run
from studies.referees.command import command

if __name__ == "__main__":
    run(command)
