"""Account: seed, gradients, forwards, time and progress of one call."""
