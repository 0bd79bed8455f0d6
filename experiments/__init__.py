"""Commands on runs: stages, evaluation, sweeps, cost estimates, reports and the viewer."""
