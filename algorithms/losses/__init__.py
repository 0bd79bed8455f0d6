"""Losses of our own (``loss=``); the others are verl's."""
