"""Metrics of one RL step's episodes: success, rewards, signal, behaviour."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from statistics import fmean, median, stdev

import numpy as np

from turngrid.records.statistics import summarise
from turngrid.rewards.registry import PLAN_SHARE
from turngrid.rollouts.episode import SUMMARY, Episode, Outcome
from turngrid.rollouts.policy import PAST, SELF

GROUP_STD = ("credit/group_std/mean", "credit/group_std/p10", "credit/group_std/p90")
REPEATED = "credit/repeated_states"
N_GRAM = 4  # of Welleck et al. (2020), arXiv 1908.04319: seq-rep-4


def step_metrics(
    groups: Sequence[Sequence[Episode]], trained: str, replaced: Collection[int] = (), limits: Mapping[str, float] = {}
) -> dict[str, float]:
    """Return metrics of a step under the names of ``turngrid.records.metrics``.

    ``trained`` is the chosen reward. In the groups of ``replaced``, a stored episode replaced one.
    ``limits`` are those of an answer's tokens by role, of other answers under "".
    """
    episodes = [episode for group in groups for episode in group]
    learned = [[episode for episode in group if episode.trained] for group in groups]
    compared = [[e for e in group if e.seat == seat] for group in learned for seat in sorted({e.seat for e in group})]
    return {
        **_success(episodes),
        **success_by_type([episode for episode in episodes if episode.whole], "success/by_type/"),
        **_rewards([episode for group in learned for episode in group]),
        **_signal(compared, trained, replaced),
        REPEATED: repeated_states(compared),
        **_play(episodes),
        **_answers(groups, limits),
        **_form(episodes),
        **_matches(episodes),
    }


def validation_metrics(episodes: Sequence[Episode], samples: int) -> dict[str, float]:
    """Return success with 95 % bounds in [0, 1], turns, and the mean score if it is known."""
    if not episodes:
        return {}
    summary = summarise(episodes, samples)
    metrics = {
        "success/validation": summary["successes"] / len(episodes),
        "success/validation/low": summary["low"],
        "success/validation/high": summary["high"],
        "rollout/validation/turns": _mean(len(episode.played_turns) for episode in episodes),
        "rollout/validation/episodes": float(len(episodes)),
    }
    score = summary["mean_score"]
    return metrics if score is None else {**metrics, "rollout/validation/score": score}


def _success(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the success of episodes without help, and of each other kind that occurs.

    If an episode has several attempts, the first one counts; in ``train_any`` any of them.
    """
    kinds = {
        "train": [episode for episode in episodes if episode.whole],
        "train_after_prefix": [episode for episode in episodes if episode.prefix],
        "train_guided": [episode for episode in episodes if episode.guidance],
        "train_branched": [episode for episode in episodes if episode.branched],
    }
    shares = {f"success/{name}": _mean(e.won_at_once for e in played) for name, played in kinds.items() if played}
    if several := [episode for episode in episodes if episode.plays]:
        shares["success/train_any"] = _mean(Outcome.WON in episode.plays for episode in several)
    return shares


def success_by_type(episodes: Sequence[Episode], prefix: str) -> dict[str, float]:
    """Return the share won, in [0, 1], by task type."""
    types = sorted({episode.task_type for episode in episodes} - {""})
    return {f"{prefix}{kind}": _mean(e.won_at_once for e in episodes if e.task_type == kind) for kind in types}


def _form(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return metrics of a rollout form (docs/tracking.md)."""
    metrics: dict[str, float] = {}
    if any(episode.prefix for episode in episodes):
        metrics["rollout/replayed_turns"] = _mean(len(episode.prefix) for episode in episodes)
        metrics["rollout/replayed_tokens"] = float(sum(episode.prefix_tokens for episode in episodes))
    if any(episode.parent is not None for episode in episodes):
        shared = (turn for episode in episodes for turn in episode.turns if turn.shared)
        metrics["rollout/shared_tokens"] = float(sum(len(turn.action_ids) for turn in shared))
    if not all(episode.trained for episode in episodes):
        metrics["rollout/only_played"] = float(sum(not episode.trained for episode in episodes))
    if any(episode.guidance for episode in episodes):
        metrics["rollout/guided"] = _mean(bool(episode.guidance) for episode in episodes if episode.trained)
    if any(episode.plays for episode in episodes):
        metrics["rollout/plays"] = _mean(len(episode.plays) for episode in episodes)
    if followed := [episode for episode in episodes if episode.followed]:
        metrics["rollout/matched"] = _mean(sum(turn.info[PLAN_SHARE] for turn in e.turns) for e in followed)
        metrics["rollout/patches"] = _mean(sum(bool(turn.patch) for turn in e.turns) for e in followed)
    return metrics


def _matches(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return won and drawn shares by seat, of matches against the policy, its past, and others."""
    by_kind: dict[tuple[str, str], list[Episode]] = {}
    for episode in (episode for episode in episodes if episode.seat):
        kind = episode.opponent.partition(":")[0]
        by_kind.setdefault((kind if kind in (SELF, PAST) else "others", episode.seat), []).append(episode)
    metrics: dict[str, float] = {}
    for (kind, seat), own in sorted(by_kind.items()):
        for outcome in (Outcome.WON, Outcome.DRAWN):
            metrics[f"rollout/match/{kind}/seat_{seat}/{outcome.value}"] = _mean(e.outcome is outcome for e in own)
    return metrics


def _rewards(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return the mean of each reward, a turn and an episode, and what each transform added."""
    turns = [turn for episode in episodes for turn in episode.played_turns]
    metrics: dict[str, float] = {}
    for name in sorted({name for turn in turns for name in turn.rewards}):
        metrics[f"reward/{name}/turn"] = _mean(turn.rewards.get(name, 0.0) for turn in turns)
        metrics[f"reward/{name}/episode"] = _mean(
            sum(t.rewards.get(name, 0.0) for t in episode.turns) for episode in episodes
        )
    for name in sorted({name for episode in episodes for name in episode.shaping}):
        metrics[f"shaping/{name}/mean"] = _mean(episode.shaping.get(name, 0.0) for episode in episodes)
    return metrics


def _signal(groups: Sequence[Sequence[Episode]], trained: str, replaced: Collection[int]) -> dict[str, float]:
    """Return how the rewards of groups vary, before filters; groups of one episode do not count.

    If episodes were ``replaced``, also return the rewards of the step's own episodes: verl's are
    those of the trained rows.
    """
    metrics: dict[str, float] = {}
    scores = [[sum(turn.trained(trained) for turn in one.turns) for one in group] for group in groups]
    compared = {number: group for number, group in enumerate(scores) if len(group) > 1}
    if compared:
        flat = (number not in replaced and len(set(group)) == 1 for number, group in compared.items())
        metrics["credit/groups_without_signal"] = _mean(flat)
        won = [[one.won for one in groups[number]] for number in compared]
        metrics["credit/groups_all_won"] = _mean(map(all, won))
        metrics["credit/groups_all_lost"] = _mean(not any(group) for group in won)
        spread = [stdev(group) for group in compared.values()]
        of_spread = (fmean(spread), *np.percentile(spread, [10, 90]).tolist())
        metrics |= dict(zip(GROUP_STD, of_spread, strict=True))
    if replaced:
        own = [score for group in scores for score in group]
        metrics |= {
            f"reward/trained/{name}": float(of(own)) for name, of in (("mean", _mean), ("min", min), ("max", max))
        }
    return metrics


def repeated_states(groups: Iterable[Sequence[Episode]]) -> float:
    """Return the share of turns, in [0, 1], whose observation another turn of their group has."""
    seen = [Counter(turn.observation.strip() for one in group for turn in one.played_turns) for group in groups]
    counts = [count for states in seen for count in states.values()]
    return sum(count for count in counts if count > 1) / (sum(counts) or 1)


def _play(episodes: Sequence[Episode]) -> dict[str, float]:
    """Return counts and shares; ``entropy`` (nats) is the mean surprisal of sampled tokens."""
    turns = [turn for episode in episodes for turn in episode.own_turns]
    actions = [turn for turn in turns if not turn.aside]
    outcomes = [one for one in Outcome if one is not Outcome.DRAWN or any(episode.seat for episode in episodes)]
    metrics = {f"rollout/{outcome.value}": _mean(e.outcome is outcome for e in episodes) for outcome in outcomes} | {
        "rollout/episodes": float(len(episodes)),
        "rollout/turns": _mean(len(episode.played_turns) for episode in episodes),
        "rollout/invalid_actions": _mean(not turn.valid for turn in actions),
        "rollout/unparsed_actions": _mean(not turn.parsed for turn in actions),
        "rollout/tokens_per_turn": _mean(len(turn.action_ids) for turn in actions),
        "rollout/entropy": -_mean(logprob for turn in turns for logprob in turn.logprobs),
        "rollout/retries": float(sum(episode.retries for episode in episodes)),
        "rollout/sampled_tokens": float(sum(len(turn.action_ids) for turn in turns)),
        "timing/turn_policy": _mean(turn.act_seconds for turn in turns),
        "timing/turn_environment": _mean(turn.env_seconds for turn in turns),
    }
    if summaries := [turn for episode in episodes for turn in episode.turns if turn.role == SUMMARY]:
        metrics["rollout/summaries"] = len(summaries) / len(episodes)
        metrics["rollout/summary_tokens"] = _mean(len(turn.action_ids) for turn in summaries)
    for role in sorted({turn.role for turn in turns} - {"", SUMMARY}):
        answers = [len(turn.action_ids) for turn in turns if turn.role == role]
        metrics[f"rollout/role/{role}/turns"] = len(answers) / len(episodes)
        metrics[f"rollout/role/{role}/tokens_per_turn"] = _mean(answers)
    if any(turn.retrieved for turn in turns):
        metrics["library/found"] = _mean(bool(turn.retrieved) for turn in actions)
        metrics["library/tokens"] = float(sum(turn.retrieved_tokens for turn in turns))
    if any(turn.actions for turn in turns):
        metrics["rollout/actions"] = _mean(episode.actions_run for episode in episodes)
    if any(turn.thought_tokens for turn in turns):
        metrics["rollout/thought_tokens"] = _mean(turn.thought_tokens for turn in turns)
    refused = Counter(str(turn.info["refused"]) for turn in turns if turn.info.get("refused"))
    return metrics | {f"rollout/refused/{reason}": float(number) for reason, number in sorted(refused.items())}


def repeated_share(*answers: Sequence[int]) -> float:
    """Return the share of 4-grams, in [0, 1], that occur earlier in their answer."""
    grams = [list(zip(*(ids[start:] for start in range(N_GRAM)), strict=False)) for ids in answers]
    total = sum(map(len, grams))
    return 1 - sum(len(set(own)) for own in grams) / total if total else 0.0


def _answers(groups: Sequence[Sequence[Episode]], limits: Mapping[str, float]) -> dict[str, float]:
    """Return how answers repeat themselves, and how games and lengths of episodes differ.

    A prompt has the goal, so fewer prompts than goals mean that games are mixed up.
    """
    episodes = [episode for group in groups for episode in group]
    turns = [turn for episode in episodes for turn in episode.own_turns if turn.role != SUMMARY]
    usual = limits.get("", inf)
    metrics = {
        "rollout/repeated_tokens": repeated_share(*(turn.action_ids for turn in turns if not turn.aside)),
        "rollout/answers_at_limit": _mean(len(turn.action_ids) >= limits.get(turn.role, usual) for turn in turns),
    }
    if first := [group[0] for group in groups if group]:
        goals, prompts = {one.goal for one in first}, {tuple(one.prompt_ids) for one in first}
        metrics["rollout/distinct_prompts"] = min(1.0, len(prompts) / len(goals))
    seconds = [sum(turn.act_seconds + turn.env_seconds for turn in one.turns) for one in episodes]
    if seconds and (usual := median(seconds)):
        metrics["timing/slowest_to_median"] = max(seconds) / usual
    return metrics


def _mean(values: Iterable[float]) -> float:
    listed = [float(value) for value in values]
    return sum(listed) / len(listed) if listed else 0.0
