"""TextWorld's games."""
