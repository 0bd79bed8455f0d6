"""What one RL step's episodes tell: success, rewards, signal, behaviour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from records.success import summarise
from rollouts.episode import Episode, Outcome, Turn


def step_metrics(groups: Sequence[Sequence[Episode]], trained: str, mended: Collection[int] = ()) -> dict[str, float]:
    """Metrics of a step under the names of ``records.metric_names``.

    Args:
        groups: the episodes that share a prompt, group by group.
        trained: the name of the chosen reward (``Turn.trained``).
        mended: the numbers of groups in which an episode of an earlier step took the place of one of these.
    """
    episodes = [episode for group in groups for episode in group]
    learned = [[episode for episode in group if episode.trained] for group in groups]
    turns = [turn for episode in episodes for turn in episode.own_turns]
    outcomes = {f"rollout/{outcome.value}": _mean(e.outcome is outcome for e in episodes) for outcome in Outcome}
    return {
        **_success(episodes),
        **success_by_type([episode for episode in episodes if episode.whole], "success/by_type/"),
        **_rewards([episode for group in learned for episode in group]),
        **_shaping([episode for group in learned for episode in group]),
        **_signal(learned, trained, mended),
        **(_paid(learned, trained) if mended else {}),
        **outcomes,
        **_play(episodes, turns),
        **_summaries(episodes),
        **_form(episodes),
        **_thoughts(turns),
        **_refused(turns),
        "timing/turn_policy": _mean(turn.act_seconds for turn in turns),
        "timing/turn_environment": _mean(turn.env_seconds for turn in turns),
    }


def validation_metrics(episodes: Sequence[Episode], samples: int) -> dict[str, float]:
    """What was played between two steps, ``samples`` episodes a game: success with its 95 % bounds, in [0, 1], the mean
    score where the games have a best one, turns."""
    if not episodes:
        return {}
    found = summarise(episodes, samples)
    told = {
        "success/validation": found["successes"] / len(episodes),
        "success/validation/low": found["low"],
        "success/validation/high": found["high"],
        "rollout/validation/turns": _mean(len(episode.played_turns) for episode in episodes),
        "rollout/validation/episodes": float(len(episodes)),
    }
    return told if found["mean_score"] is None else {**told, "rollout/validation/score": found["mean_score"]}


def _success(episodes: Sequence[Episode]) -> dict[str, float]:
    """Of what the policy played alone from the start, and apart from it of each other kind; nothing of a kind that was not
    played."""
    kinds = {
        "train": [episode for episode in episodes if episode.whole],
        "train_after_prefix": [episode for episode in episodes if episode.prefix],
        "train_guided": [episode for episode in episodes if episode.guidance],
        "train_branched": [episode for episode in episodes if episode.branched],
    }
    return {f"success/{name}": _mean(episode.won for episode in played) for name, played in kinds.items() if played}


def success_by_type(episodes: Sequence[Episode], prefix: str) -> dict[str, float]:
    """Share won, in [0, 1], of each type of task that the environment tells of; nothing where it tells of none."""
    types = sorted({episode.task_type for episode in episodes} - {""})
    return {f"{prefix}{kind}": _mean(e.won for e in episodes if e.task_type == kind) for kind in types}


def _form(episodes: Sequence[Episode]) -> dict[str, float]:
    """What a rollout form added: replayed turns and tokens, the share of episodes learned from that were guided, tokens that leaves
    of a tree have in common with others, episodes that were only played."""
    found: dict[str, float] = {}
    if any(episode.prefix for episode in episodes):
        found["rollout/replayed_turns"] = _mean(len(episode.prefix) for episode in episodes)
        found["rollout/replayed_tokens"] = float(sum(episode.prefix_tokens for episode in episodes))
    if any(episode.parent is not None for episode in episodes):
        shared = (turn for episode in episodes for turn in episode.turns if turn.shared)
        found["rollout/shared_tokens"] = float(sum(len(turn.action_ids) for turn in shared))
    if not all(episode.trained for episode in episodes):
        found["rollout/only_played"] = float(sum(not episode.trained for episode in episodes))
    if any(episode.guidance for episode in episodes):
        found["rollout/guided"] = _mean(bool(episode.guidance) for episode in episodes if episode.trained)
    return found


def _thoughts(turns: Sequence[Turn]) -> dict[str, float]:
    """Tokens of a turn's thought, where answers hold one (``prompt=``)."""
    if not any(turn.thought_tokens for turn in turns):
        return {}
    return {"rollout/thought_tokens": _mean(turn.thought_tokens for turn in turns)}


def _summaries(episodes: Sequence[Episode]) -> dict[str, float]:
    """Where the policy sums up (``rollout_form=summary``): how often in an episode, and in how many tokens."""
    said = [turn for episode in episodes for turn in episode.turns if turn.summary]
    if not said:
        return {}
    return {
        "rollout/summaries": len(said) / len(episodes),
        "rollout/summary_tokens": _mean(len(turn.action_ids) for turn in said),
    }


def _rewards(episodes: Sequence[Episode]) -> dict[str, float]:
    """Each named reward on average: of a turn, and summed over an episode's turns."""
    turns = [turn for episode in episodes for turn in episode.played_turns]
    found: dict[str, float] = {}
    for name in sorted({name for turn in turns for name in turn.rewards}):
        found[f"reward/{name}/turn"] = _mean(turn.rewards.get(name, 0.0) for turn in turns)
        found[f"reward/{name}/episode"] = _mean(
            sum(t.rewards.get(name, 0.0) for t in episode.turns) for episode in episodes
        )
    return found


def _shaping(episodes: Sequence[Episode]) -> dict[str, float]:
    """What each reward transform added to an episode, and what else it tells, on average."""
    names = sorted({name for episode in episodes for name in episode.shaping})
    return {f"shaping/{name}/mean": _mean(episode.shaping.get(name, 0.0) for episode in episodes) for name in names}


def _signal(groups: Sequence[Sequence[Episode]], trained: str, mended: Collection[int]) -> dict[str, float]:
    """Share of groups, of those of two or more episodes, in which all earned the same: GRPO and RLOO learn nothing from
    them. Nothing where there is no such group, as with one sample a prompt."""
    compared = {number: group for number, group in enumerate(groups) if len(group) > 1}
    if not compared:
        return {}
    flat = (number not in mended and len(set(_scores(group, trained))) == 1 for number, group in compared.items())
    return {"credit/groups_without_signal": _mean(flat)}


def _paid(groups: Sequence[Sequence[Episode]], trained: str) -> dict[str, float]:
    """What the step's own episodes earned, in place of verl's figures, which are of the rows that were learned from."""
    scores = [score for group in groups for score in _scores(group, trained)]
    return {f"reward/trained/{name}": float(of(scores)) for name, of in (("mean", _mean), ("min", min), ("max", max))}


def _scores(episodes: Sequence[Episode], trained: str) -> list[float]:
    return [sum(turn.trained(trained) for turn in episode.turns) for episode in episodes]


def _play(episodes: Sequence[Episode], turns: Sequence[Turn]) -> dict[str, float]:
    """``entropy`` (nats a token) is the mean surprisal of what was sampled, which estimates it without another pass."""
    played = [turn for turn in turns if not turn.summary]
    return {
        "rollout/episodes": float(len(episodes)),
        "rollout/turns": _mean(len(episode.played_turns) for episode in episodes),
        "rollout/invalid_actions": _mean(not turn.valid for turn in played),
        "rollout/unparsed_actions": _mean(not turn.parsed for turn in played),
        "rollout/tokens_per_turn": _mean(len(turn.action_ids) for turn in played),
        "rollout/entropy": -_mean(logprob for turn in turns for logprob in turn.logprobs),
        "rollout/retries": float(sum(episode.retries for episode in episodes)),
        "rollout/sampled_tokens": float(sum(len(turn.action_ids) for turn in turns)),
    }


def _refused(turns: Sequence[Turn]) -> dict[str, float]:
    """How many edits, or repairs when they were graded, an environment did not allow, by its reason."""
    reasons = Counter(str(turn.info["refused"]) for turn in turns if turn.info.get("refused"))
    return {f"rollout/refused/{reason}": float(number) for reason, number in sorted(reasons.items())}


def _mean(values: Iterable[float]) -> float:
    found = [float(value) for value in values]
    return sum(found) / len(found) if found else 0.0
