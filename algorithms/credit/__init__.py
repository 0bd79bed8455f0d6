"""Credit methods (``credit=[...]``), which change the advantages of a step's turns, (E, K)."""
