"""A run's model for people who have neither the run nor turngrid."""
