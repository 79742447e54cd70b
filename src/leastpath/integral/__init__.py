"""The one integral: rules, weightings, pieces of path, and their refinement until the error is known to be small."""
