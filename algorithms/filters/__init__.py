"""Filters (``filter=[...]``): choose the episodes of a step to train on."""
