from turngrid.rewards.shaping.penalty import Penalty


class InvalidAction(Penalty):
    """A penalty for turns that the environment did not understand, or that have no action."""

    flag = "valid"
