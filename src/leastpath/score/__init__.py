"""Score: what is explained, a model and a target as one number per example."""
