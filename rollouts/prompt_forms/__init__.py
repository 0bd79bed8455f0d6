"""Prompt forms (``prompt=``, docs/prompt.md): one module each."""
