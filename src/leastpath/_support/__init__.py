"""Helpers that the rest of the package shares: files, stores, digests and checks. Users do not import them."""
