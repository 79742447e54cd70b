"""The half-moons study on a few points, for its tests."""

from studies.moons.config import MoonsConfig

TINY = MoonsConfig(
    noises=(0.05, 0.35), seeds=(12, 24), methods=("integrated_gradients", "random", "geodesic_variational"), epochs=1,
    points=60, costly_points=20, variational_iterations=3, variational_knots=3, figure_noise=0.35,
)  # fmt: skip
