"""TextWorldExpress's games, from the package textworld-express."""
