"""`python -m studies.findings`"""

from studies.command_line import run
from studies.findings.command import command

if __name__ == "__main__":
    run(command)
