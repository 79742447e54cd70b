"""`python -m studies.voc`"""

from studies.command_line import run
from studies.voc.command import command

if __name__ == "__main__":
    run(command)
