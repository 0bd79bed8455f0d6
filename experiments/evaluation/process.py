"""The evaluation's process: checkpoints play evaluation sets of games.

    python -P -m experiments.evaluation.process CONFIG.yaml

``CONFIG.yaml`` holds the run's config, ``run.policies``: a list of {name, path, chat}, and ``run.settings``: what each
of them plays (``tasks.evaluation_sets.EvaluationSetting``, and the ``env`` node of its environment). What is on disk
is not played again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from experiments.evaluation.stage import episodes_file, progress_file
from experiments.evaluation.text_rollouts import Pools, common_failure, episode_specs
from records.process.child import stage_exit_code
from records.process.exit_codes import Failure
from records.tracking.stage_run import StageRun
from rollouts.chat_settings import ChatSettings
from rollouts.policy import ContextLimit
from rollouts.prompt_forms.registry import prompt_form
from rollouts.sampling import SamplingParams
from rollouts.store import write_episodes
from tasks.evaluation_sets import EvaluationSetting, from_dict
from verl_plugin.rollout.local_rollouts import LoadedModel, Rules

if TYPE_CHECKING:
    from verl_plugin.rollout.served_rollouts import ServedModel


def _rules(config: DictConfig, item: EvaluationSetting, env: Mapping[str, Any], context: int) -> Rules:
    """``context``: what the model itself can attend to, which may be less than the config's model can."""
    prompt = int(config.data.max_prompt_length)
    response = min(item.evaluation_set.max_response_length, context - prompt)
    params = SamplingParams(item.temperature, max_action_tokens=int(env["max_action_tokens"]))
    return Rules(params, ContextLimit(prompt, response), config.eval.seed)


@asynccontextmanager
async def _model(
    config: DictConfig, path: str, chat: ChatSettings, marks: Sequence[str]
) -> AsyncIterator[LoadedModel | ServedModel]:
    """A checkpoint that is ready to play, in this process or behind rollout servers on all GPUs of the run."""
    if not config.run.servers:
        yield LoadedModel(path, config.run.device, chat, marks)
        return
    from verl_plugin.rollout.served_rollouts import served  # verl's imports: not for those who play here

    async with served(config, path, chat, marks) as model:
        yield model


class Evaluation:
    """All policies, one after the other; the environments' pools are shared between them."""

    def __init__(self, config: DictConfig, pools: Pools) -> None:
        self.config, self.folder = config, Path(config.run.folder)
        self._pools, self._form = pools, prompt_form(config.get("prompt"))
        self._done = 0

    async def roll_out(self, entry: DictConfig) -> None:
        """Load a policy and let it play the settings that it has not played yet."""
        todo = [item for item in self.config.run.settings if not self._file(entry, item).exists()]
        chat: Any = OmegaConf.to_container(entry.chat)
        if not todo:
            return
        async with _model(self.config, entry.path, ChatSettings(**chat), self._form.marks) as model:
            for node in todo:
                fields: Any = OmegaConf.to_container(node, resolve=True)
                env = fields.pop("env")
                item = from_dict(fields)
                specs, rules = episode_specs(item, self.config, env), _rules(self.config, item, env, model.context)
                episodes = await model.roll_out(specs, rules, await self._pools.of(env), self._count)
                if cause := common_failure(episodes):
                    raise Failure(f"{entry.name} could not play any game of {item.evaluation_set.task}: {cause}")
                write_episodes(self._file(entry, node), episodes)

    def _file(self, entry: DictConfig, item: DictConfig) -> Path:
        return episodes_file(self.folder, entry.name, item.label)

    def _count(self) -> None:
        """For the progress bar of the process that started this one."""
        self._done += 1
        progress_file(self.folder).write_text(str(self._done))


async def evaluate(config: DictConfig) -> None:
    from transformers.utils.logging import disable_progress_bar  # after verl_plugin, which makes its import quicker

    disable_progress_bar()  # "Loading weights": ours says more
    async with Pools(legal=prompt_form(config.get("prompt")).admissible) as pools:
        evaluation = Evaluation(config, pools)
        for entry in config.run.policies:
            await evaluation.roll_out(entry)
    if config.run.get("tracking"):
        _tell_trackers(config)


def _tell_trackers(config: DictConfig) -> None:
    from experiments.evaluation.tracked import log_evaluation  # scipy: not before it is needed

    run = StageRun.from_node(config.run.tracking)
    nodes: Any = OmegaConf.to_container(config.run.settings, resolve=True)
    settings = [from_dict({name: value for name, value in node.items() if name != "env"}) for node in nodes]
    log_evaluation(run, [entry.name for entry in config.run.policies], settings)
    run.mark_logged()


if __name__ == "__main__":
    loaded = OmegaConf.load(sys.argv[1])
    assert isinstance(loaded, DictConfig)
    sys.exit(stage_exit_code(lambda: asyncio.run(evaluate(loaded))))
