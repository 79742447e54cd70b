"""The first experiment of the paper: half-moons, five seeds, thirteen levels of noise."""
