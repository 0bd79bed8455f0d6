from turngrid.rewards.shaping.penalty import Penalty


class Format(Penalty):
    """A penalty for answers from which no action could be read."""

    flag = "parsed"
