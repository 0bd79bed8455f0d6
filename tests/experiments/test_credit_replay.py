"""Going back to a prefix: games are what they were there, and a model sees what it saw."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from flawed_environments import Remembering
from transformers import AutoConfig, AutoModelForTokenClassification

from turngrid.config.base import ROOT
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskRef
from turngrid.experiments.credit_quality.game import GameTree, MeasuredGame, Measurement, keys, prefixes
from turngrid.experiments.credit_quality.methods import WEIGHTS, critic_file
from turngrid.experiments.credit_quality.policy_model import PolicyModel, rows, run_critic
from turngrid.experiments.credit_quality.study import ModelRollouts
from turngrid.records.process.exit_codes import Refusal
from turngrid.rewards.registry import reward
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.policy import ContextLimit
from turngrid.rollouts.sampling import SamplingParams
from turngrid.rollouts.spec import EpisodeSpec
from turngrid.rollouts.window import Window
from turngrid.verl_plugin.rollout.local_rollouts import LoadedModel, Rules

TEXTWORLD = make_environment("textworld")


@pytest.fixture(scope="module")
def rollouts() -> ModelRollouts:
    model = LoadedModel(str(ROOT / "assets" / "tiny"), "cpu", ChatSettings())
    return ModelRollouts(model, Rules(SamplingParams(0.7, max_action_tokens=16), ContextLimit(512, 1024), seed=3))


def spec_of(task: TaskRef, **more: object) -> EpisodeSpec:
    return EpisodeSpec(task, TEXTWORLD.prompt, 6, reward("sparse", None), **more)


@pytest.mark.parametrize("window", [None, Window(3, 1), Window(2, 1), Window(1, 2, inline=True)])
def test_a_continuation_with_the_same_random_numbers_is_the_same_episode(
    rollouts: ModelRollouts, games: list[TaskRef], window: Window | None
) -> None:
    """Token for token, from every turn on: prompts, windows and game are restored exactly."""
    spec, tree = spec_of(games[0], window=window), GameTree(TEXTWORLD.env, games[0])
    (episode,) = asyncio.run(rollouts([replace(spec, sample=5)], tree))
    assert len(episode.turns) == 6
    measurement = Measurement(rollouts, TEXTWORLD.env, spec, "sparse")
    again = [replace(measurement.continuation(episode, turn, 5), prompt="") for turn in range(6)]
    tree.close()  # nothing is played twice
    for number, other in enumerate(asyncio.run(rollouts(again, tree))):
        assert [turn.action_ids for turn in other.turns] == [turn.action_ids for turn in episode.turns]
        assert [turn.prompt_ids for turn in other.turns] == [turn.prompt_ids for turn in episode.turns]
        assert [turn.context_ids for turn in other.turns] == [turn.context_ids for turn in episode.turns]
        assert [turn.shared for turn in other.turns] == [place < number for place in range(6)]
        assert (other.outcome, other.final_observation) == (episode.outcome, episode.final_observation)
    tree.check([turn.action for turn in episode.turns])


def test_textworld_goes_back_to_any_state(games: list[TaskRef]) -> None:
    """Along the plan and aside from it, in any order, it answers as a fresh game does."""
    plan, tree = list(games[1].expert_plan), GameTree(TEXTWORLD.env, games[1])
    aside = ("look", "inventory", "go east")
    paths = [[*plan[:length], action] for length in range(len(plan)) for action in (*aside, plan[length])]
    for path in [*reversed(paths), *paths]:
        node = tree.root
        for action in path:
            node = tree.child(node, action)
    assert node.result and node.result.won
    for path in paths[::3]:
        tree.check(path)
    tree.close()


def test_equal_prefixes_of_several_samples_are_one(rollouts: ModelRollouts, games: list[TaskRef]) -> None:
    game = MeasuredGame(games[2].key)
    measurement = Measurement(rollouts, TEXTWORLD.env, spec_of(games[2]), "sparse")
    asyncio.run(measurement.measure(game, samples=3, k=2))
    known = prefixes(game.episodes)
    assert set(game.values) == set(known) and all(len(values) == 2 for values in game.values.values())
    assert len({keys(episode)[0] for episode in game.episodes}) == 1
    assert len(known) < sum(len(episode.turns) for episode in game.episodes)
    assert game.known(3, 2) and game.known(2, 1) and not game.known(3, 3) and not game.known(4, 2)


def test_an_environment_that_does_not_replay_is_refused(rollouts: ModelRollouts, games: list[TaskRef]) -> None:
    """Its scores depend on how often it was reset."""
    counting = type("Counting", (Remembering.Game,), {"points": lambda game: 0.01 * game.episodes})
    measurement = Measurement(rollouts, counting, spec_of(games[3]), "sparse")
    with pytest.raises(Refusal, match="is answered otherwise .* must replay exactly"):
        asyncio.run(measurement.measure(MeasuredGame(games[3].key), samples=2, k=2))


@pytest.fixture(scope="module")
def played(rollouts: ModelRollouts, games: list[TaskRef]) -> list[MeasuredGame]:
    found = [MeasuredGame(task.key) for task in games[:3]]
    for game, task in zip(found, games, strict=False):
        measurement = Measurement(rollouts, TEXTWORLD.env, spec_of(task), "sparse")
        asyncio.run(measurement.screen(game, 2))
        asyncio.run(measurement.measure(game, samples=2, k=2))
    return found


def test_gradients_are_those_of_what_was_sampled(played: list[MeasuredGame]) -> None:
    """A small step along it changes the sum by the step times its squared length."""
    model, episodes = PolicyModel(str(ROOT / "assets" / "tiny"), temperature=0.7), played[0].episodes
    sampled = np.concatenate([turn.logprobs for episode in episodes for turn in episode.turns])
    credit = np.random.default_rng(0).standard_normal((2, len(sampled)))
    logprobs = lambda: np.concatenate([model.logprobs(row).detach().numpy() for row in rows(episodes)])
    assert logprobs() == pytest.approx(sampled, abs=1e-4)
    found, before = model.gradients(episodes, credit), logprobs()
    step = torch.as_tensor(found[1] * 1e-3 / np.linalg.norm(found[1]))
    whole = torch.nn.utils.parameters_to_vector(model.model.parameters()).detach().clone()
    torch.nn.utils.vector_to_parameters(whole + step, model.model.parameters())
    changed = credit @ (logprobs() - before) / 1e-3
    length = np.linalg.norm(found[1])
    assert changed == pytest.approx([found[0] @ found[1] / length, length], rel=0.02)


def test_the_critic_of_a_checkpoint_is_read(tmp_path: Path, played: list[MeasuredGame]) -> None:
    """verl's files: weights by their names, beside the config of the policy."""
    folder = tmp_path / "global_step_5" / "critic"
    config = AutoConfig.from_pretrained(ROOT / "assets" / "tiny", num_labels=1)
    critic = AutoModelForTokenClassification.from_config(config).eval()
    config.save_pretrained(folder / "huggingface")
    policy = tmp_path / "global_step_5" / "actor" / "huggingface"
    assert critic_file(str(policy)) is None
    torch.save(critic.state_dict(), folder / WEIGHTS)
    file, episode = critic_file(str(policy)), played[0].episodes[0]
    ids = torch.tensor([episode.prompt_ids + [i for t in episode.turns for i in t.action_ids + t.context_ids]])
    with torch.no_grad():
        wanted = critic(input_ids=ids).logits[0, len(episode.prompt_ids) - 1, 0].item()
    assert run_critic(file)(episode)[0] == pytest.approx(wanted, abs=1e-6)
