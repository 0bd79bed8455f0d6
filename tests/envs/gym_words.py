"""A game of somebody else's, as a package would register it: words to read, numbers to answer, no
rules to look into."""

import gymnasium
from gymnasium.spaces import Discrete, Text, Tuple


class Count(gymnasium.Env):
    """Say 1 or 2 until the sum is just 4; above it the game is over."""

    observation_space = Tuple((Text(20), Discrete(9)))
    action_space = Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.sum = int(self.np_random.integers(2))
        return ("so far", self.sum), {}

    def step(self, action):
        self.sum += int(action)
        return ("so far", self.sum), float(self.sum == 4) * 3, self.sum >= 4, False, {}


gymnasium.register("Count-v0", Count)
