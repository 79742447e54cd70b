"""The paper's experiments: flat scripts, each with a small config and the paper's numbers beside it."""
