"""Is it true? Measurements on attributions, whatever method they come from."""
