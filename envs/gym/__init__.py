"""Gymnasium's tabular games as text."""
