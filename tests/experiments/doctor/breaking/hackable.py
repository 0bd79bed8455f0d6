"""A reward that pays for each action, so that an episode that is not won pays most."""


class Hackable:
    name = "hackable"

    def turn_rewards(self, turns, won, max_score):
        return [0.3 * turn.valid for turn in turns]


class Constant:
    name = "constant"

    def turn_rewards(self, turns, won, max_score):
        return [0.0] * len(turns)
