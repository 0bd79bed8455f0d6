"""``python -m experiments.report``: make one page from run folders (``docs/report.md``).

gather.py       the runs of a report, shared and varying settings
runs.py         a run folder and its metrics
samples.py      the models that a selector names
cells.py        the table, with published figures
comparisons.py  differences with intervals, and verdicts
charts.py       learning curves, as SVG from matplotlib
contents.py     the contents of the page, as HTML and Markdown
"""
