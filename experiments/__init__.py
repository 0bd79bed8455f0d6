"""Commands on one run or several: stages, evaluation, sweeps, cost estimates, reports and the
viewer.
"""
