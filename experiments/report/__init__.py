"""``python -m experiments.report``: from run folders to one page with results, comparisons and charts (``docs/report.md``).

runs.py        a run folder                         gather.py       which runs a report is about
samples.py     which models a selector names        settings.py     shared and varying settings
cells.py       the table beside the published one   comparisons.py  differences with intervals, verdicts
curves.py      learning curves as data frames       reliability.py  IQM, profiles, probability of improvement
charts.py      SVG of matplotlib                    page.py         HTML and Markdown
"""
