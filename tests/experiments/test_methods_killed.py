"""Every method trains for ten steps without a NaN; killed in the tenth it ends with the same bits.

    python -m pytest -n 0 -m slow tests/experiments/test_methods_killed.py -k spear

The checkpoint of the tenth step is taken away, as if the kill came before it was written, and the
same command goes on from the fifth step.
"""

import math
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import small
import torch
from safetensors.torch import load_file, save_file
from test_kill_matrix import same

from turngrid.algorithms.registry import ALGO, ALGORITHMS, ESTIMATORS, SLOTS, VERLS_LOSSES, base_of
from turngrid.config.base import CONF
from turngrid.records.files.checkpoints import MANIFEST

SAVED, STEPS = 5, 10
OVERRIDES = ("budget=rl_only", "budget.sft_share=0", f"budget.rl_steps={STEPS}", "budget.units=40", "eval.games=2")
OVERRIDES += (f"trainer.save_freq={SAVED}", "actor_rollout_ref.actor.ppo_mini_batch_size=4")
AEM = "credit.aem.sharpness={linear:[0.5,1,10]}"
PRICES = "shaping=[invalid_action]"  # or most groups of the small model would have equal scores
REPLAYS = ("terms=[epo]", "buffer.self_imitation.capacity=2")  # as soon as it has 4: some from before the kill
SUMMARIES = ("rollout_form=summary", "rollout_form.summary.tokens=280", "rollout_form.summary.length=12")
# In which any words are a legal answer, so that both seats act
MATCHES = ("env=two_player", "env.id=SimpleNegotiation-v0", "model=tiny_all", "shaping=[cosine_length]")
MATCHES += ("data.max_prompt_length=640", "data.max_response_length=1408")
OPPONENTS = ("rollout_form.self_play.opponent={self: 1, past: 1, random: 1}", "rollout_form.self_play.past_every=2")
ROLES = (  # all of them, in one graph: a verifier, a planner, an actor, a proposer and a checker answer every turn
    "roles=[verifier,planner,actor,proposer,checker,searcher,answerer]",
    "roles.verifier.next={yes: answerer, otherwise: planner}",
    "roles.actor.next={replan: searcher, otherwise: proposer}",
)
GATED = ("shaping=[g_ra]", "shaping.g_ra.levels=[{reward: parsed, gate: 1}, {reward: valid}]")
EXPERIENCE = ("library.experience.warmup=1", "library.experience.least=2")
SKILLS = ("terms=[self_distill]", "terms.self_distill.hint=skill")
CASES = {  # options that have no state share a run
    "spear": ("algo=spear", "filter=[std_top,dr_bot,void_turns]", "filter.void_turns.void=invalid", *REPLAYS),
    "dapo": ("algo=dapo", "shaping=[invalid_action,overlong]", "credit=[mt_grpo,empg,aem]", AEM),
    "graft": ("algo=graft", PRICES, "credit=[graft,salt]", "filter=[zero_std,difficulty]", "loss=turn_clip"),
    "hiper": ("algo=hiper",),
    "rlvmr": ("algo=rlvmr", "loss=cispo"),
    "supo": ("algo=turn_ppo", "algo.value_at=first", PRICES, "filter=[over_turns]", *SUMMARIES),
    "mem1": ("algo=mem1", PRICES, "rollout_form.mem1.length=12"),
    "tcod": ("algo=distill", "algo.teacher=TEACHER", "rollout_form=tcod", "rollout_form.tcod.every=3"),
    "seeupo": ("algo=seeupo", PRICES, "prompt.history=2"),
    "semi_online": ("algo=semi_online", "algo.threshold=0", "rollout_form.semi_online.accept=same_after"),
    "ufo": ("algo=ufo", "shaping=[try_again,invalid_action]", "env.max_turns=2", "rollout_form.attempts.attempts=3"),
    "score": ("algo=score", "shaping=[improvement,invalid_action]", "env.max_turns=3"),
    "retry": ("algo=step_ppo", PRICES, "rollout_form=retry"),
    "tree": ("algo=tree_grpo", PRICES, "rollout_form.tree.nodes=2"),
    "tree_q": ("algo=tree_grpo", PRICES, "credit=[tree_q]", "rollout_form.tree.nodes=2"),
    "slea_rl": ("algo=slea_rl", PRICES, "prompt.history=2", *EXPERIENCE),
    "skill_sd": ("algo=loop", PRICES, *SKILLS, "budget.units=8", "env.task=w2-o3-q2"),
    "refuel": ("algo=refuel", PRICES, "rollout_form.tree.trees=2"),
    "arpo": ("algo=loop", PRICES, "rollout_form=arpo", "loss=dr_grpo", "actor_rollout_ref.actor.ppo_mini_batch_size=2"),
    "aepo": ("algo=lite_ppo", PRICES, "rollout_form=aepo", "credit=[aepo]", "loss=aepo_clip"),
    "vapo": ("algo=vapo", "shaping=[f1,invalid_action]", "filter=[entropy_turns]"),
    "bi_level_gae": ("algo=bi_level_gae", PRICES, "filter=[std_top_p]"),
    "task_replay": ("algo=rapo", PRICES, "filter.solved.share=0.5", "budget.units=8", "env.task=w2-o3-q2"),
    "hgpo": ("algo=hgpo", "loss=gspo", *GATED),
    "infopo": ("algo=infopo", "shaping=[cosine_length,invalid_action]", "terms=[self_distill]"),
    "igpo": ("algo=igpo", "env=search", "env.task=h1", "env.worlds=2", "env.passages=120", "budget.units=8"),
    "spiral": ("algo=spiral", *MATCHES, *OPPONENTS),
    "marshal": ("algo=marshal", *MATCHES),
    "dr_mas": ("algo=dr_mas", PRICES, *ROLES),
    "prefix": ("algo=reinforce_plus_plus", PRICES, "rollout_form=prefix", "filter=[std_min_p]"),
}
# What a step after the kill tells of a method that need not do anything
ACTED = {
    "spear": "buffer/self_imitation/replayed",
    "task_replay": "buffer/task_replay/replaced",
    "dapo": "filter/dynamic_sampling/replaced",
    "retry": "rollout/guided",
    "spiral": "rollout/match/past/seat_0/drawn",
    "marshal": "rollout/match/self/seat_0/drawn",
    **dict.fromkeys(("ufo", "score"), "rollout/plays"),
    "dr_mas": "rollout/role/checker/turns",
    "semi_online": "rollout/patches",
    "seeupo": "actor/turn_factor",
    "slea_rl": "library/found",
    "skill_sd": "rollout/contexts",
    **dict.fromkeys(("infopo", "igpo"), "rollout/contexts"),
    **dict.fromkeys(("supo", "mem1"), "rollout/summaries"),
    **dict.fromkeys(("tcod", "prefix"), "rollout/replayed_tokens"),
    **dict.fromkeys(("tree", "tree_q", "refuel", "arpo", "aepo"), "rollout/shared_tokens"),
}


def test_every_method_has_a_case() -> None:
    """In its words or in the file of its algorithm."""
    text = "\n".join(word for words in CASES.values() for word in words)
    algorithms = re.findall(r"^algo=(\w+)", text, re.MULTILINE)
    text += "\n" + "\n".join((CONF / ALGO / f"{name}.yaml").read_text(encoding="utf-8") for name in algorithms)
    assert {base_of(name) for name in algorithms} == {*ALGORITHMS, *ESTIMATORS}
    for slot, known in SLOTS.items():
        named = " ".join(re.findall(rf"^(?:  - override /)?{slot}(?:=|: )([^#\n]*)", text, re.MULTILINE))
        wanted = {*known, *(VERLS_LOSSES if slot == "loss" else ())} - {"linear"}
        assert wanted <= {*re.findall(r"\w+", named)}, slot


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.timeout(1200)
def test_a_method_trains_and_a_killed_run_ends_as_an_unbroken_one(name: str, tmp_path: Path) -> None:
    words = (*OVERRIDES, *(word.replace("TEACHER", str(_teacher(tmp_path))) for word in CASES[name]))
    whole = _killed_after_the_last_step(tmp_path, words)
    kept = Path(shutil.copytree(whole, tmp_path / "unbroken"))
    metrics = small.lines(kept / "metrics.jsonl")
    assert [line["step"] for line in metrics] == list(range(1, STEPS + 1))
    numbers = {(line["step"], key): line[key] for line in metrics for key in line if isinstance(line[key], float)}
    assert not [place for place, value in numbers.items() if not math.isfinite(value)]
    before, after = (_checkpoint(kept, step) / "actor/huggingface/model.safetensors" for step in (SAVED, STEPS))
    assert before.read_bytes() != after.read_bytes(), "nothing was learned: equal bits would show nothing"
    assert name not in ACTED or any(line.get(ACTED[name]) for line in metrics[SAVED:])
    shutil.rmtree(whole / "checkpoints" / f"global_step_{STEPS}")
    assert_same(_killed_after_the_last_step(tmp_path, words), kept)


def _teacher(folder: Path) -> Path:
    """The policy, a little off: from one that thinks the same nothing is learned."""
    place = folder / "teacher"
    if not place.exists():
        shutil.copytree(small.ROOT / "assets" / "tiny", place)
        weights, draw = load_file(place / "model.safetensors"), torch.Generator().manual_seed(0)
        noisy = {name: one * (1 + 0.05 * torch.randn(one.shape, generator=draw)) for name, one in weights.items()}
        save_file(noisy, place / "model.safetensors", metadata={"format": "pt"})
    return place


def _killed_after_the_last_step(output: Path, words: tuple[str, ...]) -> Path:
    process = small.launch(output, *words)
    last = f"*/rl/checkpoints/global_step_{STEPS}/{MANIFEST}"
    small.wait_in(process, output, lambda: bool(list(output.glob(last))), 1000)
    small.kill(process)
    return small.run_folder(output) / "rl"


def _checkpoint(rl: Path, step: int) -> Path:
    return rl / "checkpoints" / f"global_step_{step}"


def _content(file: Path) -> Any:
    """Bytes; of torch's files those of each tensor: the pickle beside them has salted hashes."""
    if not zipfile.is_zipfile(file):
        return file.read_bytes()
    with zipfile.ZipFile(file) as parts:
        return {name: parts.read(name) for name in parts.namelist() if "/data/" in name}


def _contents(folder: Path) -> dict[str, Any]:
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != MANIFEST]
    return {file.relative_to(folder).as_posix(): _content(file) for file in files}


def assert_same(ours: Path, theirs: Path) -> None:
    for step in range(1, STEPS + 1):
        name = f"episodes/{step:06d}.jsonl"
        assert small.without_clocks(ours / name) == small.without_clocks(theirs / name), name
    told, wanted = (small.comparable(small.lines(rl / "metrics.jsonl")) for rl in (ours, theirs))
    assert told == wanted
    found, saved = (_contents(_checkpoint(rl, STEPS)) for rl in (ours, theirs))
    assert found.keys() == saved.keys() and not [file for file in found if found[file] != saved[file]]
    for kept in ("credit", "replayed"):
        assert _contents(ours / kept) == _contents(theirs / kept), kept
    states = [folder / "methods.pt" for folder in (_checkpoint(ours, STEPS), _checkpoint(theirs, STEPS))]
    if states[0].exists():
        assert same(*(torch.load(state, weights_only=True) for state in states))
