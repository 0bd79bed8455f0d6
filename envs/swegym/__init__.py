"""Repairs of real repositories (SWE-Gym's rows)."""
