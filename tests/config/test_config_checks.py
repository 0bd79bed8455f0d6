"""The table of config checks: each entry meets a config that it refuses, and every combination runs
or is in the table."""

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import hydra
import pytest
import yaml
from messages import assert_names, pairs
from omegaconf import DictConfig, OmegaConf

from turngrid.algorithms.registry import ALGORITHMS, SLOTS, VERLS_LOSSES, words
from turngrid.config import precision
from turngrid.config.base import CONF
from turngrid.config.checks.check import CHECKS, check
from turngrid.config.compose import Composer
from turngrid.config.errors import ConfigError
from turngrid.config.finalise import MICRO_BATCH_KEYS, finalise
from turngrid.envs.registry import ENVIRONMENTS, make_environment
from turngrid.envs.tau2 import environment as tau2
from turngrid.rewards.registry import REWARDS

sys.path.append(str(Path(__file__).parents[1] / "envs"))
from openenv_servers import misbehaving

ROLLOUT, ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
# Overrides, then what their refusal begins with and what it says to use
REFUSED = f"""
estimate_gpu=H100x0
    estimate_gpu=H100x0; use estimate_gpu=
precision=bf16 cluster=gpu1
    precision=bf16; use precision=auto
output_dir=/etc/passwd
    output_dir=/etc/passwd is a file; use another folder
env.max_turns=12 env.task=w2-o3
    env.task=w2-o3; use w2-o3-q4
reward=balanced
    reward=balanced; use env=tw_simple or reward=sparse or dense
algo=spiral
    reward=zero_sum; use env=two_player or reward=sparse or dense
env=repo_repair reward=judge
    reward=judge; use turn_reward.url
env=repo_repair env.step_deadline_s=10
    env.step_deadline_s=10; use a higher one
env.window_keep=3
    env.window_keep=3; use env.window_turns
prompt.history=2 env.window_turns=3
    prompt.history=2 and env.window_turns=3; use prompt.history=null
prompt.history_thoughts=true prompt.history=2
    prompt.history_thoughts=true: the answers of prompt=plain; use prompt=think_action
prompt.history_chars=200 prompt.history=0
    prompt.history_chars=200 and prompt.history=0; use prompt.history=2
prompt.max_actions=2 prompt.action_sep=''
    prompt.action_sep; use prompt.action_sep="||"
prompt=search_tags env=search prompt.max_actions=2
    prompt.max_actions=2; use prompt.max_actions=1
prompt.max_actions=2 prompt.demo_max_actions=3
    prompt.demo_max_actions=3; use prompt.max_actions=3
prompt=tool_call env=crafting prompt.demo_max_actions=2
    prompt.demo_max_actions=2; use prompt.demo_max_actions=null
model.name={"x" * 250}
    model.name={"x" * 57}...; use a shorter name
algo=ppo critic.enable=false
    critic.enable=false; use critic.enable=null
algo=rloo {ROLLOUT}.n=1
    algo=rloo and {ROLLOUT}.n=1; use {ROLLOUT}.n=2
{ACTOR}.ppo_mini_batch_size=5
    data.train_batch_size=16 and {ACTOR}.ppo_mini_batch_size=5; use {ACTOR}.ppo_mini_batch_size=16
cluster=gpu8 data.train_batch_size=12 {ROLLOUT}.n=3
    data.train_batch_size=12; use another data.train_batch_size
cluster=gpu8 algo=ppo model=qwen3_8b {ACTOR}.ppo_mini_batch_size=4
    {ACTOR}.ppo_mini_batch_size=4; use another {ACTOR}.ppo_mini_batch_size
{ACTOR}.ppo_micro_batch_size_per_gpu=7
    {ACTOR}.ppo_micro_batch_size_per_gpu=7; use {ACTOR}.ppo_micro_batch_size_per_gpu=1
cluster=gpu1 {ACTOR}.ppo_max_token_len_per_gpu=1024
    {ACTOR}.ppo_max_token_len_per_gpu=1024; use {ACTOR}.ppo_max_token_len_per_gpu=
cluster=gpu8 {ROLLOUT}.tensor_model_parallel_size=3
    {ROLLOUT}.tensor_model_parallel_size=3; use {ROLLOUT}.tensor_model_parallel_size=1
budget=rl_only budget.sft_share=0.5
    budget.sft_share=0.5; use budget=sft_rl
budget.units=15
    budget.units=15; use a higher budget.units
budget.units=100 budget.count=rollouts
    budget.units; use raise the one
terms=[epo] terms.epo.alpha={{linear:[1,-1,10]}}
    terms=epo; use alpha
buffer=task_replay
    buffer=task_replay and budget.units=; use a lower budget.units
demos.source=episodes
    demos.source=episodes; use demos.run
demos.source=heaven
    demos.source=heaven; use demos.source=expert
demos.alternatives=4
    demos.alternatives=4; use demos.experience
budget.rl_steps=0
    budget.rl_steps=0; use budget.rl_steps=1
model.path=runs/never/was
    model.path=; use does not exist
{ACTOR.removesuffix(".actor")}.model.path=runs/never/was
    actor_rollout_ref.model.path=runs/never/was; use model.path=runs/never/was
env.max_action_tokens=2000
    env.max_action_tokens=2000; use data.max_response_length=2000
eval.tasks=[w2-o3-q4,w2o3]
    eval.tasks; use ENV/TASK
eval.temperatures=[]
    eval.temperatures=[]; use eval.temperatures=[0.4]
prompt.admissible=true env=repo_repair
    prompt.admissible=true; use prompt.admissible=false
prompt=think_action prompt.think_tag=3
    prompt=think_action: prompt.think_tag=3; use must be a word
prompt.train_thoughts=false
    prompt.train_thoughts=false; use prompt=think_action
prompt.thinking=true
    prompt.thinking=true; use prompt=think_action
prompt=tool_call
    prompt=tool_call; use prompt=think_action
trainer.use_v1=false
    trainer.use_v1=false; use trainer.use_v1=true
tracking.reasoning=1
    tracking.reasoning=1; use tracking.reasoning=16
{ACTOR}.checkpoint.save_contents=[model,optimizer]
    {ACTOR}.checkpoint.save_contents=; use {ACTOR}.checkpoint.save_contents=[model,optimizer,hf_model]
"""
WARNED = """
reward=dense
    reward=dense; use 
env.max_turns=3
    w2-o3-q4; use more turns
prompt=react env.max_turns=20
    data.max_response_length=; use prompt.history=2
trainer.total_epochs=150
    trainer.total_epochs=150; use budget.rl_steps
model=qwen2.5_0.5b cluster=gpu1
    model.sft.lr=1e-06; use 
model=qwen2.5_0.5b budget=rl_only
    cluster=cpu; use cluster=gpu1
precision=bf16
    cluster.computes_in=bf16; use precision=fp32
env=alfworld
    model=tiny; use another model, such as model=tiny_alfworld
actor_rollout_ref.rollout.top_p=0.9
    actor_rollout_ref.rollout.top_p=0.9; use actor_rollout_ref.rollout.top_p=1
"""
OPTIONS = {
    "budget": ["rl_only", "sft_only", "sft_rl"],  # rows of table 9 are sft_rl with other shares: test_budget.py
    "model": sorted(file.stem for file in (CONF / "model").glob("*.yaml")),
}
FILLED_IN = ("data.max_prompt_length", "data.max_response_length", *MICRO_BATCH_KEYS)  # outside env and budget


@pytest.mark.parametrize(("words", "expected"), pairs(REFUSED))
def test_refused_with_the_key_and_the_fix(composed: Composer, words: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check(composed(words.split(" ")))
    assert_names(str(caught.value), expected)


@pytest.mark.parametrize(("words", "expected"), pairs(WARNED))
def test_warned_in_one_line(composed: Composer, words: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "instructions", str)  # an older processor
    (warning,) = check(composed(words.split(" ")))
    assert_names(warning, expected)


@pytest.mark.parametrize(
    "words",
    [
        ["shaping=[g_ra,turn_bonus,invalid_action,format,overlong]"],
        ["shaping=[turn_bonus,g_ra]", "shaping.g_ra.levels=[{reward: outcome, gate: 1}, {reward: trained}]"],
        [
            "env=repo_repair",
            "model=smollm2_135m",
            "algo=g_ra",
            "shaping.g_ra.levels=[{reward: outcome, gate: 1}, {reward: valid}]",
        ],
        ["shaping=[turn_bonus]", "shaping.turn_bonus.decay={steps: {1: 1, 9: 0}}"],  # another schedule than the file's
        ["algo=ppo", "shaping=[format]", "shaping.format.coefficient={linear: [0.1, 0, 50]}"],
    ],
    ids=" ".join,
)
def test_transforms_that_go_together(composed: Composer, words: list[str]) -> None:
    assert check(composed(words)) == []


@pytest.mark.parametrize("credit", ["gigpo", "hgpo"])
@pytest.mark.parametrize("algo", ["rloo", "loop"])
def test_rloo_leaves_the_deviation_out_of_credit_too(composed: Composer, algo: str, credit: str) -> None:
    config = composed([f"algo={algo}", f"credit=[{credit}]", "algorithm.use_kl_in_reward=false"])
    assert config.credit[credit].std is False and check(config) == []


def test_only_a_model_that_plays_is_warned_of_an_environment_that_it_never_saw(
    composed: Composer, tmp_path: Path
) -> None:
    words = ["env=alfworld", f"model.path={tmp_path}"]
    (tmp_path / "config.json").touch()
    assert check(composed(words)) == []  # nothing beside it says what it has seen
    for known, warned in (("alfworld", False), ("textworld", True)):
        (tmp_path / "pretraining_games.json").write_text(json.dumps({"environments": [known]}))
        answers = [text for text in check(composed(words)) if "pre-trained on textworld alone" in text]
        assert [text.endswith("such as model=tiny_alfworld") for text in answers] == [True] * warned
    assert check(composed(words), with_model=False) == []


def test_the_default_is_neither_refused_nor_warned_of(composed: Composer) -> None:
    assert check(composed([])) == []


def test_registries_and_options_agree() -> None:
    """What can be chosen is what is registered."""
    options = {group: {file.stem for file in (CONF / group).glob("*.yaml")} for group in ("env", "reward", "algo")}
    assert options == {"env": set(ENVIRONMENTS), "reward": set(REWARDS), "algo": {*words()}}
    offered = {slot: {*methods, *(VERLS_LOSSES if slot == "loss" else ())} for slot, methods in SLOTS.items()}
    assert {slot: {file.stem for file in (CONF / slot).glob("*.yaml")} for slot in SLOTS} == offered


def test_env_reward_and_budget_set_only_their_own_node() -> None:
    """Which is why the combinations below may put these nodes into a config that was composed with
    others."""
    for group, node in (("env", "env"), ("reward", "turn_reward"), ("budget", "budget")):
        for file in (CONF / group).glob("*.yaml"):
            content = yaml.safe_load(file.read_text())
            defaults = content.pop("defaults", [])
            assert list(content) == [node]
            assert defaults in ([], *([{"override /reward": own}, "_self_"] for own in ("ratio", "zero_sum")))


@pytest.mark.parametrize(("number", "algo"), enumerate(ALGORITHMS), ids=lambda value: str(value))
def test_every_combination_passes_or_is_refused_by_the_table(composed: Composer, number: int, algo: str) -> None:
    """For one model and one algorithm, each env with all rewards that it offers and one that it
    refuses; each budget with each of either.

    For the other models, which the algorithms divide among them, a part of the environments with
    one reward that they offer; verl's own check sees every model with every algorithm
    (test_config_verl_validates.py).
    """
    first, *others = OPTIONS["model"]
    for model in (*([] if number else [first]), *others[number :: len(ALGORITHMS)]):
        config = _raw(f"algo={algo}", f"model={model}")
        filled_in = {key: OmegaConf.select(config, key) for key in FILLED_IN}
        for env, reward, budget in _played(OPTIONS["model"].index(model)):
            config.env, config.turn_reward, config.budget = env, reward, budget
            for key, value in filled_in.items():
                OmegaConf.update(config, key, value)
            _passes_or_is_refused(config)


def _played(turn: int) -> Iterator[tuple[DictConfig, DictConfig, DictConfig]]:
    """Environment, reward and budget: in turn 0 of every environment, else of one in five."""
    envs, rewards, budgets = _nodes().values()
    for place, env in enumerate(envs):
        offered = [reward for reward in rewards if _offers(env, reward)]
        refused = [reward for reward in rewards if reward not in offered]
        chosen = [*offered, *refused[place % len(refused) :][:1]]
        if turn:
            chosen = [] if (place + turn) % 5 else [offered[(place + turn) % len(offered)]]
        for other, reward in enumerate(chosen):
            yield env, reward, budgets[(place + turn + other) % len(budgets)]


NEEDED: dict[str, dict[str, Any]] = {"judge": {"url": "http://127.0.0.1/v1"}}  # what an option does not run without


@pytest.fixture(scope="module", autouse=True)
def what_users_bring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What env=openenv and env=tau2 do not run without: a server, and a clone's files."""
    clone = tmp_path_factory.mktemp("clone")
    for name in tau2.NEEDED:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).touch()
    NEEDED["tau2"] = {"data_dir": str(clone)}
    with misbehaving() as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tau2.Tau2, "modules", ())
        NEEDED["openenv"] = {"url": url, "action_field": "move", "observation_fields": ["text"]}
        yield


@cache
def _nodes() -> dict[str, list[DictConfig]]:
    return {
        "env": [_node("env", "env", name) for name in ENVIRONMENTS],
        "turn_reward": [_node("reward", "turn_reward", name) for name in REWARDS],
        "budget": [_node("budget", "budget", name) for name in OPTIONS["budget"]],
    }


def _node(group: str, key: str, name: str) -> DictConfig:
    """As composed, in a hundredth of the time."""
    files = (CONF / "config.yaml", CONF / group / f"{name}.yaml")
    nodes = (OmegaConf.load(file).get(key) or {} for file in files)
    return cast(DictConfig, OmegaConf.merge(*nodes, NEEDED.get(name, {})))


def _raw(*overrides: str) -> DictConfig:
    """Before anything that is null has been filled in."""
    return hydra.compose("config", overrides=list(overrides))


def _offers(env: DictConfig, turn_reward: DictConfig) -> bool:
    return turn_reward.name in make_environment(env.name).rewards


def _passes_or_is_refused(config: DictConfig) -> None:
    offered = _offers(config.env, config.turn_reward)
    try:
        check(finalise(config))
    except ConfigError as error:
        messages = [message for rule in CHECKS if (message := next(rule(config), None))]
        assert str(error) == messages[0]
        assert not offered, f"{config.env.name} offers {config.turn_reward.name}, but: {error}"
    else:
        assert offered
