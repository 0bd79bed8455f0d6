"""Add token ids to an episode of a text policy, exactly as a model's episode has them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from turngrid.rollouts.episode import SUMMARY, Episode, Turn
from turngrid.rollouts.prompt_forms.form import PromptForm, meaning, messages_of
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM
from turngrid.rollouts.stream import TokenStream, joined, runs, user
from turngrid.rollouts.window import Summaries, View, Window


def fill_ids(
    episode: Episode, stream: TokenStream, window: Window | Summaries | None = None, form: PromptForm | None = None
) -> Episode:
    """Return a copy with prompt, action and context ids; its turns stay marked as not sampled.

    Args:
        episode: its messages begin with the user's and have an answer a turn; replayed turns become
            part of the prompt.
        stream: empty.
        window: what a model would see. If a summary is due and the episode has none, the actions
            so far are the summary.
        form: the prompt form that the episode used; default: plain.
    """
    form = form or PLAIN_FORM
    if not episode.turns:
        return replace(episode, prompt_ids=stream.start(episode.messages[:1]))
    shown = list(runs(episode.messages))[0::2]
    turns: list[Turn] = []
    prefix = [replace(turn) for turn in episode.prefix]
    first = messages_of(form, [*prefix, *episode.turns][0])
    view = View(form, joined(shown[0]).removesuffix(joined(first)), turns, window, stream)
    view.begin_with("", first)
    for turn, following in zip(prefix, shown[1:], strict=False):
        view.replay(turn, following)
    opening, shown, remaining = view.prompt_ids, shown[len(prefix) :], episode.played_turns
    for number, turn in enumerate(remaining):
        if view.full:
            view.slide(messages_of(form, turn))
        turns.append(_fill(turn, view.begins_with(len(turns)), stream, form))
        if number + 1 == len(shown):
            break
        summary = _summary(episode, number + 1, view, turns) if number + 1 < len(remaining) else None
        if isinstance(window, Summaries) and summary is not None:
            _sum_up(window, summary, remaining[number + 1].observation, turns, view, stream)
            view.begin_with(window.heading(summary), shown[number + 1])
        else:
            turns[-1].context_ids = view.show(shown[number + 1])
    return replace(episode, prompt_ids=opening, turns=turns, prefix=prefix)


def _summary(episode: Episode, number: int, view: View, turns: Sequence[Turn]) -> str | None:
    """Return the summary after ``number`` turns, the episode's or a template's; or None."""
    before = list(accumulate(int(turn.role != SUMMARY) for turn in episode.turns))
    own = {count: turn.response for count, turn in zip(before, episode.turns, strict=True) if turn.role == SUMMARY}
    rules = view.to_be_summed_up
    from_template = rules.demonstrate(turns) if rules and rules.left(turns) and not own else None
    return own.get(number, from_template)


def _sum_up(
    rules: Summaries, summary: str, observation: str, turns: list[Turn], view: View, stream: TokenStream
) -> None:
    turns[-1].context_ids = view.show([user(rules.ask(observation))])
    ids = stream.encode_action(summary)
    stream.add_sampled(ids)
    turns.append(Turn(observation, summary, ids, sampled=False, aside=True, role=SUMMARY))


def _fill(turn: Turn, prompt_ids: list[int], stream: TokenStream, form: PromptForm) -> Turn:
    action_ids = stream.encode_action(turn.response)
    stream.add_sampled(action_ids)
    meant = meaning(form, turn.response, (), action_ids, stream)
    filled = replace(turn, sampled=False, action_ids=action_ids, context_ids=[], prompt_ids=prompt_ids)
    return replace(filled, thought_tokens=meant["thought_tokens"], spans=meant["spans"])
