"""The doctor: it finds nothing in a healthy run, and tells each fault by its name."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from turngrid.config.base import ROOT
from turngrid.train.doctor import __main__ as doctor
from turngrid.train.doctor import findings
from turngrid.train.doctor.findings import ADAPTER, APART, DTYPE, HIGH, NO_PROOF, STALE, TEMPLATE, Step

HERE = Path(__file__).parent
SMALL = ("env.max_turns=2", "cluster.start_deadline_s=600")
TINY = ROOT / "assets" / "tiny"
OTHER = (TINY / "chat_template.jinja").read_text(encoding="utf-8").replace("message['role']", "'tool'")


@pytest.mark.timeout(1800)
def test_faults_by_their_names_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run with LoRA. Its chat template is not the model's; its first step is healthy otherwise,
    and each of the others has one fault."""
    (tmp_path / "sitecustomize.py").write_text("import doctor_faults\ndoctor_faults.install()\n", encoding="utf-8")
    places = (tmp_path, HERE, ROOT.parent, os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, places)))
    monkeypatch.setenv("DOCTOR_FAULTS", json.dumps({"1": "dtype", "2": "adapter", "3": "stale"}))
    monkeypatch.setattr(doctor, "STEPS", 4)
    template = f'actor_rollout_ref.model.custom_chat_template="{OTHER}"'
    assert doctor.main([*SMALL, template, "model=tiny", "model.lora_rank=8", f"output_dir={tmp_path}/runs"]) == 1
    out = capsys.readouterr().out
    print(out)
    named = [line.split(": ")[0] for line in out.split("\n\n")[-1].splitlines()]
    assert named == [TEMPLATE, f"{DTYPE} (step 2)", f"{ADAPTER} (step 3)", f"{STALE} (step 4)", "found"]

    (folder,) = (tmp_path / "runs").iterdir()
    seen, episodes = findings.read_steps(folder)
    assert not list(findings.of_steps(seen[:1], FP32)) and seen[0].moved > 0.5
    tokens = sum(len(turn.action_ids) for episode in episodes[:8] for turn in episode.turns)
    assert set(seen[0].turn) == {0, 1} and len(seen[0].turn) == tokens
    tokenizer = AutoTokenizer.from_pretrained(TINY, chat_template=OTHER)
    compared, wrong = findings.of_template(episodes, tokenizer, {})
    assert compared > 4 * 8 and not wrong
    assert "the model saw '<|im_start|>tool" in out and "its own template has '<|im_start|>user" in out


@pytest.mark.parametrize(
    "words", [["-m"], ["cluster=slurm"], ["--cfg", "job"], ["model=tinny"], ["actor_rollout_ref.rollout.n=0"]]
)
def test_refused_before_anything_starts(
    words: list[str], tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert refused(doctor.main, [*words, f"output_dir={tmp_path}/runs"]) and not list(tmp_path.iterdir())


def test_what_a_fault_advises_can_be_typed() -> None:
    words = re.findall(r"[\w.]+=\w+", " ".join(findings.USE.values()))
    assert len(words) > 3 and doctor.check(doctor.compose(words)) is not None


def test_all_tokens_are_compared_on_one_node() -> None:
    """Rows that a correction rejects would be missing, and Ray would wait for the other nodes."""
    words = ["cluster=slurm_multinode", "correction=geometric_tis"]
    own = doctor.settings(doctor.compose(words))
    config = doctor.compose([words[0], *(f"{key}={value}" for key, value in own.items())])
    assert doctor.check(config) is not None and config.algorithm.rollout_correction.rollout_rs is None
    assert (config.trainer.nnodes, config.ray_kwargs.ray_init.address) == (1, "local")
    assert config.data.train_batch_size == 1, "a group of 8 episodes for 8 GPUs"
    assert doctor.settings(doctor.compose(["algo=tree_grpo", "scale=paper"]))[f"{doctor.ROLLOUT}.n"] == 6


@pytest.mark.slow
def test_a_healthy_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main([*SMALL, "model=tiny", "precision=bf16", f"output_dir={tmp_path}"]) == 0
    out = capsys.readouterr().out
    print(out)
    assert out.endswith("no fault found\n") and "torch 2" in out and "GB; the estimate is" in out
    assert not list(tmp_path.iterdir())


def steps(*apart: float, moved: float = 0.5, version: int = 1, base: float | None = None) -> list[Step]:
    """Steps of which server and trainer are so many nats apart, at probability 1/2."""
    before = np.full(100, np.log(0.5))
    made = []
    for number, difference in enumerate(apart, 1):
        without = None if base is None else before + base
        columns = (np.arange(100) // 25, before + difference, before, before + moved, without)
        made.append(Step(number, min(version, number - 1), *columns))
    return made


BF16, FP32 = ("bfloat16", "bfloat16"), ("float32", "float32")


@pytest.mark.parametrize(
    ("seen", "dtypes", "names"),
    [
        (steps(0.009, 0.009), BF16, []),
        (steps(0.015, 0.015), BF16, [HIGH, HIGH]),  # half of it in probability
        (steps(0.03, 0.03), BF16, [APART, APART]),
        (steps(0.0, 0.4), BF16, [STALE]),
        (steps(0.0, 0.0, version=0), BF16, [STALE]),
        (steps(0.0, 0.4, base=0.39), BF16, [ADAPTER]),
        (steps(0.0, 0.001, moved=0.002), BF16, [NO_PROOF]),
        (steps(1e-5, 1e-5), FP32, []),
        (steps(1e-5, 1e-3), FP32, [DTYPE]),
        (steps(0.03), ("bfloat16", "float16"), [DTYPE]),
    ],
)
def test_what_the_numbers_mean(seen: list[Step], dtypes: tuple[str, str], names: list[str]) -> None:
    assert [finding.name for finding in findings.of_steps(seen, dtypes)] == names
