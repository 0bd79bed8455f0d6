"""Libraries of texts that a policy looks up (``library=``), and what they are made of."""
