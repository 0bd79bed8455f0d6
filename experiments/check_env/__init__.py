"""Checks of an environment before a model is trained in it (docs/env.md)."""
