"""Episodes to look at, with real tokens of the tiny model, and a run folder that holds them."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer

from turngrid.records.credit import Credit, write_credit
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.store import write_episodes

TINY = Path(__file__).resolve().parents[2] / "assets" / "tiny"
ATTACK = "<script>window.attacked = true</script><img src=x onerror='window.attacked = true'>"


@cache
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(TINY / "tokenizer.json"))


def ids(text: str) -> list[int]:
    return list(_ids(text))


@cache
def _ids(text: str) -> tuple[int, ...]:
    return tuple(tokenizer().encode(text, add_special_tokens=False).ids)


def turn(number: int, action: str = "open box", *, reward: float = 0.0, **other: object) -> Turn:
    written, rewards = ids(action), {"sparse": reward, "shaped": reward / 2}
    logprobs = [-0.25 * (place + 1) for place in range(len(written))]
    context = ids(f"you see box {number + 1}.")
    return Turn(f"You see box {number}.", action, written, logprobs, context, rewards=rewards, **other)


def episode(game: int, *, won: bool = False, turns: int = 3, **other: object) -> Episode:
    played = [turn(number, reward=float(won and number == turns - 1)) for number in range(turns)]
    played[-1].context_ids = []
    messages = [{"role": "user", "content": "You are in a room."}, {"role": "assistant", "content": "open box"}]
    outcome, task = Outcome.WON if won else Outcome.OUT_OF_TURNS, f"textworld/w2-o3-q4/{game}"
    plain = Episode(task, game, "train", "open every box", messages, ids("you are in a room."), played, outcome)
    return replace(plain, **{"final_observation": "The box is open.", "policy": "model", **other})


def credit(episode: Episode) -> Credit:
    """No two numbers alike, so that one that stands at a wrong token shows."""
    tokens = sum(len(turn.action_ids) for turn in episode.turns)
    return Credit(
        [(place - 3) / 10 + episode.sample for place in range(tokens)],
        [1.0] * tokens,
        [place / 100 for place in range(tokens)],
    )


def run_folder(path: Path, steps: int = 3) -> Path:
    """3 steps of 2 games x 4 samples, an evaluation of 5 games, 2 demonstrations; credit for all
    steps but the first."""
    path.mkdir(parents=True)
    (path / "attempts.jsonl").write_text(json.dumps({"commit": "0" * 40}) + "\n")
    (path / "config.yaml").write_text("model:\n  path: asset://tiny\nturn_reward:\n  name: sparse\n")
    expert = [episode(game, won=True, policy="expert", split="demonstrations") for game in (1, 2)]
    for item in expert:
        for turn in item.turns:
            turn.sampled, turn.logprobs = False, []
    write_episodes(path / "episodes" / "demonstrations.jsonl", expert)
    tested = [episode(game, won=game % 2 == 0, task=f"textworld/w4-o6-q8/{game}", split="test") for game in range(5)]
    write_episodes(path / "evaluation" / "rl.jsonl", tested)
    for step in range(1, steps + 1):  # of each game, the first ``step`` samples are won
        own = {"step": step, "policy_version": step - 1}
        places = [(game, sample) for game in (100, 101) for sample in range(4)]
        episodes = [episode(game, won=at < step, turns=2 + at, sample=at, **own) for game, at in places]
        write_episodes(path / "rl" / "episodes" / f"{step:06d}.jsonl", episodes)
        if step > 1:
            write_credit(path / "rl" / "credit" / f"{step:06d}.jsonl", [credit(item) for item in episodes])
    return path
