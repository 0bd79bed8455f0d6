"""Checks of an environment before anybody trains in it (docs/extending.md)."""
