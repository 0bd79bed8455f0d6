"""Evaluate policies on held-out games without training.

    python -m experiments.evaluate POLICY... [KEY=VALUE ...]
    python -m experiments.evaluate runs/NAME base expert random eval.tasks=[w2-o3-q4,w4-o6-q8]
    python -m experiments.evaluate endpoint=http://localhost:8000/v1 endpoint_model=NAME

POLICY      a run folder (its last checkpoint, and its settings of the games), a model folder,
            base (of model=), expert, random
KEY=VALUE   as for `python -m train`: env=, env.task=, eval.tasks=[...], eval.games=,
            eval.temperatures=[...], eval.samples_per_game=, eval.max_turns=, model=, cluster=,
            output_dir=, fresh=true
endpoint=   address of an OpenAI-compatible server, up to and with /v1
            endpoint_model= names its model
            key_env= names the environment variable with the key; without it no key is sent
            at_once=16 is the number of games at a time
            endpoint_tools=true, with prompt=tool_call, offers functions by the API's own field

Prints success with 95 % intervals, and writes episodes and result.json to output_dir/evaluations/.
Episodes that exist are kept. docs/evaluation.md explains the tables."""

import asyncio
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.registry import FORM, ROLES
from turngrid.config import machine, precision
from turngrid.config.checks import environment
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs.utils.bar import ticking_bar
from turngrid.envs.utils.files import write_whole
from turngrid.envs.utils.names import file_name
from turngrid.experiments.evaluation import stage, tables
from turngrid.experiments.evaluation.policies import PolicyRef, as_trained, policies, trained_on
from turngrid.experiments.evaluation.result import results_of
from turngrid.records.damage import discard_files
from turngrid.records.process.exit_codes import Refusal, command, own_words, say
from turngrid.records.run_folder import OUTPUT_KEYS, held
from turngrid.rollouts.chat_policy import ChatPolicy, Endpoint, EndpointError
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.policy import RANDOM, START, ExpertPolicy, Policy, RandomPolicy
from turngrid.rollouts.prompt_forms.registry import non_default
from turngrid.rollouts.window import summed_up
from turngrid.tasks.evaluation_sets import (
    EvaluationSetting,
    evaluation_settings,
    note_trained,
    prepare_evaluation_sets,
    tested,
    turns_of,
)
from turngrid.tasks.run import Run

EVALUATIONS = "evaluations"
SCRIPTED_AT_ONCE = 32


@dataclass
class Options:
    endpoint: str = ""
    endpoint_model: str = ""
    key_env: str = ""
    endpoint_tools: bool = False
    at_once: int = 16


@command(__doc__, refused=(EndpointError,))
def main(arguments: list[str]) -> int:
    options = Options()
    words, overrides = own_words(arguments, options)
    run = Run(composed(words, overrides))
    asked = policies(words, _endpoint(options), run)
    for slot in [slot for slot in ("roles", "library") if options.endpoint and run.config.get(slot)]:
        say(f"note: {slot}={','.join(run.config[slot])}: it changes nothing at an endpoint")
    for one in (policy for policy in asked if policy.kind == "checkpoint"):
        machine.check_gpus(run.config)
        say(f"{one.label} computes in {precision.dtype(run.config, one.path)}")
    print(hold(replace(run, folder=evaluation_folder(run)), asked, options.at_once), flush=True)
    return 0


def _endpoint(options: Options) -> Endpoint | None:
    if options.endpoint:
        return Endpoint(options.endpoint, options.endpoint_model, options.key_env, tools=options.endpoint_tools)
    if options.endpoint_model or options.key_env or options.endpoint_tools:
        raise Refusal("endpoint_model=, key_env= and endpoint_tools= belong to endpoint=URL")
    return None


def composed(words: Sequence[str], overrides: list[str]) -> DictConfig:
    """Compose the config, and run the checks that an evaluation needs.

    Raises:
        ConfigError: a check refuses the config.
        Refusal: a policy was trained on another environment, and no environment is typed.
    """
    config = compose(as_trained(words, overrides))
    if config.env.get("tasks") and not config.eval.tasks:
        config.eval.tasks = list(config.env.tasks)  # each task of a mixture is an evaluation set
    run = Run(config)
    checks = [environment.unknown_task, environment.reward_not_offered, environment.bad_evaluation]
    checks += [environment.step_deadline, environment.bad_opponents, environment.not_where_evaluated, precision.of_gpus]
    for problem in (problem for check in checks for problem in check(run)):
        raise ConfigError(problem)
    if START in run.opponents:
        raise ConfigError(f"eval.opponents: a run knows with which model RL began; use eval.opponents=[{RANDOM}]")
    for message in [*environment.too_few_turns(run), *precision.without_instructions(run)]:
        say(f"note: {message}")
    chosen = any(item.split("=")[0] in ("env", "env.name", "eval.tasks") for item in overrides)
    other = next((word for word in words if (trained_on(word) or config.env.name) != config.env.name), None)
    if other and not chosen:
        raise Refusal(f"{other} was trained on env={trained_on(other)}; type that, or env={config.env.name}")
    return config


# ---- the evaluation, in a folder that is named by its games and settings


def hold(run: Run, asked: Sequence[PolicyRef], at_once: int) -> str:
    """Run the missing evaluations, write ``result.json``, and return the tables as text.

    ``at_once``: number of games that an endpoint runs at the same time.

    Raises:
        TaskError: an evaluation set cannot be filled.
        EndpointError: an endpoint does not answer.
        StageFailed: the process of the checkpoints failed.
        Refusal: a policy cannot run these games, or another process is using the folder.
    """
    with held(run.folder):
        if run.config.fresh:
            for name in (one.name for one in asked):
                for file in (run.folder / "evaluation").rglob(f"{name}.jsonl"):
                    file.unlink()
        say(f"evaluation folder {run.folder}")
        for damage in discard_files(run.folder):
            say(f"note: {damage}")
        prepare_evaluation_sets(run, also_own=True)
        settings = evaluation_settings(run)
        for policy in asked:
            note_trained(policy.label, policy.path, settings)
        asyncio.run(_roll_out_in_text(run, asked, settings, at_once))
        models = [candidate for candidate in asked if candidate.kind == "checkpoint"]
        stage.evaluate(run, [stage.Checkpoint(one.name, one.path, one.chat, one.library) for one in models])
        return _report(run.folder, asked, settings)


def evaluation_folder(run: Run) -> Path:
    """Return ``output_dir/evaluations/<env>-<task>-<8 hex>``, the same for equal settings."""
    node = OmegaConf.to_container(run.config, resolve=True)
    assert isinstance(node, dict)
    named = tested(run)
    unnamed = {"servers", "library"} | ({"opponents"} if node["eval"].get("opponents") is None else set())
    identity = {
        "worlds": {env: [run.of_environment(env).environment.version, _settings(run, env)] for env, _ in named},
        "turns": [[env, task, turns_of(run, env, task)] for env, task in named],
        "reward": node["turn_reward"],
        "eval": {key: value for key, value in node["eval"].items() if key not in unnamed},
        "lengths": [node["data"][key] for key in ("max_prompt_length", "max_response_length")],
    }
    identity |= {"precision": node["precision"]} if node["precision"] != precision.AUTO else {}
    identity |= {"prompt": prompt} if (prompt := non_default(node["prompt"])) else {}
    identity |= {FORM: node[FORM]} if summed_up(node.get(FORM)) else {}
    identity |= {ROLES: node[ROLES]} if node.get(ROLES) else {}
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:8]
    task = named[0][1] if len(named) == 1 else f"{len(named)}-tasks"
    name = file_name(f"{named[0][0]}-{task}-{digest}")
    return (Path(run.config.output_dir).expanduser() / EVALUATIONS / name).absolute()


def _settings(run: Run, env: str) -> dict[str, object]:
    """Return the ``env`` settings that change a game, without the task, which ``turns`` has."""
    outside = {key.removeprefix("env.") for key in OUTPUT_KEYS} | {"task", "tasks", "max_turns"}
    return {key: value for key, value in run.env_node(env).items() if key not in outside}


def _report(folder: Path, asked: Sequence[PolicyRef], settings: Sequence[EvaluationSetting]) -> str:
    def by_policy(item: EvaluationSetting) -> dict[str, list[Episode]]:
        return {candidate.label: stage.played(folder, candidate.name, item.label) for candidate in asked}

    evaluations, paired, ratings = results_of(settings, by_policy)
    rows = [{name: getattr(candidate, name) for name in ("label", "kind", "name", "path")} for candidate in asked]
    result = {"folder": str(folder), "policies": rows, "matrix": evaluations, "comparisons": paired, "ratings": ratings}
    write_whole(folder / "result.json", json.dumps(result, indent=2, sort_keys=True, default=asdict) + "\n")
    shown = [tables.success_table(evaluations), *tables.matches_table(evaluations), tables.manner_table(evaluations)]
    shown += [*tables.ratings_table(ratings), *tables.comparisons_table(paired)]
    return f"{tables.plain_text(shown)}result: {folder / 'result.json'}"


async def _roll_out_in_text(
    run: Run, asked: Sequence[PolicyRef], settings: Sequence[EvaluationSetting], at_once: int
) -> None:
    async with stage.open_pools(legal=True) as pool_of:
        for candidate in asked:
            left = {item.label: stage.missing_episodes(run.folder, candidate.name, item) for item in settings}
            if candidate.kind == "checkpoint" or not any(left.values()):
                continue
            with ticking_bar(total=sum(left.values()), desc=candidate.label, unit="game") as bar:
                for item in (item for item in settings if left[item.label]):
                    specs, pool = stage.episode_specs(run, item), await pool_of(run, item.evaluation_set.env)
                    without = [spec.task.key for spec in specs if not spec.task.expert_plan]
                    if candidate.kind == "expert" and without:
                        few = f"{len(without)} of {len(specs)} games have no expert plan, first: {without[0]}"
                        raise Refusal(f"expert: {few}")
                    several, seed = at_once if candidate.endpoint else SCRIPTED_AT_ONCE, run.eval.seed
                    async with acting(run, candidate, item) as policy:
                        episodes = await stage.roll_out_in_text(policy, specs, pool, several, bar.update, seed)
                    stage.write(run.folder, candidate.name, item, episodes)


@asynccontextmanager
async def acting(run: Run, candidate: PolicyRef, item: EvaluationSetting) -> AsyncIterator[Policy]:
    """Prepare a policy that answers in text for a setting."""
    config, endpoint = run.config, candidate.endpoint
    if endpoint is None:
        yield ExpertPolicy() if candidate.kind == "expert" else RandomPolicy(config.eval.seed)
        return
    tokens, marks = int(config.env.max_action_tokens), run.prompt.marks
    functions = run.of_environment(item.evaluation_set.env).environment.prompt.functions if endpoint.tools else ()
    async with endpoint.client() as client:
        settings = (item.temperature, tokens, config.eval.seed, candidate.chat.kwargs)
        yield ChatPolicy(endpoint, client, *settings, marks=marks, functions=functions)


if __name__ == "__main__":
    sys.exit(main())
