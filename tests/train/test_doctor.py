"""The doctor: it finds nothing in a healthy run, and tells each fault by its name."""

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from turngrid.config.base import ROOT
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.stream import assistant, user
from turngrid.train.doctor import __main__ as doctor
from turngrid.train.doctor import findings
from turngrid.train.doctor.findings import ADAPTER, APART, DTYPE, HIGH, NO_PROOF, STALE, TEMPLATE, Step

SMALL = ("env.max_turns=4", "cluster.start_deadline_s=600")


@pytest.mark.parametrize("words", [["-m"], ["--cfg", "job"], ["model=tinny"], ["actor_rollout_ref.rollout.n=0"]])
def test_what_is_refused_before_anything_starts(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doctor.main([*words, f"output_dir={tmp_path}/runs"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("turngrid: ") and not list(tmp_path.iterdir())


def test_a_template_that_is_not_the_models_own_is_named() -> None:
    tokenizer = AutoTokenizer.from_pretrained(ROOT / "assets" / "tiny")
    said = [user("a door."), assistant("open it"), user("a room.")]
    parts = [
        tokenizer.apply_chat_template(said[:n], add_generation_prompt=n != 2, return_dict=False) for n in (1, 2, 3)
    ]
    turn = Turn("a door.", "open it", [7, tokenizer.eos_token_id], [-0.1, -0.1], parts[2][len(parts[1]) :])
    episode = Episode("doors/1", 1, "train", "", said, parts[0], [turn], Outcome.WON)
    assert findings.of_template([episode], tokenizer, {}) == (2, [])
    tokenizer.chat_template = tokenizer.chat_template.replace("message['role']", "'tool'")
    _, (fault,) = findings.of_template([episode], tokenizer, {})
    assert fault.name == TEMPLATE and "its own template has '<|im_start|>tool" in fault.shown_by


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
