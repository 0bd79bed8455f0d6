"""Reward transforms (``shaping=[...]``), which change the rewards of a finished episode."""
