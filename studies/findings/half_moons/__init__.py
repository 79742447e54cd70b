"""Studies on half-moons: the sign and the settings of the energy, the metric, a flat region."""
