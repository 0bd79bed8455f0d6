"""Remake the models that ship with turngrid: ``python -m assets.make tiny`` or
``tiny_alfworld``."""
