"""Prompt forms (``prompt=``, docs/prompt.md)."""
