"""The study's own methods stand in the one table."""

from leastpath.methods import METHODS
from studies.voc.methods import FULL, OWN
from studies.voc.sampled import sampled_idgi


def test_they_are_registered_and_not_leastpaths_own():
    assert set(OWN) <= set(METHODS) and not set(OWN) & METHODS.built_in
    assert METHODS["geodesic_sampled"].explain is sampled_idgi.explain
    assert METHODS["geodesic_sampled"].defaults["n_paths"] == 2 and "seed" not in METHODS["geodesic_sampled"].defaults


def test_the_full_variational_solver_differs_from_the_usual_in_its_samples_alone():
    full, usual = METHODS[FULL].defaults, METHODS["geodesic_variational"].defaults
    assert {name for name in full if full[name] != usual[name]} == {"n_samples"} and full["n_samples"] == 0
