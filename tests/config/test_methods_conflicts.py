"""Methods that cannot be combined: each case is refused, with the settings in conflict and what to
type instead."""

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from messages import assert_names, names, refusals

from turngrid.algorithms.registry import ALGORITHMS, SLOTS, VERLS_LOSSES, words
from turngrid.config.checks import estimators, methods
from turngrid.config.checks.check import CHECKS, check
from turngrid.config.compose import Composer
from turngrid.config.errors import ConfigError
from turngrid.rewards.declared import GROUPS, Names
from turngrid.tasks.run import Run

# Overrides, then the key and the fix of each refusal that they meet
REFUSED = """
algo=ppo actor_rollout_ref.rollout.n=1 filter=[std_top_p] credit=[hgpo,gigpo] shaping=[invalid_action,cosine_length] algorithm.filter_groups.enable=true
    filter=std_top_p and actor_rollout_ref.rollout.n=1; use actor_rollout_ref.rollout.n=2
    credit=hgpo and credit=[hgpo,gigpo]; use credit=[hgpo]
    shaping=cosine_length and shaping=[invalid_action,cosine_length]; use shaping=[cosine_length,invalid_action]
    algorithm.filter_groups.enable=true; use filter=[dynamic_sampling]
algo=grpo credit=[group_scale,aem] filter=[solved] curriculum=threshold env.tasks=[w2-o3-q4,w2-o4-q4] actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean prompt.history=2 loss=turn_clip actor_rollout_ref.actor.policy_loss.loss_mode=vanilla
    credit=group_scale and credit=[group_scale,aem]; use credit=[aem,group_scale]
    filter=solved and curriculum.name=threshold; use curriculum=phases
    actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean and prompt.history=2; use actor_rollout_ref.actor.loss_agg_mode=token-mean or prompt.history=null
    loss=turn_clip and actor_rollout_ref.actor.policy_loss.loss_mode=vanilla; use actor_rollout_ref.actor.policy_loss.loss_mode=turngrid
algo=lite_ppo credit=[group_scale] actor_rollout_ref.actor.policy_loss.loss_mode=turngrid algorithm.adv_estimator=turngrid_turns filter=[entropy_turns,std_min_p] filter.entropy_turns.scope=batch trainer.v1.trainer_mode=separate_async
    credit=group_scale and algo.name=lite_ppo; use algo=grpo
    actor_rollout_ref.actor.policy_loss.loss_mode=turngrid; use loss=turn_clip
    algorithm.adv_estimator=turngrid_turns; use algo=turn_ppo or bi_level_gae or vapo or hiper or distill
    filter=entropy_turns and trainer.v1.trainer_mode=separate_async; use actor_rollout_ref.actor.ppo_mini_batch_size=16
    filter=std_min_p and trainer.v1.trainer_mode=separate_async; use actor_rollout_ref.actor.ppo_mini_batch_size=16
algo=ppo credit=[infopo] actor_rollout_ref.rollout.n=1 +credit.mine.target=test_methods_conflicts:Compares filter=[void_turns] actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean loss=turn_clip algorithm.rollout_correction.rollout_rs=token_k1
    credit=infopo and algo=ppo; use algo=grpo
    credit=mine and actor_rollout_ref.rollout.n=1; use actor_rollout_ref.rollout.n=2
    filter=void_turns and actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean; use actor_rollout_ref.actor.loss_agg_mode=token-mean
    loss=turn_clip and algorithm.rollout_correction.rollout_rs=token_k1; use algorithm.rollout_correction.rollout_rs=null
    algorithm.rollout_correction.rollout_rs=token_k1 and algo=ppo; use correction=icepop
env=search model=smollm2_135m algo=grpo credit=[infopo,igpo] loss=turn_clip algorithm.rollout_correction.rollout_is=token data.train_batch_size=16 actor_rollout_ref.actor.ppo_mini_batch_size=8 critic.enable=true buffer=self_imitation terms=[epo] trainer.v1.trainer_mode=separate_async
    credit=infopo and credit=[infopo,igpo]; use credit=[infopo]
    loss=turn_clip and algorithm.rollout_correction.rollout_is=token and actor_rollout_ref.actor.ppo_mini_batch_size=8; use algorithm.rollout_correction.rollout_is=null
    buffer=self_imitation and critic.enable=true; use critic.enable=false
    terms=epo and trainer.v1.trainer_mode=separate_async; use trainer.v1.trainer_mode=sync
algo=grpo credit=[igpo] buffer=task_replay env.window_turns=4 filter=[dynamic_sampling] rollout_form=tree correction=geometric_tis
    credit=igpo and env=textworld; use env=search
    buffer=task_replay and env.window_turns=4; use env.window_turns=null
    buffer=task_replay and algorithm.rollout_correction.rollout_rs=seq_mean_k1; use algorithm.rollout_correction.rollout_rs=null
    buffer=task_replay and filter=[dynamic_sampling]; use filter=[]
    buffer=task_replay and rollout_form=tree; use rollout_form=linear
env=search model=smollm2_135m algo=igpo credit=[aem,igpo] buffer=task_replay algorithm.rollout_correction.bypass_mode=false shaping=[turn_bonus,g_ra] rollout_form=prefix env.window_turns=4
    credit=igpo and credit=[aem,igpo]; use credit=[igpo,aem]
    buffer=task_replay and algorithm.rollout_correction.bypass_mode=false and algorithm.rollout_correction.rollout_is=null; use algorithm.rollout_correction.rollout_is=token or algorithm.rollout_correction.bypass_mode=true
    shaping=g_ra and shaping=[turn_bonus,g_ra]; use shaping=[g_ra,turn_bonus]
    rollout_form=prefix and env.window_turns=4; use env.window_turns=null
algo=rloo terms=[self_distill] trainer.v1.trainer_mode=colocate_async algorithm.rollout_correction.rollout_rs=token_k1 credit=[gigpo] credit.gigpo.std=true buffer=self_imitation
    terms=self_distill and trainer.v1.trainer_mode=colocate_async; use trainer.v1.trainer_mode=sync
    terms=self_distill and algorithm.rollout_correction.rollout_rs=token_k1; use algorithm.rollout_correction.rollout_rs=null
    credit.gigpo.std=true and algo=rloo; use credit.gigpo.std=false
    buffer=self_imitation and trainer.v1.trainer_mode=colocate_async; use trainer.v1.trainer_mode=sync
algo=slea_rl trainer.v1.trainer_mode=colocate_async library.experience.writer=policy library.experience.similarity={linear:[0,1,9]} rollout_form=tree prompt=react credit=[rlvmr]
    library=experience and trainer.v1.trainer_mode=colocate_async; use trainer.v1.trainer_mode=sync
    library=experience and model.name=tiny; use library.experience.writer=rule
    library=experience and library.experience.similarity={'linear': [0, 1, 9]}; use one number
    library=experience and rollout_form=tree; use rollout_form=linear
    credit=rlvmr and prompt=react; use prompt=rlvmr
algo=slea_rl library=[] shaping=[f1,turn_bonus] env=repo_repair +credit.mine.target=test_methods_conflicts:ReadsTheJudge rollout_form=tcod rollout_form.tcod.direction=f2b trainer.v1.trainer_mode=colocate_async
    algo.state=cluster; use library=experience or algo.state=null
    shaping=f1 and shaping=[f1,turn_bonus]; use shaping=[f1]
    reward=judge; use turn_reward.url
    rollout_form=tcod and trainer.v1.trainer_mode=colocate_async; use trainer.v1.trainer_mode=sync
algo=ppo credit=[group_scale] actor_rollout_ref.rollout.n=2 buffer=self_imitation shaping=[subgoals] rollout_form=prefix curriculum=threshold env.tasks=[w2-o3-q4,w2-o4-q4]
    credit=group_scale and algo=ppo; use algo=grpo
    buffer=self_imitation and algo=ppo; use algo=grpo
    shaping=subgoals and prompt=plain; use prompt=hiper
    rollout_form=prefix and curriculum.name=threshold; use curriculum=phases
algo=starpo_s filter.std_top.share=0.05 rollout_form=tcod curriculum=horizon loss=turn_clip +loss.mine.target=turngrid.algorithms.losses.turn_clip:TurnClip +loss.mine.low=0.2 +loss.mine.high=0.2
    filter=std_top and data.train_batch_size=16; use a higher filter.std_top.share
    rollout_form=tcod and curriculum.horizon={1; use curriculum=none
    loss=[turn_clip,mine]; use loss=turn_clip
algo=dapo trainer.v1.trainer_mode=colocate_async budget.count=rollouts rollout_form=tree rollout_form.tree.nodes={steps:{1:2,5:1}}
    rollout_form=tree and rollout_form.tree.nodes with a schedule; use one number
    filter=dynamic_sampling and trainer.v1.trainer_mode=colocate_async; use filter=[zero_std]
    filter=dynamic_sampling and budget.count=rollouts; use budget.count=games or filter=[zero_std]
    rollout_form=tree and actor_rollout_ref.rollout.n=8; use a lower actor_rollout_ref.rollout.n
algo=gspo env.window_turns=4 credit=[tree] shaping=[try_again]
    loss=gspo and env.window_turns=4; use loss=turn_clip or env.window_turns=null
    credit=tree and rollout_form=linear; use rollout_form=tree
    shaping=try_again and rollout_form=linear; use rollout_form=attempts
algo=reinforce_plus_plus credit=[gigpo] rollout_form=summary loss=gspo correction=k3
    algorithm.rollout_correction.rollout_rs=seq_mean_k3 and algo=reinforce_plus_plus; use correction=icepop
    credit=gigpo and algo=reinforce_plus_plus; use algo=grpo
    loss=gspo and rollout_form=summary; use loss=turn_clip or rollout_form=linear
algo=turn_ppo credit=[graft] algorithm.gamma=0.9 rollout_form=self_play
    credit=graft and algo=turn_ppo; use algo=grpo
    algo=turn_ppo and algorithm.gamma=0.9; use algo.gamma=0.9
    rollout_form=self_play and env=textworld; use env=two_player or rollout_form=linear
algo=step_ppo algorithm.adv_estimator=gae rollout_form=attempts shaping=[improvement] credit=[attempts]
    algorithm.adv_estimator=gae; use algorithm.adv_estimator=turngrid_turns
    shaping=improvement and rollout_form.attempts.attempts=5; use rollout_form.attempts.attempts=2
algo=gigpo rollout_form=tcod
    credit=gigpo and rollout_form=tcod; use rollout_form=linear
algo=hiper prompt=plain shaping=[] +critic.model.override_config.value_heads=1 rollout_form=mem1
    algo=hiper and prompt=plain; use prompt=hiper
    critic.model.override_config.value_heads=1; use critic.model.override_config.value_heads=3
    algo=hiper and rollout_form=mem1; use rollout_form=linear
algo=g_ra env=repo_repair shaping.g_ra.levels=[{reward:outcom,gate:1},{reward:dense}]
    reward=dense; use outcome, valid, parsed, plan_share, ratio
    reward=outcom; use outcome
algo=tree_grpo credit=[tree,gigpo]
    credit=gigpo and rollout_form=tree; use rollout_form=linear
algo=tree_grpo credit=[aem,tree_q]
    credit=tree_q and credit=[aem,tree_q]; use credit=[tree_q,aem]
algo=refuel rollout_form.tree.nodes=2 actor_rollout_ref.actor.ppo_epochs=2 credit=[tree,pair]
    credit=pair and rollout_form.tree.nodes=2; use rollout_form.tree.nodes=1
    credit=pair and actor_rollout_ref.actor.ppo_epochs=2; use actor_rollout_ref.actor.ppo_epochs=1
    credit=pair and credit=[tree,pair]; use credit=[pair,tree]
algo=arpo rollout=vllm
    rollout_form=arpo and actor_rollout_ref.rollout.name=vllm; use rollout=transformers
algo=seeupo prompt.history=null loss=turn_clip credit=[group_scale]
    algo=seeupo and prompt.history=null; use prompt.history=10
    algo=seeupo and loss=[turn_clip]; use loss=step_clip
    credit=group_scale and algo.name=seeupo; use algo=grpo
algo=gigpo rollout_form=attempts
    rollout_form=attempts and credit=[gigpo] and algo.state=null; use credit=[]
algo=score credit=[]
    shaping=improvement and credit=[]; use credit=[attempts]
algo=semi_online prompt=react prompt.max_actions=2 filter=[over_turns,zero_std] credit=[salt] algorithm.use_kl_in_reward=true algorithm.rollout_correction.rollout_rs=token_k1
    rollout_form=semi_online and prompt.max_actions=2; use prompt.max_actions=1
    rollout_form=semi_online and filter=[over_turns,zero_std]; use filter=[]
    algo=semi_online and filter=[over_turns,zero_std]; use filter=[]
    credit=salt and algorithm.rollout_correction.rollout_rs=token_k1; use algorithm.rollout_correction.rollout_rs=null
    credit=salt and rollout_form=semi_online; use rollout_form=linear
    algo=semi_online and algorithm.use_kl_in_reward=true; use algorithm.use_kl_in_reward=false
algo=semi_online rollout_form=linear
    algo=semi_online and rollout_form=[]; use rollout_form=semi_online
rollout_form=semi_online
    rollout_form=semi_online and algo.name=grpo; use algo=semi_online
algo=supo rollout_form.summary.most={steps:{1:1,9:2}} rollout_form.summary.tokens=1500
    rollout_form=summary and rollout_form.summary.most with a schedule; use one number
    rollout_form=summary and data.max_prompt_length + data.max_response_length = 1536; use a lower rollout_form.summary.tokens
algo=supo rollout_form.summary.tokens=null
    rollout_form=[summary], filter=[over_turns]; use set one of them
env=two_player env.id=ConnectFour-v0 algo=spiral rollout_form.self_play.opponent=exact buffer=task_replay filter=[dynamic_sampling] trainer.v1.trainer_mode=colocate_async
    rollout_form=self_play and env.task=ConnectFour-v0; use rollout_form.self_play.opponent=self or random or first
    rollout_form=self_play and buffer=[task_replay]; use buffer=[]
    algo=spiral and filter=[dynamic_sampling]; use filter=[]
    algo=spiral and trainer.v1.trainer_mode=colocate_async; use trainer.v1.trainer_mode=sync
algo=dr_mas roles=[planner] prompt.history=2 rollout_form=tree library=experience credit=[infopo,role_norm] roles.planner.max_tokens={linear:[1,9,9]}
    roles=planner and roles=[planner]; use roles=[...,actor]
    roles=planner and prompt.history=2; use prompt.history=null
    roles=planner and rollout_form=[tree]; use rollout_form=linear
    roles=planner and library=[experience]; use library=[]
    roles=planner and roles.planner.max_tokens with a schedule; use one number
    credit=infopo and roles=[planner]; use roles=[]
    credit=role_norm and credit=[infopo,role_norm]; use credit=[role_norm,infopo]
algo=spiral env=two_player roles=[verifier,searcher,answerer] roles.verifier.max_tokens=5000 roles.searcher.every=2 filter=[void_turns] filter.void_turns.stop=true
    algo=spiral and roles=[verifier,searcher,answerer]; use algo=dr_mas
    roles=verifier and env=two_player; use roles=[] algo=marshal
    filter=void_turns and env=two_player; use filter.void_turns.stop=null
    roles=verifier and data.max_response_length=; use data.max_response_length=5000
    roles=searcher and roles=[verifier,searcher,answerer]; use every=1
algo=dr_mas roles=[checker,proposer]
    roles=checker and roles=[checker,proposer]; use roles=[actor,...]
algo=dr_mas roles=[planner,checker,proposer] roles.planner.next=checker
    roles=checker and roles=[planner,checker,proposer]; use roles=[actor,...]
algo=hiper roles=[planner,actor] env=textworld
    algo=hiper and roles=[planner,actor]; use roles=[]
algo=dr_mas roles=[]
    credit=role_norm and roles=[]; use roles=[planner,actor]
algo=grpo roles=[planner,actor] roles.planner.sees=[words]
    roles=[planner,actor]; use sees=words must be one of
env=two_player algo=marshal rollout=vllm curriculum=threshold rollout_form.self_play.opponent={self:1,past:1} rollout_form.self_play.past_every={linear:[1,2,3]} rollout_form.self_play.key_env=KEY
    rollout_form=self_play and actor_rollout_ref.rollout.name=vllm; use rollout=transformers, or rollout_form.self_play.opponent=endpoint with a server of your own
    rollout_form=self_play and rollout_form.self_play.past_every={'linear': [1, 2, 3]}; use one number
    rollout_form=self_play and rollout_form.self_play.endpoint=null; use rollout_form.self_play.opponent=endpoint rollout_form.self_play.endpoint=http://HOST/v1 rollout_form.self_play.endpoint_model=NAME
    rollout_form=self_play and curriculum.name=threshold; use curriculum=phases
env=two_player algo=rae rollout_form=self_play rollout_form.self_play.opponent=endpoint rollout_form.self_play.endpoint=localhost:8000 eval.opponents=[start,future] eval.servers=true
    eval.opponents=[start,future]; use eval.opponents=[random]
    eval.opponents=[start,future]; use eval.opponents=[random,start]
    eval.opponents=[start,future]; use eval.servers=false
    rollout_form=self_play and rollout_form.self_play.endpoint=localhost:8000; use rollout_form.self_play.opponent=endpoint rollout_form.self_play.endpoint=http://HOST/v1 rollout_form.self_play.endpoint_model=NAME
rollout_form=[prefix,tcod]
    rollout_form=[prefix,tcod]; use rollout_form=prefix
algo=distill
    algo=distill; use algo.teacher=
algo=distill algo.teacher=asset://nothing
    algo.teacher=asset://nothing: no such asset
algo=distill algo.teacher=asset://tiny_alfworld
    algo.teacher=asset://tiny_alfworld; use one with the same
algo=distill algo.teacher=asset://tiny model.lora_rank=8 algorithm.kl_penalty=mse
    algo=distill and model.lora_rank=8; use model.lora_rank=null
    algo=distill and algorithm.kl_penalty=mse; use algorithm.kl_penalty=kl
algo=grpo distillation.enabled=true
    distillation.enabled=true; use algo=distill
"""
WARNED = """
algo=grpo terms=[self_distill] actor_rollout_ref.actor.use_kl_loss=true
    terms=self_distill and actor_rollout_ref.actor.use_kl_loss=true; use actor_rollout_ref.actor.use_kl_loss=false
algo=aem filter=[entropy_turns]
    filter=entropy_turns and credit=[aem]; use filter=[]
filter=[over_turns] reward=dense env=tw_simple model=smollm2_135m
    filter=over_turns and turn_reward.name=dense; use reward=sparse
algo=hgpo algorithm.use_kl_in_reward=true
    credit=hgpo and algorithm.use_kl_in_reward=true; use algorithm.use_kl_in_reward=false actor_rollout_ref.actor.use_kl_loss=true
algo=gigpo credit.gigpo.by_turns=true algorithm.use_kl_in_reward=true
    credit=gigpo and algorithm.use_kl_in_reward=true; use algorithm.use_kl_in_reward=false actor_rollout_ref.actor.use_kl_loss=true
algo=mt_grpo credit.mt_grpo.outcome=won algorithm.use_kl_in_reward=true
    credit=mt_grpo and algorithm.use_kl_in_reward=true; use algorithm.use_kl_in_reward=false actor_rollout_ref.actor.use_kl_loss=true
algo=graft algorithm.use_kl_in_reward=true
    credit=graft and algorithm.use_kl_in_reward=true; use algorithm.use_kl_in_reward=false actor_rollout_ref.actor.use_kl_loss=true
algo=refuel algorithm.use_kl_in_reward=true
    credit=pair and algorithm.use_kl_in_reward=true; use algorithm.use_kl_in_reward=false actor_rollout_ref.actor.use_kl_loss=true
algo=dr_mas algorithm.use_kl_in_reward=true
    credit=role_norm and algorithm.use_kl_in_reward=true; use algorithm.use_kl_in_reward=false actor_rollout_ref.actor.use_kl_loss=true
env=repo_repair model=smollm2_135m algo=mt_grpo credit.mt_grpo.outcome=won
    credit=mt_grpo and env=repo_repair; use credit.mt_grpo.outcome=reward
"""


@dataclass
class Compares:
    """A credit method of another package, which scales and so goes with any algorithm."""

    requires: ClassVar[Names] = frozenset({GROUPS})


@dataclass
class ReadsTheJudge:
    """A credit method of another package that reads a reward without settings."""

    reads: ClassVar[frozenset[str]] = frozenset({"judge"})


@pytest.mark.parametrize(("words", "expected"), refusals(REFUSED))
def test_methods_that_cannot_be_combined(composed: Composer, words: str, expected: list[str]) -> None:
    try:
        config = composed(words.split(" "))
    except ConfigError as error:  # a method itself refuses its settings
        problems = [str(error)]
    else:
        problems = [problem for rule in CHECKS for problem in rule(Run(config))]
        with pytest.raises(ConfigError, match=re.escape(problems[0])):
            check(config)
    assert [text for text in expected if not any(names(problem, text) for problem in problems)] == [], problems


@pytest.mark.parametrize(("words", "expected"), refusals(WARNED))
def test_methods_that_are_warned_of(composed: Composer, words: str, expected: list[str]) -> None:
    (warning,) = check(composed(words.split(" ")))
    assert_names(warning, *expected)


@pytest.mark.parametrize("words", ["algo=infopo", "algo=rloo terms=[self_distill]"])
def test_old_log_probs_of_the_trainer_take_its_own_pass(composed: Composer, words: str) -> None:
    """Both sides of their differences must be the trainer's."""
    assert not composed(words.split()).algorithm.rollout_correction.bypass_mode
    with pytest.raises(ConfigError, match=re.escape("bypass_mode=true: a method reads")):
        check(composed([*words.split(), "correction=sampler_clip"]))


def test_the_checks_name_no_method() -> None:
    """A method declares what it cannot be combined with itself."""
    names = {*words(), *VERLS_LOSSES, *(name for slot in SLOTS.values() for name in slot)}
    for module in (methods, estimators):
        text = Path(module.__file__ or "").read_text(encoding="utf-8")
        assert names.isdisjoint(re.findall(r"\b[a-z]\w*_\w+\b|(?<=[\"=\[])[a-z]\w*(?=[\"\],])", text))


# ---- which algorithm, credit method and filter go together, as one table here says

A_TURN = set(SLOTS["credit"]) - {"aem", "aepo"}  # take one advantage a turn; these multiply what there is
BY_TOKEN = ("ppo", "reinforce_plus_plus")
ELSEWHERE = {"tree", "tree_q", "pair", "attempts", "rlvmr", "igpo", "role_norm"}  # with another form, env or roles
COMPARED = {"gigpo", "hgpo", "mt_grpo", "graft"}  # turns with each other
SCALED = {"zero_std", "dynamic_sampling"}  # filters after which group_scale has nothing left to do
CREDITS = [*((name,) for name in SLOTS["credit"]), *itertools.permutations(SLOTS["credit"], 2)]
FILTERS = [(), *((name,) for name in SLOTS["filter"])]


def declared(algo: str, credit: tuple[str, ...], filters: tuple[str, ...]) -> bool:
    """The declared table. A group has 8 samples, an episode one row, no episode branches off."""
    return (
        bool(ELSEWHERE & {*credit})
        or (algo in BY_TOKEN and bool(A_TURN & {*credit}))
        or (algo == "rloo" and bool({"gigpo", "hgpo"} & {*credit}))
        or ("hgpo" in credit and (credit[0] != "hgpo" or len(COMPARED & {*credit}) > 1))
        or (
            "group_scale" in credit and (credit[-1] != "group_scale" or algo == "lite_ppo" or bool(SCALED & {*filters}))
        )
    )


@pytest.mark.parametrize(("number", "algo"), enumerate(ALGORITHMS))
def test_what_is_refused_is_what_the_table_says(composed: Composer, number: int, algo: str) -> None:
    """Each credit method with each filter, and a share of the pairs of credit methods."""
    config = composed([f"{slot}=[{','.join(SLOTS[slot])}]" for slot in ("credit", "filter")])
    nodes = {slot: dict(config[slot].items()) for slot in ("credit", "filter")}
    config.algo.name = algo
    single, paired = CREDITS[: len(SLOTS["credit"])], CREDITS[len(SLOTS["credit"]) :]
    chosen = [*itertools.product(single, FILTERS), *((pair, ()) for pair in paired[number :: len(ALGORITHMS)])]
    for credit, filters in chosen:
        for slot, own in (("credit", credit), ("filter", filters)):
            config[slot] = {name: nodes[slot][name] for name in own}
        problem = next(methods.bad_methods(Run(config)), None)
        assert bool(problem) == declared(algo, credit, filters), (algo, credit, filters, problem)
