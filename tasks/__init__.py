"""Choice of tasks: splits, mixtures, curricula, demonstrations and budgets."""
