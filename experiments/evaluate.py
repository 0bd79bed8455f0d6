"""Evaluate policies on held-out games without training.

    python -m experiments.evaluate POLICY... [KEY=VALUE ...]
    python -m experiments.evaluate runs/NAME base expert random eval.tasks=[w2-o3-q4,w4-o6-q8]
    python -m experiments.evaluate endpoint=http://localhost:8000/v1 endpoint_model=NAME

POLICY      a run folder (its last checkpoint), a model folder, base (of model=), expert, random
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

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from omegaconf import DictConfig

from turngrid.experiments.evaluation.policies import PolicyError, policies, trained_on
from turngrid.records.process.exit_codes import command, own_words, say
from turngrid.rollouts.chat_policy import Endpoint, EndpointError


@dataclass
class Options:
    """The options of this command."""

    endpoint: str = ""
    endpoint_model: str = ""
    key_env: str = ""
    endpoint_tools: bool = False
    at_once: int = 16


@command(__doc__, refused=(EndpointError,))
def main(arguments: list[str]) -> int:
    options = Options()
    words, overrides = own_words(arguments, options, PolicyError)
    from turngrid.config import machine

    config = composed(words, overrides)
    asked = policies(words, _endpoint(options), config)
    if any(policy.kind == "checkpoint" for policy in asked):
        machine.check_gpus(config)
    from turngrid.experiments.evaluation.standalone import evaluation_folder, hold  # imports scipy, so only when needed
    from turngrid.tasks.run import Run

    print(hold(Run(config, evaluation_folder(config)), asked, options.at_once), flush=True)
    return 0


def _endpoint(options: Options) -> Endpoint | None:
    if options.endpoint:
        return Endpoint(options.endpoint, options.endpoint_model, options.key_env, tools=options.endpoint_tools)
    if options.endpoint_model or options.key_env or options.endpoint_tools:
        raise PolicyError("endpoint_model=, key_env= and endpoint_tools= belong to endpoint=URL")
    return None


def composed(words: Sequence[str], overrides: list[str]) -> DictConfig:
    """Compose the config, and run the checks that an evaluation needs.

    Raises:
        ConfigError: a check refuses the config.
        PolicyError: a policy cannot be evaluated with it.
    """
    from turngrid.config.checks import environment
    from turngrid.config.compose import compose
    from turngrid.config.errors import ConfigError

    config = compose(overrides)
    if config.env.get("tasks") and not config.eval.tasks:
        config.eval.tasks = list(config.env.tasks)  # each task of a mixture is an evaluation set
    names = ("unknown_task", "reward_not_offered", "bad_evaluation", "not_where_evaluated")
    rules = [getattr(environment, name) for name in names]
    for problem in (problem for rule in rules for problem in rule(config)):
        raise ConfigError(problem)
    for message in environment.too_few_turns(config):
        say(f"note: {message}")
    _refuse_another_environment(words, overrides, config)
    return config


def _refuse_another_environment(words: Sequence[str], overrides: Sequence[str], config: DictConfig) -> None:
    """Refuse a run that was trained on another environment, unless the environment was typed."""
    chosen = any(item.split("=")[0] in ("env", "env.name", "eval.tasks") for item in overrides)
    other = next((word for word in words if (trained_on(word) or config.env.name) != config.env.name), None)
    if other and not chosen:
        raise PolicyError(f"{other} was trained on env={trained_on(other)}; type that, or env={config.env.name}")


if __name__ == "__main__":
    sys.exit(main())
