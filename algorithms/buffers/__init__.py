"""Buffers (``buffer=``): episodes of earlier steps, to train on them again."""
