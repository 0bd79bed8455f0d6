"""The suite: every environment beside the others, on one page (``python -m experiments.suite``)."""
