"""What the agent reads and how its answers are read: one module a form, behind ``prompt=`` (docs/prompt.md)."""
