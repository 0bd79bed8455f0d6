"""Worker processes that host environments, and the pool of them."""
