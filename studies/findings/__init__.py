"""Findings: the paper's claims and open questions, each a small study. All: `python -m studies.findings`."""
