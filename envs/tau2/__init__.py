"""tau2-bench's telecom domain in solo mode."""
