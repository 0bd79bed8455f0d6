"""Rewards of turns."""
