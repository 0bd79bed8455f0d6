"""Buffers (``buffer=``): store episodes of earlier steps to train on them again."""
