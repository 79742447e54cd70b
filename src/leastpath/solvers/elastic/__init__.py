"""The elastic band: the solver, and the groups of features that move together."""
