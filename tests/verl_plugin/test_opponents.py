"""Matches of two seats: their rows, and opponents that are served: earlier weights in our server,
and a chat endpoint."""

import asyncio
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_stub import Answer, chat_stub, says
from game_table import Recording, Says
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file
from test_rollout_forms import assert_trained_as_sampled
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.append(str(Path(__file__).parents[1] / "rollouts"))

from test_matches import DRAW, WIN, Here, game, game_of, spec  # noqa: F401 - a fixture
from usual import method

from turngrid.algorithms.turns import OUTCOMES
from turngrid.config.compose import compose
from turngrid.envs.types import TaskRef
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.episode import Episode, Outcome
from turngrid.rollouts.failed_episodes import EpisodeFailed
from turngrid.rollouts.loop import run_episode
from turngrid.rollouts.policy import ContextLimit, ModelPolicy
from turngrid.rollouts.sampling import SampleRequest, SamplingParams
from turngrid.tasks.run import Run
from turngrid.verl_plugin.rollout import opponents
from turngrid.verl_plugin.rollout.agent_loop import TurngridAgentLoop, row_fields
from turngrid.verl_plugin.rollout.local_rollouts import LoadedModel, Rules, codec_of
from turngrid.verl_plugin.servers.transformers_server.generator import Generator
from turngrid.verl_plugin.servers.transformers_server.server import TransformersServer

ASSETS = Path(__file__).parents[2] / "assets"
TINY = str(ASSETS / "tiny")


@pytest.mark.parametrize(("actions", "outcomes"), [(WIN, ("won", "lost")), (DRAW, ("drawn", "drawn"))])
def test_rows_of_two_seats(game: TaskRef, actions: list[str], outcomes: tuple[str, str]) -> None:  # noqa: F811
    codec = codec_of(str(ASSETS / "tiny_all"), "qwen2", ChatSettings(), ())
    server, limit = Says(codec, list(actions)), ContextLimit(1024, 4096)
    policy = ModelPolicy(server, codec.decode, SamplingParams(1.0, max_action_tokens=6), limit, run_seed=0)
    first = asyncio.run(run_episode(policy, Here(), spec(game), codec.stream(), codec.stream()))
    sides = [first, *first.sides]
    asked = {request.request_id for request in server.asked}
    assert asked == {"1/p#0/0", "1/p#1/0"} and len({request.seed for request in server.asked}) == len(actions)
    for side, outcome in zip(sides, outcomes, strict=True):
        own = [request for request in server.asked if request.request_id == f"1/p#{side.seat}/0"]
        assert_trained_as_sampled(side, own)
        (row,) = row_fields(side, "zero_sum", "observation")
        assert row["turn_role"].tolist() == [int(side.seat)] * len(side.turns)
        assert [OUTCOMES[number] for number in row["turn_outcome"]] == [outcome]
        assert row["rm_scores"].sum() == {"won": 1, "lost": -1, "drawn": 0}[outcome]
    told = [[turn.action for turn in side.turns] for side in sides]
    assert [action for pair in zip(*told, strict=False) for action in pair] == actions[: 2 * len(told[1])]
    assert sum(len(turn.action_ids) for turn in chain(first.turns, sides[1].turns)) == 2 * len(actions)  # and ends


def test_the_server_samples_with_weights_that_it_kept(tmp_path: Path) -> None:
    """Both files in one batch, in any order, after another update, and after a sleep."""
    files = [str(tmp_path / name) for name in ("", "a.pt", "b.pt")]
    scales = (0.8, 1.0, 0.9)  # of the newest weights, and of those in the files
    state = AutoModelForCausalLM.from_pretrained(TINY).state_dict()
    base = [SampleRequest(f"r{n}", [4, 5, 6, 7 + n], 6, seed=n) for n in range(6)]
    asked = [replace(request, weights=files[n % 3] if n % 3 else "") for n, request in enumerate(base)]

    def scaled(scale: float) -> dict[str, torch.Tensor]:
        return {name: tensor * scale for name, tensor in state.items()}

    async def scenario() -> list[list[Any]]:
        server = TransformersServer(TINY, 64)
        for scale, file in zip(scales[1:], files[1:], strict=True):
            await server.update_weights(scaled(scale), 1)
            await server.keep_weights(file)
        await server.update_weights(scaled(scales[0]), 2)
        first = await server.generate_batch(asked)
        await server.sleep()
        return [first, await server.generate_batch(asked[::-1])]

    first, second = asyncio.run(scenario())
    alone = Generator.from_pretrained(TINY)
    for n, answer in enumerate(first):
        alone.load_weights(scaled(scales[n % 3]).items())
        assert answer.token_ids == second[-1 - n].token_ids == alone.generate([base[n]])[0].token_ids


def test_the_start_of_rl_is_a_second_model_of_an_evaluation(tmp_path: Path) -> None:
    """The same weights answer as the policy itself does, others do not."""
    task = game_of("SimpleNegotiation-v0", 1, tmp_path)
    other = Path(shutil.copytree(ASSETS / "tiny_all", tmp_path / "other"))
    weights = load_file(other / "model.safetensors")
    save_file({name: 0.5 * tensor for name, tensor in weights.items()}, other / "model.safetensors", {"format": "pt"})
    model = LoadedModel(str(ASSETS / "tiny_all"), "cpu", ChatSettings())

    rules = Rules(SamplingParams(1.0, max_action_tokens=6), ContextLimit(1024, 1024), 0)
    one = spec(task, opponent="start", both=False)

    def answers(episode: Episode) -> list[str]:
        return [text for turn in episode.turns for text in (turn.observation, turn.response)]

    def against(start: Path) -> list[str]:
        against_it = replace(rules, models={"start": str(start)})
        return answers(*asyncio.run(model.roll_out([one], against_it, Pool(), lambda: None)))  # type: ignore[arg-type]

    policy = ModelPolicy(Recording(model.generator), model.codec.decode, rules.params, rules.limit, rules.seed)
    match = run_episode(policy, Here(), replace(one, opponent="self"), model.codec.stream(), model.codec.stream())
    itself = answers(asyncio.run(match))
    assert len(itself) > 4 and against(ASSETS / "tiny_all") == itself and against(other) != itself


def test_the_pool_of_the_past() -> None:
    form = method("rollout_form", "self_play", opponent="past", past_every=3, past_pool=2)
    assert [form.past(step) for step in (1, 3, 4, 7, 8)] == [[0], [0], [0, 3], [3, 6], [3, 6]]
    assert [step for step in range(1, 9) if form.keeps(step)] == [1, 4, 7]  # before steps 1, 4 and 7: after 0, 3 and 6
    assert not method("rollout_form", "self_play").keeps(1)


# ---- matches through the agent loop


@dataclass
class Pool:
    """Games in this process."""

    async def open(self, _: str = "") -> Any:
        class Session(Here):
            async def close(self) -> None: ...

        return Session()


Play = Callable[..., tuple[list[Episode], Says]]


@pytest.fixture
def play(game: TaskRef, tmp_path: Path) -> Play:  # noqa: F811
    tokenizer = AutoTokenizer.from_pretrained(str(ASSETS / "tiny_all"))

    def run(actions: str, *words: str, **more: Any) -> tuple[list[Episode], Says]:
        """Play one match; ``actions`` are sampled, whoever asks."""
        made = compose(["env=two_player", "algo=spiral", "model=tiny_all", *words])
        config = Run(made, tmp_path).for_process()

        async def match() -> tuple[list[Episode], Says]:
            loop = TurngridAgentLoop(config, tokenizer, "qwen2")
            loop.pool = Pool()  # type: ignore[assignment]
            server = Says(loop.codec, list(actions))
            episode = await loop.play(spec(game, **more), server)
            return [episode, *episode.sides], server

        return asyncio.run(match())

    return run


PAST = "rollout_form.self_play.opponent=past"


def test_a_match_against_the_past(play: Play, tmp_path: Path) -> None:
    (won,), server = play("03142", PAST, "rollout_form.self_play.past_every=2", opponent="past", step=4)
    drawn = won.opponent.removeprefix("past:")
    assert (won.outcome, won.seat) == (Outcome.WON, "0") and drawn in ("0", "2")
    file = str(tmp_path / "rl" / "opponents" / f"{int(drawn):06d}.pt")
    assert [request.weights for request in server.asked] == ["", file, "", file, ""]
    assert {request.request_id for request in server.asked} == {"4/p#0/0", "4/p#1/0"}


def test_a_match_that_the_past_forfeits_at_once_teaches_the_policy_all_the_same(play: Play) -> None:
    """Seat 0, the past, says 9: no cell. The policy then has both seats, and learns from one."""
    (episode,), server = play("9" + "03142", PAST, opponent="past", seat="1", step=1)
    assert (episode.opponent, episode.seat, episode.outcome) == ("self", "1", Outcome.LOST)
    assert [bool(request.weights) for request in server.asked] == [True] + [False] * 5
    assert [turn.action for turn in episode.turns] == ["3", "4"]


def test_one_opponent_a_step_is_drawn_from_the_weights_that_are_kept(
    game: TaskRef,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[str] = []

    async def keep(path: Path) -> None:
        kept.append(path.name)

    monkeypatch.setattr(opponents, "keep_weights", keep)
    form, policy = method("rollout_form", "self_play", opponent="past", past_every=2), ModelPolicy(*[None] * 5)  # type: ignore[arg-type]
    runs = [Run(OmegaConf.create({"seed": seed}), tmp_path) for seed in (0, 1)]
    first, second = (opponents.Opponents(run, lambda _: form) for run in runs)
    for step in (3, 3, 4, 5):  # twice where groups are refilled
        asyncio.run(first.keep(step))
    assert kept == ["000002.pt", "000004.pt"]

    def drawn(ours: opponents.Opponents, **more: Any) -> str:
        return ours.of(spec(game, **{"opponent": "past", **more}), policy)[0].opponent

    by_step = [drawn(first, step=step) for step in range(40, 60)]
    assert by_step == [drawn(first, step=step, sample=3, prompt="q") for step in range(40, 60)]
    assert by_step != [drawn(second, step=step) for step in range(40, 60)] and len({*by_step}) > 5
    assert drawn(first, opponent="random") == "random"


def endpoint(url: str) -> tuple[str, ...]:
    keys = {"opponent": "endpoint", "endpoint": url, "endpoint_model": "m"}
    return tuple(f"rollout_form.self_play.{key}={value}" for key, value in keys.items())


def test_an_endpoint_takes_the_other_seat(play: Play) -> None:
    moves = iter("34")
    with chat_stub(lambda _: says(next(moves))) as stub:
        (won,), server = play("012", *endpoint(stub.url), opponent="endpoint")
    assert (won.outcome, won.opponent) == (Outcome.WON, "endpoint") and len(server.asked) == 3
    bodies = [body for _, _, body in stub.seen]
    assert [len(body["messages"]) for body in bodies] == [1, 3] and {body["model"] for body in bodies} == {"m"}
    assert "will be 'X'" in bodies[0]["messages"][0]["content"] and bodies[1]["messages"][1]["content"] == "3"
    assert bodies[0]["seed"] != bodies[1]["seed"] and bodies[0]["max_tokens"] == 16


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _: (401, json.dumps({"error": "no key"})), "the opponent failed: .*401"),
        (lambda _: (400, "maximum context length"), "too long for the opponent m"),
    ],
)
def test_a_failing_endpoint_fails_its_match_alone(play: Play, answer: Answer, reason: str) -> None:
    """As a failing environment does: the match is tried again, and its group replaced."""
    with chat_stub(answer) as stub, pytest.raises(EpisodeFailed, match=reason):
        play("0000", *endpoint(stub.url), opponent="endpoint")
    assert len(stub.seen) == 4
