"""Truth: which explanations stand a test? `python -m studies.truth --data <folder>`."""
