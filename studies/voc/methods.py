"""Methods that this study adds to the table: importing this module registers them."""

from __future__ import annotations

from leastpath.methods import METHODS, register
from studies.voc.sampled import line_sampled_idgi, sampled_idgi

GEODESIC_SAMPLED = register(sampled_idgi, "geodesic_sampled", title=sampled_idgi.title).name
IDGI_SAMPLED = register(line_sampled_idgi, "idgi_sampled", title=line_sampled_idgi.title).name
FULL = register(
    METHODS["geodesic_variational"].with_settings(n_samples=0), "geodesic_variational_full",
    title="Geodesic IG (variational, full)",
    summary="geodesic_variational with the authors' iterations and points, whatever the budget of the others.",
).name  # fmt: skip
OWN = (GEODESIC_SAMPLED, IDGI_SAMPLED, FULL)
