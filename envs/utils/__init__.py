"""Small helpers of all environments."""
