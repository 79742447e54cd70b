"""`python -m studies.moons`"""

from studies.command_line import run
from studies.moons.command import command

if __name__ == "__main__":
    run(command)
