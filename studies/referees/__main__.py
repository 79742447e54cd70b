"""`python -m studies.referees`: units, blucher, idsds, leaderboard."""

from studies.command_line import run
from studies.referees import blucher, idsds, leaderboard
from studies.referees.command import command

if __name__ == "__main__":
    run({"units": command, "blucher": blucher.command, "idsds": idsds.command, "leaderboard": leaderboard.command})
