"""`python -m studies.findings`"""

from studies.command_line import run_command
from studies.findings.command import command

if __name__ == "__main__":
    run_command(command)
