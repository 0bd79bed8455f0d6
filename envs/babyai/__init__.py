"""BabyAI's levels in words, from minigrid, with its bot as expert."""
