"""One episode: prompt, act, observe and record, token by token."""
