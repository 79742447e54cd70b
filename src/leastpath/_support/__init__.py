"""What no user names: files, stores, digests and checks that the rest of the package shares."""
