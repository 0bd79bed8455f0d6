"""``python -m experiments.report``: from run folders to one page that says what held and what did not (``docs/report.md``).

runs.py        what lies in a run folder            gather.py       which runs a report is about
wins.py        per-game success of a model          selection.py    which models a selector names
cells.py       the table beside the published one   contrast.py     a difference with its interval
takeaways.py   verdicts                             reliability.py  IQM, profiles, probability of improvement
charts.py      inline SVG                           page.py         HTML and Markdown
"""
