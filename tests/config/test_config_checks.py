"""The table of config checks: each entry meets a config that it refuses; and what is accepted."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from messages import assert_names, refusals
from omegaconf import OmegaConf

from turngrid.algorithms.registry import SLOTS, VERLS_LOSSES, words
from turngrid.config import precision
from turngrid.config.base import CONF
from turngrid.config.checks.check import check
from turngrid.config.compose import Composer
from turngrid.config.errors import ConfigError
from turngrid.config.finalise import MICRO_BATCH_KEYS
from turngrid.envs.registry import ENVIRONMENTS, make_environment
from turngrid.envs.tau2 import environment as tau2
from turngrid.rewards.registry import REWARDS

sys.path.append(str(Path(__file__).parents[1] / "envs"))
from openenv_servers import misbehaving

ROLLOUT, ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
MIXED, CORRECTION = "env.tasks=[w2-o3-q4,w2-o4-q4]", "algorithm.rollout_correction"
COLOCATE, SEPARATE = (f"trainer.v1.trainer_mode={mode}_async" for mode in ("colocate", "separate"))
ASYNC_GPUS = f"cluster=gpu8 model=qwen2.5_1.5b rollout=vllm {SEPARATE}"
NCCL = f"{ROLLOUT}.checkpoint_engine.backend=nccl"
LORA, WORLD = "model.lora_rank=8", "demos.experience=world_model model.sft.epochs=2"
# Overrides, then what their refusal begins with and what it says to use
REFUSED = f"""
estimate_gpu=H100x0
    estimate_gpu=H100x0; use estimate_gpu=
cluster.computes_in=bf16
    cluster.computes_in=bf16; use precision=auto
precision=bf16 cluster=gpu1
    precision=bf16; use precision=auto
{ROLLOUT}.dtype=bfloat16
    {ROLLOUT}.dtype=bfloat16; use {ROLLOUT}.dtype=float32 or another precision=
precision=bf16 {ACTOR}.fsdp_config.model_dtype=bf16
    {ACTOR}.fsdp_config.model_dtype=bf16; use {ACTOR}.fsdp_config.model_dtype=fp32
cluster=gpu1 rollout=transformers {ROLLOUT}.dtype=auto
    {ROLLOUT}.dtype=auto; use {ROLLOUT}.dtype=bfloat16
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
    prompt.history_chars=200; use prompt.history=2
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
cluster=gpu8 model.sft.batch_size=12
    model.sft.batch_size=12; use model.sft.batch_size=16
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
demos.max_turns=3
    demos.max_turns=3; use demos.max_turns=null
demos.source=heaven
    demos.source=heaven; use demos.source=expert
demos.alternatives=4
    demos.alternatives=4; use demos.experience
budget.rl_steps=0 budget.count=rollouts
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
trainer.nnodes=2
    trainer.nnodes=2; use trainer.n_gpus_per_node=2
tracking.reasoning=1
    tracking.reasoning=1; use tracking.reasoning=16
{ACTOR}.checkpoint.save_contents=[model,optimizer]
    {ACTOR}.checkpoint.save_contents=; use {ACTOR}.checkpoint.save_contents=[model,optimizer,extra,hf_model]
algo=ppo critic.checkpoint.load_contents=[]
    critic.checkpoint.load_contents=[]; use critic.checkpoint.load_contents=[model,optimizer,extra]
curriculum=phases
    curriculum=phases; use env.tasks=[a,b]
{MIXED} curriculum=phases curriculum.phases={{1:[w2-o3-q4],5:[w2-o5-q4]}}
    curriculum.phases: w2-o5-q4; use w2-o4-q4
{MIXED} curriculum=phases curriculum.phases={{1:[w2-o3-q4],9:[w2-o4-q4],5:[w2-o4-q4]}}
    curriculum.phases: the steps are 1, 9, 5; use 1 first
{MIXED} curriculum=phases curriculum.phases={{1:[w2-o3-q4],26:[w2-o4-q4]}}
    curriculum.phases: step 26 never comes; use steps up to budget.rl_steps=25
{MIXED} curriculum=phases curriculum.phases={{1:[w2-o3-q4]}}
    curriculum.phases: it never samples w2-o4-q4
{MIXED} curriculum=phases curriculum.phases={{1:[]}}
    curriculum.phases: no task at step 1
{MIXED} curriculum=phases curriculum.phases={{1:w2-o3-q4}}
    curriculum.phases=; use curriculum.phases={{1:
curriculum.phases={{1:[w2-o3-q4]}}
    curriculum.phases; use curriculum=phases
curriculum.keep=true
    curriculum.keep; use curriculum=threshold
{MIXED} curriculum=threshold curriculum.window=25
    curriculum.window=25; use curriculum.window=24
curriculum.horizon={{1:4}}
    curriculum.horizon; use curriculum=horizon
curriculum=horizon curriculum.horizon={{1:4,9:13}}
    curriculum.horizon; use rising ones from 1 to env.max_turns=12
curriculum=horizon budget=sft_only
    curriculum=horizon; use curriculum=none
{MIXED} eval.games=1
    env.tasks: 1 test games leave none for w2-o4-q4; use more of them
{COLOCATE} curriculum=horizon
    curriculum=horizon; use curriculum=none
{COLOCATE} trainer.v1.colocate_async.num_warmup_batches=3
    trainer.v1.colocate_async.num_warmup_batches=3; use fewer
{COLOCATE} correction=none {CORRECTION}.bypass_mode=false
    {CORRECTION}.bypass_mode=false; use correction=token_tis
{SEPARATE} {ROLLOUT}.n_gpus_per_node=2
    {ROLLOUT}.n_gpus_per_node=2; use {ROLLOUT}.nnodes=2
{SEPARATE} ray_kwargs.ray_init.num_gpus=1
    ray_kwargs.ray_init.num_gpus=1; use ray_kwargs.ray_init.num_gpus=2
{SEPARATE} trainer.v1.separate_async.parameter_sync_step=2
    trainer.v1.separate_async.parameter_sync_step=2; use trainer.v1.separate_async.parameter_sync_step=4
{ASYNC_GPUS}
    {ROLLOUT}.nnodes=0; use {ROLLOUT}.nnodes=1 or more
{ASYNC_GPUS} {ROLLOUT}.nnodes=1
    {ROLLOUT}.checkpoint_engine.backend=naive; use {NCCL}
{ASYNC_GPUS} {ROLLOUT}.nnodes=1 {NCCL} rollout=transformers
    {SEPARATE}; use rollout=vllm
{CORRECTION}.rollout_is=token
    {CORRECTION}.rollout_is=token; use {CORRECTION}.bypass_mode=false or correction=token_tis
{CORRECTION}.rollout_rs=seq_mean_k1
    {CORRECTION}.rollout_rs_threshold=None; use {CORRECTION}.rollout_rs_threshold=0.999_1.001
correction=geometric {CORRECTION}.rollout_rs_threshold=0.99_1
    {CORRECTION}.rollout_rs_threshold=0.991; use {CORRECTION}.rollout_rs_threshold=0.999_1.001
correction=k3 {CORRECTION}.rollout_rs_threshold=0.9_1.1
    {CORRECTION}.rollout_rs_threshold=0.9_1.1; use {CORRECTION}.rollout_rs_threshold=0.01
model.lora_alpha=32
    model.lora_alpha=32; use model.lora_rank=16 too
{LORA} model.lora_target_modules=[q_porj]
    model.lora_target_modules=['q_porj']; use q_proj
{LORA} model.lora_target_modules=[]
    model.lora_target_modules=[]; use null
{LORA} {ACTOR}.strategy=fsdp
    {ACTOR}.strategy=fsdp; use {ACTOR}.strategy=fsdp2
{LORA} {ASYNC_GPUS} {ROLLOUT}.nnodes=1 {ROLLOUT}.checkpoint_engine.backend=delta_sharded
    {ROLLOUT}.checkpoint_engine.backend=delta_sharded; use {NCCL}
{LORA} cluster=gpu1 model=qwen2.5_7b rollout=vllm {ROLLOUT}.layered_summon=true
    {ROLLOUT}.load_format=dummy; use {ROLLOUT}.load_format=safetensors
demos.experience=world_model
    model.sft.epochs=1; use model.sft.epochs=2
{WORLD} budget=rl_only
    demos.experience=world_model; use budget=sft_rl
{WORLD} env.window_turns=3
    demos.experience=world_model; use env.window_turns=null
{WORLD} demos.writer_model=m
    demos.writer_model=m; use demos.experience=reflection
demos.experience=reflection
    demos.experience=reflection and prompt=plain; use prompt=think_action
demos.experience=reflection prompt=react
    demos.experience=reflection; use demos.writer=http
demos.experience=reflection prompt=react demos.writer=host
    demos.writer=host must be an address
demos.experience=reflection prompt=react demos.writer=http://host/v1
    demos.writer; use demos.writer_model=NAME
"""
WARNED = """
env.max_turns=3
    w2-o3-q4; use more turns
prompt=react env.max_turns=20
    data.max_response_length=; use prompt.history=2
data.seed=5
    data.seed=5; use seed=
trainer.default_local_dir=/big/disk
    trainer.default_local_dir=/big/disk; use output_dir=
actor_rollout_ref.actor.grad_clip=0.5
    actor_rollout_ref.actor.grad_clip=0.5; use actor_rollout_ref.actor.optim.clip_grad=
trainer.balance_batch=false
    trainer.balance_batch=False; use trainer.balance_batch=true
model=qwen2.5_0.5b cluster=gpu1
    model.sft.lr=1e-06; use 
model=qwen2.5_0.5b budget=rl_only
    cluster=cpu; use cluster=gpu1
precision=bf16
    precision=bf16; use precision=fp32
env=alfworld
    model=tiny; use another model, such as model=tiny_alfworld
budget.rl_epochs=3
    budget.rl_epochs=3; use budget.rl_steps=null
actor_rollout_ref.rollout.top_p=0.9
    actor_rollout_ref.rollout.top_p=0.9; use actor_rollout_ref.rollout.top_p=1
"""
SETTINGS = {"judge": {"url": "http://127.0.0.1/v1"}}  # what a reward does not run without


@pytest.mark.parametrize(("words", "expected"), refusals(REFUSED))
def test_refused_with_the_key_and_the_fix(composed: Composer, words: str, expected: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        check(composed(words.split(" ")))
    assert_names(str(caught.value), *expected)


@pytest.mark.parametrize(("words", "answer"), refusals(WARNED))
def test_warned_in_one_line(composed: Composer, words: str, answer: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "instructions", str)  # an older processor
    (warning,) = check(composed(words.split(" ")))
    assert_names(warning, *answer)


@pytest.mark.parametrize(
    "words",
    [
        "seed=0",  # the default
        "shaping=[g_ra,turn_bonus,invalid_action,format,overlong]",
        "shaping=[turn_bonus,g_ra] shaping.g_ra.levels=[{reward:outcome,gate:1},{reward:trained}]",
        "shaping=[turn_bonus] shaping.turn_bonus.decay={steps:{1:1,9:0}}",  # another schedule than the file's
        "algo=ppo shaping=[format] shaping.format.coefficient={linear:[0.1,0,50]}",
        "env.tasks={w2-o3-q4:3,w4-o6-q8:1} curriculum=phases curriculum.horizon={1:8,9:24}",
        "env.tasks={w2-o3-q4:3,w4-o6-q8:1} curriculum=threshold curriculum.keep=true",
        "curriculum=horizon budget=rl_only",
        "terms=[epo] terms.epo.alpha={linear:[1,-1,10]} budget.rl_steps=5",  # longer runs leave its range
        *(f"correction={file.stem}" for file in (CONF / "correction").glob("*.yaml")),
    ],
)
def test_accepted_without_a_warning(composed: Composer, words: str) -> None:
    assert check(composed(words.split())) == []


def test_a_pass_has_as_many_rows_as_the_model_allows_and_as_divide_the_mini_batch(composed: Composer) -> None:
    mini_batch = [f"{ACTOR}.ppo_mini_batch_size=2", f"{ROLLOUT}.n=6"]
    for most, rows in (("null", 4), ("8", 6), ("999", 12)):
        config = composed([*mini_batch, f"model.rows_per_pass={most}"])
        assert {OmegaConf.select(config, key) for key in MICRO_BATCH_KEYS} == {rows} and check(config) == []


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
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('Conversation roles must alternate') }}")
    with pytest.raises(ConfigError, match=r"user in a row.*; use actor_rollout_ref.model.custom_chat_template="):
        check(composed(words))


def test_registries_and_options_agree() -> None:
    """What can be chosen is what is registered."""
    options = {group: {file.stem for file in (CONF / group).glob("*.yaml")} for group in ("env", "reward", "algo")}
    assert options == {"env": set(ENVIRONMENTS), "reward": set(REWARDS), "algo": {*words()}}
    offered = {slot: {*methods, *(VERLS_LOSSES if slot == "loss" else ())} for slot, methods in SLOTS.items()}
    assert {slot: {file.stem for file in (CONF / slot).glob("*.yaml")} for slot in SLOTS} == offered


@pytest.fixture(scope="module")
def needed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """What env=openenv and env=tau2 do not run without: a server, and a clone's files."""
    clone = tmp_path_factory.mktemp("clone")
    for name in tau2.NEEDED:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).touch()
    with misbehaving() as url, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tau2.Tau2, "modules", ())
        openenv = [f"env.url={url}", "env.action_field=move", "env.observation_fields=[text]"]
        yield {"tau2": [f"env.data_dir={clone}"], "openenv": openenv}


@pytest.mark.parametrize("env", ENVIRONMENTS)
def test_an_environment_runs_with_the_rewards_that_it_offers_alone(
    composed: Composer, env: str, needed: dict[str, list[str]]
) -> None:
    config = composed([f"env={env}", *needed.get(env, [])])
    offered = make_environment(env, config.env).rewards
    assert {*offered} <= {*REWARDS}
    for name in REWARDS:
        config.turn_reward = {**OmegaConf.load(CONF / "reward" / f"{name}.yaml").turn_reward, **SETTINGS.get(name, {})}
        if name in offered:
            check(config)
        else:
            with pytest.raises(ConfigError, match=f"^reward={name}: env={env} does not offer it; use "):
                check(config)
