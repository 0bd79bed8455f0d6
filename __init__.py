"""Multi-turn agentic RL as a grid of experiments on verl."""
