"""textarena's one-player games."""
