"""An exported model: the run's logits in plain transformers, and its figures on the card."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from finished_run import ONE_OF_TWO, finish
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from turngrid.algorithms.chosen import Chosen, slots_of
from turngrid.algorithms.library.experience import EXAMPLE, Entry
from turngrid.config.compose import compose
from turngrid.experiments.evaluation.result import EvaluationResult, RunResult
from turngrid.experiments.export.__main__ import main
from turngrid.records.files.checkpoints import METHODS, MODEL, seal
from turngrid.records.provenance import Attempt
from turngrid.verl_plugin.shared_state import frozen_library

ROOT = Path(__file__).parents[2]
TINY = ROOT / "assets" / "tiny"
STEP = Path("rl/checkpoints/global_step_3")
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run whose RL changed every weight."""
    folder = finish(tmp_path / "a-run")
    for model in (folder / STEP / MODEL, folder / "sft" / "model"):
        shutil.copytree(TINY, model)
    weights = folder / STEP / MODEL / "model.safetensors"
    save_file({name: 1.5 * tensor for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    seal(folder / STEP)
    write_config(folder)
    Attempt("0123456789abcdef", False, {"verl": "0.9.1"}, 0.0).record(folder / "attempts.jsonl")
    result = RunResult.read(folder)
    figures = [EvaluationResult(name, "textworld", "w2-o3-q4", out_of_reach=0, **ONE_OF_TWO) for name in ("base", "rl")]
    replace(result, matrix=figures).write(folder)
    return folder


def write_config(folder: Path, *overrides: str) -> None:
    OmegaConf.save(compose(["model.path=Qwen/Qwen2.5-0.5B", *overrides]), folder / "config.yaml", resolve=True)


def logits(folder: Path) -> torch.Tensor:
    ids = AutoTokenizer.from_pretrained(folder)("you see a red box", return_tensors="pt").input_ids
    with torch.no_grad():
        return AutoModelForCausalLM.from_pretrained(folder)(ids).logits


def test_plain_transformers_gets_the_logits_of_the_checkpoint(run: Path, tmp_path: Path) -> None:
    """And vLLM samples as the run did: its defaults are those of the generation config."""
    file = run / STEP / MODEL / "generation_config.json"
    told = json.loads(file.read_text())
    file.write_text(json.dumps({**told, "do_sample": True, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05}))
    seal(run / STEP)
    out = tmp_path / "out"
    assert main([str(run), "--to", str(out)]) == 0
    assert torch.equal(logits(out), logits(run / STEP / MODEL)) and not torch.allclose(logits(out), logits(TINY))
    kept = json.loads((out / "generation_config.json").read_text())
    assert kept == {key: told[key] for key in ("eos_token_id", "pad_token_id")}
    assert not (out / "manifest.json").exists()


def test_the_card_says_what_the_run_found_and_the_form_how_it_asked(run: Path, tmp_path: Path) -> None:
    write_config(run, "+data.apply_chat_template_kwargs.enable_thinking=false", "env.window_turns=8")
    config = OmegaConf.load(run / "config.yaml")
    OmegaConf.update(config, "actor_rollout_ref.model.custom_chat_template", TEMPLATE)
    OmegaConf.save(config, run / "config.yaml")
    out = tmp_path / "out"
    assert main([f"run://{run}", "--to", str(out)]) == 0
    card = (out / "README.md").read_text()
    assert "base_model: Qwen/Qwen2.5-0.5B\n" in card.split("---")[1]
    assert "after imitation (SFT) and reinforcement learning (grpo, reward sparse)" in card
    assert "| **after RL** | textworld | `w2-o3-q4` | 0.4 | 50.0 [10.0, 90.0] | 2 | 1 (seed 0) |" in card
    assert "verl 0.9.1; commit `0123456789`" in card
    form = json.loads((out / "prompt_form.json").read_text())
    assert (form["env"], form["chat_template_kwargs"]) == ("textworld", {"enable_thinking": False})
    assert (form["env.window_turns"], form["data.max_response_length"]) == (8, 1024) and "roles" not in form
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hello"}], tokenize=False) == "<user>hello"
    shutil.copytree(run, run.with_name("first"))
    for path, whose in ((run.with_name("first"), "The model of run `first`"), (tmp_path / "qwen", "\n`qwen`")):
        write_config(run, f"model.path={path}")
        assert main([str(run), "--to", str(tmp_path / f"from {path.name}")]) == 0
        card = (tmp_path / f"from {path.name}" / "README.md").read_text()
        assert f"{whose} after imitation" in card and ("base_model: Qwen/Qwen2.5-0.5B\n" in card) == ("run" in whose)


def test_a_library_goes_along(run: Path, tmp_path: Path) -> None:
    words = ("algo=slea_rl", "library.experience.warmup=3", "library.experience.least=0")
    write_config(run, *words)
    methods = Chosen(slots_of(compose([*words])))
    methods.of("library", 1)["experience"].admit([Entry("take key", EXAMPLE, 1.0, "a locked door")])
    torch.save(methods.state(), run / STEP / METHODS)
    seal(run / STEP)
    assert main([str(run), "--to", str(tmp_path / "out")]) == 0
    (tmp_path / "elsewhere").mkdir()
    out = (tmp_path / "out").rename(tmp_path / "elsewhere" / "model")
    shutil.rmtree(run)
    library = frozen_library(str(out))
    assert "take key" in library.look_up("t", "a locked door", 0) and library.step == 4
    assert "`library=experience`" in (out / "README.md").read_text()


def test_a_checkpoint_that_was_not_evaluated_says_so(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / STEP, run / STEP.with_name("global_step_1"))
    assert main([str(run / STEP.with_name("global_step_1")), "--to", str(tmp_path / "out")]) == 0
    assert "Not measured: the run evaluated its last" in (tmp_path / "out" / "README.md").read_text()
    (run / "result.json").unlink()
    assert main([str(run / "sft" / "model"), "--to", str(tmp_path / "early")]) == 0
    assert "Not measured: the run had not finished" in (tmp_path / "early" / "README.md").read_text()


def test_what_cannot_be_exported_is_refused(run: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    to = ["--to", str(tmp_path / "out")]
    assert "required: --to" in refused(main, [str(run)])
    assert "; use " in refused(main, [f"{run}s", *to])
    assert "lies in no run folder" in refused(main, [str(TINY), *to])
    assert "name a new folder" in refused(main, [str(run), "--to", str(run)])
    weights = run / STEP / MODEL / "model.safetensors"
    save_file({"model.q_proj.base_layer.weight": torch.zeros(1)}, weights)
    assert "bytes instead of" in refused(main, [str(run / STEP), *to])
    seal(run / STEP)
    assert "name another checkpoint" in refused(main, [str(run), *to])
    assert [path.name for path in tmp_path.iterdir()] == ["a-run"]
