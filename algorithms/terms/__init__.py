"""Loss terms (``terms=[...]``), which are added to the policy's loss."""
