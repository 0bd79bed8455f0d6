"""The suite: every environment beside the others (``python -m experiments.suite``)."""
