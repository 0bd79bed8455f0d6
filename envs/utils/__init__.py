"""Helpers without knowledge of environments."""
