"""Completion in bash, zsh and fish: ``turngrid-completion SHELL`` prints what a shell is to read."""
