"""Every method trains for ten steps without a NaN, and killed in the tenth (kill -9) it ends with the same bits.

    python -m pytest -n 0 -m slow tests/experiments/test_methods_killed.py -k spear

The run is killed once its tenth step is saved. Its folder is put aside, that checkpoint taken away, as where the kill came before
it was written, and the same command goes on from the fifth step.
"""

from __future__ import annotations

import math
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import small
import torch
from safetensors.torch import load_file, save_file
from test_kill_matrix import same

from config.base import CONF
from records.files.manifest import MANIFEST

pytestmark = pytest.mark.slow
SAVED, STEPS = 5, 10
OVERRIDES = (
    "budget=rl_only",
    "budget.sft_share=0",
    f"budget.rl_steps={STEPS}",
    "budget.units=40",
    f"trainer.save_freq={SAVED}",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "eval.games=2",
)
PRICES = "shaping=[invalid_action]"  # or most groups of the small model would have equal scores
ALGO = {  # words beside algo=NAME
    "spear": (
        "filter=[void_turns]",
        "filter.void_turns.void=invalid",
        "terms=[epo]",
        "buffer.self_imitation.capacity=4",
    ),
    "dapo": (PRICES, "filter.dynamic_sampling.batches=2"),
    "distill": ("algo.teacher={teacher}",),
    "tree_grpo": (PRICES, "rollout_form.tree.nodes=2"),
    "supo": (PRICES, "rollout_form.summary.tokens=280", "rollout_form.summary.length=12"),
    "mem1": (PRICES, "rollout_form.mem1.length=12"),
    "g_ra": ("shaping.g_ra.levels=[{reward: parsed, gate: 1}, {reward: valid}]",),
    "loop": (PRICES, "actor_rollout_ref.actor.ppo_mini_batch_size=2"),
    **dict.fromkeys(("hiper", "rlvmr", "gigpo"), ()),
}
SLOT = {  # options that no algo= chooses, those without a state several at once
    "prefix": ("algo=rloo", PRICES, "rollout_form=prefix"),
    "tcod": ("algo=grpo", PRICES, "rollout_form=tcod", "rollout_form.tcod.every=3"),
    "retry": ("algo=grpo", PRICES, "rollout_form=retry"),
    "task_replay": ("algo=grpo", PRICES, "buffer=task_replay", "budget.units=8", "env.task=w2-o3-q2"),
    "credits": ("algo=grpo", PRICES, "credit=[mt_grpo,empg,aem]", "credit.aem.sharpness={linear:[0.5,1,10]}"),
    "filters": ("algo=grpo", "shaping=[invalid_action,overlong]", "filter=[zero_std,difficulty,over_turns]"),
    "turn_clip": ("algo=grpo", PRICES, "credit=[salt]", "loss=turn_clip", "terms=[epo]"),
}
CASES = {
    **{path.stem: (f"algo={path.stem}", *ALGO.get(path.stem, (PRICES,))) for path in sorted(CONF.glob("algo/*.yaml"))},
    **SLOT,
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.timeout(1200)
def test_a_method_trains_and_a_killed_run_ends_as_an_unbroken_one(name: str, tmp_path: Path) -> None:
    words = (*OVERRIDES, *(word.replace("{teacher}", str(_teacher(tmp_path))) for word in CASES[name]))
    whole = _killed_after_the_last_step(tmp_path, words)
    kept = Path(shutil.copytree(whole, tmp_path / "unbroken"))
    metrics = small.lines(kept / "metrics.jsonl")
    assert [line["step"] for line in metrics] == list(range(1, STEPS + 1))
    assert not [(line["step"], key) for line in metrics for key, value in line.items() if not _finite(value)]
    assert _learned(kept)
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
    small.wait_for(lambda: bool(list(output.glob(last))) or process.poll() is not None, 1000)
    assert process.poll() is None, (output / "stdout.txt").read_text()[-3000:]
    small.kill(process)
    return small.run_folder(output) / "rl"


def _finite(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _learned(rl: Path) -> bool:
    """Else equal bits would show nothing."""
    first, last = (_content(_checkpoint(rl, step) / "actor/huggingface/model.safetensors") for step in (SAVED, STEPS))
    return first != last


def _checkpoint(rl: Path, step: int) -> Path:
    return rl / "checkpoints" / f"global_step_{step}"


def _content(file: Path) -> Any:
    """Bytes; of what torch saved those of each tensor, since the pickle beside them holds hashes that each process salts anew."""
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
    states = [folder / "methods.pt" for folder in (_checkpoint(ours, STEPS), _checkpoint(theirs, STEPS))]
    if states[0].exists():
        assert same(*(torch.load(state, weights_only=True) for state in states))
