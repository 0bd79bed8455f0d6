"""Export a run's model for use without the run and without turngrid."""
