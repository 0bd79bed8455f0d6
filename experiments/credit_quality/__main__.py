"""Rate how well each method's credit agrees with the true advantages of turns.

    python -m experiments.credit_quality RUN_OR_MODEL [KEY=VALUE ...]
    python -m experiments.credit_quality tiny env.task=w2-o3-q4
    python -m experiments.credit_quality runs/NAME methods=[grpo,gigpo:weight=0.5,graft] k=32
    python -m experiments.credit_quality expert noise=0.3 env=alfworld tasks=10

RUN_OR_MODEL  a run folder (its last checkpoint), a model folder, a name of model=, expert, random
methods=      what is rated: an algo=, a credit method on algo=grpo, or ALGO+CREDIT
              settings follow as :KEY=VALUE; state= is algo.state, a key with a dot is the config's
              all others are compared with the first
tasks=20      games: the first of which a tenth to nine tenths of screen=8 other episodes were won
              screen=0: the first games
samples=8     episodes of a game, as in a group of a training step
k=16          continuations of every prefix
noise=0.0     share of random actions of expert
gradients=true  false: no cosines of policy gradients, which take half of the time if all games are
              measured
KEY=VALUE     as for `python -m train`: env=, env.task=, reward=, model=, eval.games= (games to
              choose from), seed=, output_dir=

Results and episodes go to output_dir/credit_quality/. Measured games are kept, so more methods,
samples or continuations cost only what is new. docs/credit_quality.md explains the measures."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turngrid.config.base import CONF
from turngrid.envs.utils.files import write_whole
from turngrid.envs.utils.names import meant
from turngrid.experiments.credit_quality.methods import STANDARD, Method, critic_file, methods
from turngrid.experiments.credit_quality.results import episodes_page, markdown, results, summary
from turngrid.experiments.credit_quality.study import Size, study_of
from turngrid.experiments.evaluate import composed
from turngrid.experiments.evaluation.policies import PolicyRef, policies
from turngrid.experiments.tables import listed
from turngrid.records.process.exit_codes import Refusal, command, own_words, say
from turngrid.records.run_folder import held
from turngrid.tasks.run import Run

if TYPE_CHECKING:
    from turngrid.experiments.credit_quality.policy_model import PolicyModel

EPISODES, TABLE = "episodes.html", "table.md"


@dataclass
class Options:
    methods: str = ""
    tasks: int = 20
    samples: int = 8
    k: int = 16
    screen: str = "8"  # 0 is possible
    noise: str = "0"
    gradients: bool = True


@command(__doc__)
def main(arguments: list[str]) -> int:
    options = Options()
    words, overrides = own_words(arguments, options)
    policy, overrides, run = asked(words, overrides)
    _refuse(options, run, policy)
    print(_measured(options, run, policy, _chosen(options, overrides, policy)), flush=True)
    return 0


def asked(words: Sequence[str], overrides: list[str]) -> tuple[PolicyRef, list[str], Run]:
    """Return the policy, the overrides and the run. A name of ``model=`` selects that model."""
    if len(words) != 1:
        choices = "a run folder, a model folder, a name of model=, expert or random"
        raise Refusal(f"one policy, not {len(words)}: name {choices}")
    models = sorted(file.stem for file in (CONF / "model").glob("*.yaml"))
    if words[0] in models:
        words, overrides = ["base"], [*overrides, f"model={words[0]}"]
    run = Run(composed(words, overrides))
    try:
        return policies(words, None, run)[0], overrides, run
    except Refusal as error:
        raise Refusal(f"{error}{meant(words[0], models)}") from error


def _refuse(options: Options, run: Run, policy: PolicyRef) -> None:
    share = re.fullmatch(r"0|1|[01]\.0*|0?\.\d+", options.noise)
    reasons = {
        "samples=1: methods compare the episodes of a group; use samples=2 or more": options.samples < 2,
        "k=1: the noise of the truth is known from 2 continuations on; use k=2 or more": options.k < 2,
        f"screen={options.screen}: it is a number of episodes; use screen=0 or more": not options.screen.isdigit(),
        f"noise={options.noise}: it is a share; use noise=0.0 to noise=1.0": not share,
        f"noise={options.noise}: it is the expert's, and this is {policy.label}; use noise=0": options.noise != "0"
        and policy.kind != "expert",
        "eval.tasks: one task is measured; use env.task=": run.eval.tasks,
    }
    if reason := next((text for text, holds in reasons.items() if holds), None):
        raise Refusal(reason)


def _chosen(options: Options, overrides: list[str], policy: PolicyRef) -> list[Method]:
    """Return the methods to rate."""
    named, missing = listed(options.methods), _missing(policy)
    chosen = methods(named or STANDARD, overrides)
    for method in chosen if named else []:
        if lacking := sorted(method.needs & missing.keys()):
            raise Refusal(f"methods: {method.label} needs {' and '.join(lacking)}, {missing[lacking[0]]}")
    return [method for method in chosen if not method.needs & missing.keys()]


def _missing(policy: PolicyRef) -> dict[str, str]:
    """Return the inputs of methods that this policy cannot provide, each with the reason."""
    if policy.kind != "checkpoint":
        return dict.fromkeys(("values", "entropy"), f"and {policy.label} is no model that has any")
    if critic_file(policy.path):
        return {}
    return {"values": f"and {policy.label} has no critic: name a run of a method with one, such as algo=ppo"}


def _measured(options: Options, run: Run, policy: PolicyRef, chosen: Sequence[Method]) -> str:
    size = Size(options.tasks, options.samples, options.k, int(options.screen))
    study, reward = study_of(run, policy, float(options.noise)), run.turn_reward.name
    about = {"env": str(run.env.name), "task": str(run.env.task), "policy": policy.label, "reward": reward}
    folder = study.run.folder
    with held(folder):
        say(f"credit quality folder {folder}")
        taken = study.measured(size)
        rated = results(taken, chosen, size, about, _model(run, policy), options.gradients)
        rounded = rated.results.write(folder)
        write_whole(folder / TABLE, markdown(rounded))
        write_whole(folder / EPISODES, episodes_page(rated, policy.path))
    return f"{summary(rounded)}\n\n{markdown(rounded)}\nepisodes: {folder / EPISODES}"


def _model(run: Run, policy: PolicyRef) -> PolicyModel | None:
    if policy.kind != "checkpoint":
        say(f"no gradients: {policy.label} is no model")
        return None
    import torch

    from turngrid.experiments.credit_quality.policy_model import PolicyModel

    torch.set_num_threads(1)  # more threads do not speed up small models and slow a busy machine down
    temperature = float(run.config.actor_rollout_ref.rollout.temperature)
    return PolicyModel(policy.path, temperature, str(run.config.trainer.device))


if __name__ == "__main__":
    sys.exit(main())
