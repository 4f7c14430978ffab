"""Shared by the tests: slow twins, exact targets, the catalogue of what must pass them."""
