"""The trajectory viewer: a self-contained HTML page for reading episodes (docs/viewer.md)."""
