"""``python -m experiments.report``: make one page from run folders (``docs/report.md``)."""
