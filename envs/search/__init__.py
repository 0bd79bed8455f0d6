"""Questions answered with a search tool, over worlds made here or a user's own collection."""
