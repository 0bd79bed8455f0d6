"""The main command: composes a run's config, checks it, and passes it to ``experiments``."""
