"""Estimators over turns: ``algo=`` words that need turns, values or entropy."""
