"""Making, caching and listing games by split."""
