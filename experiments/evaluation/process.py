"""The evaluation's process: checkpoints run the test games, and trackers get the results.

``stage.process_config`` makes its config. Episodes that are on disk are kept.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf

from turngrid.config import precision
from turngrid.experiments.evaluation import stage
from turngrid.experiments.evaluation.result import EvaluationResult, evaluations_of
from turngrid.records.process.child import stage_exit_code
from turngrid.records.step_metrics import success_by_type
from turngrid.records.tracking import Trackers
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.sampling import SamplingParams
from turngrid.tasks.evaluation_sets import EvaluationSetting, evaluation_settings, through_servers
from turngrid.tasks.run import Run
from turngrid.tasks.stage_process import tracked
from turngrid.verl_plugin.rollout.local_rollouts import LoadedModel, Rules
from turngrid.verl_plugin.shared_state import frozen_library
from turngrid.verl_plugin.training import watchdog

if TYPE_CHECKING:
    from turngrid.verl_plugin.rollout.served_rollouts import ServedModel


async def evaluate(run: Run, policies: Sequence[Mapping[str, Any]], models: Mapping[str, str] | None = None) -> None:
    """Evaluate the policies in turn, each in the settings whose episodes are missing.

    ``models``: folders of opponents that are models, by name.
    """
    numbers, settings = itertools.count(1), evaluation_settings(run)

    def count() -> None:
        """Update the progress bar of the process that started this one."""
        watchdog.current.enter("game")
        stage.progress_file(run.folder).write_text(str(next(numbers)))

    async with stage.open_pools(legal=run.prompt.admissible) as pool_of:
        for policy in policies:
            missing = [item for item in settings if stage.missing_episodes(run.folder, policy["name"], item)]
            if not missing:
                continue
            library = frozen_library(policy["path"]) if policy["library"] else None
            async with _model(run, policy["path"], ChatSettings(**policy["chat"])) as model:
                for item in missing:
                    specs = [replace(spec, library=library) for spec in stage.episode_specs(run, item)]
                    pool = await pool_of(run, item.evaluation_set.env)
                    episodes = await model.roll_out(specs, _rules(run, item, model.context, models or {}), pool, count)
                    stage.write(run.folder, policy["name"], item, episodes)
                    watchdog.current.enter("first game")  # slots end at about once: its time is not that between games


def _rules(run: Run, item: EvaluationSetting, context: int, models: Mapping[str, str]) -> Rules:
    params = SamplingParams(item.temperature, max_action_tokens=run.env.max_action_tokens)
    return Rules(params, run.limit(context, item.evaluation_set.max_response_length), run.eval.seed, models)


@asynccontextmanager
async def _model(run: Run, path: str, chat: ChatSettings) -> AsyncIterator[LoadedModel | ServedModel]:
    """Load a checkpoint in this process, or behind rollout servers on all GPUs of the run."""
    if not through_servers(run):
        yield LoadedModel(path, run.config.trainer.device, chat, run.prompt.marks, precision.dtype(run.config, path))
        return
    from turngrid.verl_plugin.rollout.served_rollouts import served  # imports verl, which takes seconds

    async with served(run.config, path, chat, run.prompt.marks) as model:
        yield model


def log_evaluation(run: Run, policies: Sequence[str]) -> None:
    """Log all episodes to the run's trackers, a step for each checkpoint in order."""
    stage_run, settings = tracked(run, "evaluation"), evaluation_settings(run)
    if not stage_run.trackers:
        return
    by_setting = [
        (item, {policy: stage.played(run.folder, policy, item.label) for policy in policies}) for item in settings
    ]
    names = set_names(settings)
    evaluations = {item.label: evaluations_of(item, episodes) for item, episodes in by_setting}
    trackers = Trackers(stage_run)
    for step, policy in enumerate(policies):
        # the results of a mixture's tasks follow those of the whole
        whole = {names[label]: of_set[step] for label, of_set in evaluations.items()}
        metrics: dict[str, Any] = {"policy": policy, **policy_metrics(whole)}
        for item, episodes in by_setting:
            metrics |= success_by_type(episodes[policy], f"success/test/{names[item.label]}/by_type/")
        trackers.log(step, metrics)
    trackers.finish()
    stage_run.mark.touch()


def set_names(settings: Sequence[EvaluationSetting]) -> dict[str, str]:
    """Return label -> name in metrics: the task, and whatever else differs between settings."""
    environments = {item.evaluation_set.env for item in settings}
    temperatures = {item.temperature for item in settings}
    return {
        item.label: (f"{item.evaluation_set.env}:" if len(environments) > 1 else "")
        + item.task.replace(" ", "_")
        + (f"@{item.temperature:g}" if len(temperatures) > 1 else "")
        for item in settings
    }


def policy_metrics(evaluations: Mapping[str, EvaluationResult]) -> dict[str, float | None]:
    """Return success with its 95 % bounds, mean score and more, by evaluation set."""
    metrics: dict[str, float | None] = {}
    for name, one in evaluations.items():
        success, rollout = f"success/test/{name}", f"rollout/test/{name}"
        metrics |= {success: one.interval.mean, f"{success}/low": one.low, f"{success}/high": one.high}
        metrics |= {
            f"{rollout}/score": one.mean_score,
            f"{rollout}/turns_to_success": one.mean_turns_to_success,
            f"{rollout}/invalid_actions": one.invalid_share,
            f"{rollout}/unparsed_actions": one.unparsed_share,
            f"{rollout}/tokens_per_turn": one.tokens_per_turn,
        }
    return metrics


def main() -> None:
    config: Any = OmegaConf.load(sys.argv[1])
    policies: Any = OmegaConf.to_container(config.run.policies)
    run = Run(config, Path(config.run.folder))
    watchdog.begin(run.cluster.hung_factor, run.cluster.hung_after_s)
    asyncio.run(evaluate(run, policies, config.run.models))
    watchdog.current.end()
    if config.run.tracked:
        log_evaluation(run, [policy["name"] for policy in policies])


if __name__ == "__main__":
    sys.exit(stage_exit_code(main))
