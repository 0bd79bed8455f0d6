"""Comparison of corrections if sampler and trainer differ (docs/mismatch.md)."""
