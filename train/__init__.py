"""The front door: composes a run's config, checks it, and hands it to ``experiments``."""
