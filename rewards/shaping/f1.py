from turngrid.rewards.declared import FIRST, Method, excludes
from turngrid.rewards.reward import RewardView


class F1(Method):
    """``r_last = 2 p r / (p + r)``, in place of the trained reward; 0 if nothing was solved.

    r is the share of the game's maximum score, or won, if the game has no score. ``p = min(1, r L /
    c)``, c turns, replayed ones included, L actions of the expert plan; r without a plan.
    """

    conflicts = (
        excludes("shaping", "turn_bonus", reason="one pays for turns, the other charges them", use="shaping=[f1]"),
        FIRST,
    )

    def __call__(self, view: RewardView) -> dict[str, list[float]]:
        episode = view.episode
        recall = float(episode.won) if episode.score is None else episode.score
        turns = sum(not turn.aside for turn in [*episode.prefix, *episode.turns])
        precision = min(1.0, recall * view.plan / max(1, turns)) if view.plan else recall
        paid = 2 * precision * recall / (precision + recall) if recall > 0 else 0.0
        return view.only_last(paid)
