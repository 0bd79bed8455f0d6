"""``python -m experiments.report``: from run folders to one page (``docs/report.md``).

gather.py       which runs a report is about
runs.py         a run folder and its metrics
settings.py     shared and varying settings
samples.py      which models a selector names
cells.py        the table beside the published one
comparisons.py  differences with intervals, and verdicts
reliability.py  IQM, profiles, probability of improvement
curves.py       learning curves as data frames
charts.py       SVG of matplotlib
contents.py     all of it together
page.py         HTML and Markdown
"""
