"""An evaluation without a run: a folder of its own, named by what is played, to which policies can be added."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from algorithms.registry import FORM
from envs.registry import make_environment
from envs.utils.bar import ticking_bar
from envs.utils.files import write_whole
from envs.utils.names import file_name
from experiments.evaluation.matrix import results_of
from experiments.evaluation.policies import PolicyError, PolicyRef
from experiments.evaluation.stage import Checkpoint, episodes_file, evaluate, missing_episodes, played
from experiments.evaluation.tables import comparisons_table, manner_table, plain_text, success_table
from experiments.evaluation.text_rollouts import Pools, common_failure, episode_specs, roll_out_in_text
from records.damage import discard_files
from records.process.exit_codes import say
from records.run_folder import OUTPUT_KEYS, held
from rollouts.chat_policy import ChatPolicy
from rollouts.episode import Episode
from rollouts.policy import ExpertPolicy, Policy, RandomPolicy
from rollouts.prompt_forms.registry import non_default, prompt_form
from rollouts.store import write_episodes
from rollouts.window import summed_up
from tasks.evaluation_sets import (
    EvaluationSetting,
    env_node,
    evaluation_settings,
    prepare_evaluation_sets,
    tested,
    turns_of,
)

PLACE = "evaluations"
SCRIPTED_AT_ONCE = 32


def hold(config: DictConfig, asked: Sequence[PolicyRef], at_once: int) -> str:
    """Play what was not played yet, write ``result.json``, and return the tables as text.

    Raises:
        TaskError: an evaluation set cannot be filled.
        PolicyError: a policy that cannot play these games.
        EndpointError: an endpoint that does not answer.
        StageFailed: the process of the checkpoints ended badly.
        RunFolderBusy: another process is at work in the folder.
    """
    folder = evaluation_folder(config)
    with held(folder):
        return _hold(config, folder, asked, at_once)


def evaluation_folder(config: DictConfig) -> Path:
    """``output_dir/evaluations/<env>-<task>-<8 hex>``: the same games, played in the same way, have the same folder."""
    node = OmegaConf.to_container(config, resolve=True)
    assert isinstance(node, dict)
    named = tested(config)
    what = {  # the names of the first version, so that its folders are found
        "worlds": {
            env: [make_environment(env, env_node(config, env)).version, _settings(config, env)] for env, _ in named
        },
        "turns": [[env, task, turns_of(config, env, task)] for env, task in named],
        "reward": node["turn_reward"],
        "eval": {key: value for key, value in node["eval"].items() if key != "servers"},
        "lengths": [node["data"][key] for key in ("max_prompt_length", "max_response_length")],
    }
    what |= {"prompt": told} if (told := non_default(node["prompt"])) else {}
    what |= {FORM: node[FORM]} if summed_up(node.get(FORM)) else {}
    digest = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:8]
    task = named[0][1] if len(named) == 1 else f"{len(named)}-tasks"
    name = file_name(f"{named[0][0]}-{task}-{digest}")
    return (Path(config.output_dir).expanduser() / PLACE / name).absolute()


def _settings(config: DictConfig, env: str) -> dict[str, object]:
    """Of the ``env`` node, what changes a game: not where it is played, nor which task (that is in ``turns``)."""
    outside = {key.removeprefix("env.") for key in OUTPUT_KEYS} | {"task", "tasks", "max_turns"}
    return {key: value for key, value in env_node(config, env).items() if key not in outside}


def _hold(config: DictConfig, folder: Path, asked: Sequence[PolicyRef], at_once: int) -> str:
    if config.fresh:
        for file in (folder / "evaluation").rglob("*.jsonl"):
            file.unlink()
    print(f"turngrid: evaluation folder {folder}", file=sys.stderr, flush=True)
    for damage in discard_files(folder):
        say(f"note: {damage}")
    prepare_evaluation_sets(config, folder, also_own=True)
    todo = evaluation_settings(config, folder)
    asyncio.run(_roll_out_in_text(config, folder, asked, todo, at_once))
    models = [candidate for candidate in asked if candidate.kind == "checkpoint"]
    evaluate(config, folder, [Checkpoint(candidate.name, candidate.path, candidate.chat) for candidate in models])
    return _report(folder, asked, todo)


def _report(folder: Path, asked: Sequence[PolicyRef], todo: Sequence[EvaluationSetting]) -> str:
    evaluations, paired = results_of(
        todo, lambda item: {candidate.label: played(folder, candidate.name, item.label) for candidate in asked}
    )
    rows = [{name: getattr(candidate, name) for name in ("label", "kind", "name", "path")} for candidate in asked]
    found = {"folder": str(folder), "policies": rows, "matrix": [asdict(item) for item in evaluations]}
    found["comparisons"] = [asdict(item) for item in paired]
    write_whole(folder / "result.json", json.dumps(found, indent=2, sort_keys=True) + "\n")
    tables = [success_table(evaluations), manner_table(evaluations), *comparisons_table(paired)]
    return f"{plain_text(tables)}result: {folder / 'result.json'}"


async def _roll_out_in_text(
    config: DictConfig, folder: Path, asked: Sequence[PolicyRef], todo: Sequence[EvaluationSetting], at_once: int
) -> None:
    async with Pools(legal=True) as pools:
        for candidate in asked:
            left = [item for item in todo if missing_episodes(folder, candidate.name, item)]
            if candidate.kind == "checkpoint" or not left:
                continue
            games = sum(missing_episodes(folder, candidate.name, item) for item in left)
            with ticking_bar(total=games, desc=candidate.label, unit="game") as bar:
                for item in left:
                    episodes = await _roll_out(config, candidate, item, pools, at_once, bar)
                    write_episodes(episodes_file(folder, candidate.name, item.label), episodes)


async def _roll_out(
    config: DictConfig, candidate: PolicyRef, item: EvaluationSetting, pools: Pools, at_once: int, bar: tqdm
) -> list[Episode]:
    env = env_node(config, item.evaluation_set.env)
    specs = episode_specs(item, config, env)
    without = [spec.task.key for spec in specs if not spec.task.expert_plan]
    if candidate.kind == "expert" and without:
        raise PolicyError(f"expert: {len(without)} of {len(specs)} games have no expert plan, first: {without[0]}")
    async with _policy(config, candidate, item, int(env["max_action_tokens"])) as policy:
        several = at_once if candidate.endpoint else SCRIPTED_AT_ONCE
        episodes = await roll_out_in_text(policy, specs, await pools.of(env), several, bar.update)
    if cause := common_failure(episodes):
        raise PolicyError(f"{candidate.label} could not play any game: {cause}")
    return episodes


@asynccontextmanager
async def _policy(
    config: DictConfig, candidate: PolicyRef, item: EvaluationSetting, tokens: int
) -> AsyncIterator[Policy]:
    if candidate.endpoint is None:
        yield ExpertPolicy() if candidate.kind == "expert" else RandomPolicy(config.eval.seed)
        return
    async with candidate.endpoint.client() as client:
        marks, settings = prompt_form(config.prompt).marks, candidate.chat.kwargs
        name = item.evaluation_set.env
        offered = make_environment(name, env_node(config, name)).prompt.functions if candidate.endpoint.tools else ()
        yield ChatPolicy(
            candidate.endpoint,
            client,
            item.temperature,
            tokens,
            config.eval.seed,
            settings,
            marks=marks,
            functions=offered,
        )
