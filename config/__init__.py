"""A run's settings: composition and checks."""
