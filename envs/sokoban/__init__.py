"""Sokoban rooms, made here."""
