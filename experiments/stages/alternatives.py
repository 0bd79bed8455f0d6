"""The process in which a model draws actions at the demonstrations' states.

    python -P -m experiments.stages.alternatives CONFIG.yaml

``CONFIG.yaml``: the run's config, ``run.folder`` and ``run.model``. Writes ``episodes/alternatives.jsonl``.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from transformers.utils.logging import disable_progress_bar

from envs.hosting.pool import pool_of
from envs.registry import make_environment
from records.process.child import stage_exit_code
from rewards.registry import reward
from rollouts.chat_settings import chat_settings
from rollouts.episode import Episode
from rollouts.loop import EpisodeSpec
from rollouts.policy import ContextLimit
from rollouts.prompt_forms.registry import prompt_form
from rollouts.sampling import SamplingParams
from rollouts.store import read_episodes, write_episodes
from tasks.demonstrations import episodes_file
from tasks.early_experience import TEMPERATURE, alternatives_file, distinct, specs
from tasks.splits import read_tasks, task_file
from verl_plugin.rollout.local_rollouts import LoadedModel, Rules


async def draw(config: DictConfig) -> list[Episode]:
    """The alternatives to each demonstration's actions, in the demonstrations' order.

    Raises:
        NotAgain: a game does not answer as it did.
    """
    disable_progress_bar()  # "Loading weights": ours says more
    folder, form = Path(config.run.folder), prompt_form(config.prompt)
    demonstrations = list(read_episodes(episodes_file(folder)))
    model = LoadedModel(config.run.model, config.trainer.device, chat_settings(config), form.marks)
    bases = _bases(config, folder)
    wanted = [specs(shown, base, config.demos.alternatives) for shown, base in zip(demonstrations, bases, strict=True)]
    async with pool_of(config.env, legal=form.admissible) as pool:
        every = [spec for of_one in wanted for spec in of_one]
        drawn = iter(await model.roll_out(every, _rules(config, model.context), pool, lambda: None))
    name = f"model {_weights(config.run.model)}"
    return [
        replace(alternative, policy=name)
        for shown, of_one in zip(demonstrations, wanted, strict=True)
        for alternative in distinct(shown, [next(drawn) for _ in of_one])
    ]


def _bases(config: DictConfig, folder: Path) -> Iterator[EpisodeSpec]:
    """What the episodes at a demonstration's states have in common."""
    style, form = make_environment(config.env.name, config.env).prompt, prompt_form(config.prompt)
    earned = reward(config.turn_reward.name, config.turn_reward)
    for task in read_tasks(task_file(folder, "demonstrations")):
        yield EpisodeSpec(task, style, 1, earned, form=form)


def _weights(model: str) -> str:
    """What tells whose actions they are: 8 hex digits of the weights' files, or the name on the hub."""
    files = sorted(Path(model).glob("*.safetensors"))
    found = hashlib.sha256()
    for file in files:
        with file.open("rb") as opened:
            found.update(hashlib.file_digest(opened, "sha256").digest())
    return found.hexdigest()[:8] if files else model


def _rules(config: DictConfig, context: int) -> Rules:
    prompt = int(config.data.max_prompt_length)
    params = SamplingParams(TEMPERATURE, max_action_tokens=int(config.env.max_action_tokens))
    limit = ContextLimit(prompt, min(int(config.data.max_response_length), context - prompt))
    return Rules(params, limit, int(config.seed))


def main() -> None:
    loaded: Any = OmegaConf.load(sys.argv[1])
    write_episodes(alternatives_file(Path(loaded.run.folder)), asyncio.run(draw(loaded)))


if __name__ == "__main__":
    sys.exit(stage_exit_code(main))
