from turngrid.rollouts.forms.summary import Summary


class Mem1(Summary):
    """MEM1: the policy sees the goal, its summary and the newest observation."""
