"""Which correction helps if sampler and trainer differ (docs/mismatch.md)."""
