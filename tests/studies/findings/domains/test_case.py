"""Domains and their methods."""

from leastpath.methods import METHODS
from studies.findings.domains.case import DOMAIN, LINE


def test_every_domain_is_explained_by_known_methods_beside_the_line():
    for domain in DOMAIN.values():
        assert LINE in domain.methods and set(domain.methods) <= set(METHODS)
