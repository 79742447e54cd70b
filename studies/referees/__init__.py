"""Referees: tests of explanations that others defined. `python -m studies.referees`."""
