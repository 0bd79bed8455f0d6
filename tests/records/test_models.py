"""Where a model comes from: folders as runs leave them, and what is said where there is none."""

from pathlib import Path

import huggingface_hub
import pytest

from turngrid.config.base import ROOT
from turngrid.records.files.checkpoints import seal
from turngrid.records.models import locate
from turngrid.records.models.locate import ModelError, check_hub, check_packaged, local_folder, resolve_model, run_of
from turngrid.records.models.shape import tensors_in
from turngrid.train.app import main


def model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A finished run with SFT and two checkpoints, of which the newer was not saved whole."""
    folder = tmp_path / "runs" / "textworld-w4-o6-q8-s0"
    model(folder / "sft" / "model")
    for step in (5, 10):
        model(folder / "rl" / "checkpoints" / f"global_step_{step}" / "actor" / "huggingface")
    (folder / "rl" / "checkpoints" / "latest_checkpointed_iteration.txt").write_text("5")
    (folder / "attempts.jsonl").write_text("")
    (folder / "result.json").write_text("{}")
    return folder


def test_a_run_is_its_last_whole_checkpoint_or_its_sft_model(run: Path, tmp_path: Path) -> None:
    last = run / "rl" / "checkpoints" / "global_step_5" / "actor" / "huggingface"
    assert resolve_model(str(run), tmp_path) == str(last)
    assert resolve_model(f"run://{run}", tmp_path) == str(last)
    assert resolve_model(str(last.parents[1]), tmp_path) == str(last)
    assert resolve_model(str(run / "sft" / "model"), tmp_path) == str(run / "sft" / "model")
    (run / "rl" / "checkpoints" / "latest_checkpointed_iteration.txt").unlink()
    assert resolve_model(str(run), tmp_path) == str(run / "sft" / "model")


def test_relative_paths_become_absolute(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stages' processes work in the run folder."""
    monkeypatch.chdir(tmp_path)
    assert resolve_model(f"runs/{run.name}", tmp_path).startswith(f"{run}/")
    assert resolve_model(f"run://runs/{run.name}/sft/model", tmp_path) == str(run / "sft" / "model")


def test_a_run_that_has_not_ended_is_refused_with_its_checkpoint(run: Path, tmp_path: Path) -> None:
    (run / "result.json").unlink()
    with pytest.raises(ModelError, match=r"has not ended; .*model.path=.*global_step_5/actor/huggingface$"):
        resolve_model(str(run), tmp_path)
    assert resolve_model(str(run / "sft" / "model"), tmp_path)


def test_names_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_model("Qwen/Qwen2.5-0.5B-Instruct", tmp_path) == "Qwen/Qwen2.5-0.5B-Instruct"
    assert local_folder("gpt2") is None
    assert resolve_model("asset://tiny", tmp_path) == str(ROOT / "assets" / "tiny")


def test_what_is_not_there_is_refused_with_the_nearest(run: Path, tmp_path: Path) -> None:
    (run / "config.yaml").touch()
    run.with_name("textworld-w4-o6-q8-s11").mkdir()  # nearer, and neither a run nor a model
    with pytest.raises(ModelError, match=f"does not exist; use {run}$"):
        resolve_model(str(run.with_name("textworld-w4-o6-q8-s1")))
    with pytest.raises(ModelError, match="neither a model nor a run"):
        resolve_model(str(tmp_path))
    with pytest.raises(ModelError, match="no such asset; there are: tiny"):
        resolve_model("asset://tyni")


def test_weights_that_are_cut_short_are_refused(tmp_path: Path) -> None:
    whole = (ROOT / "assets" / "tiny" / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(ModelError, match="model.safetensors cannot be read"):
        list(tensors_in(tmp_path))


def test_which_run_a_model_comes_from(run: Path, tmp_path: Path) -> None:
    for path in (run, run / "sft" / "model", run / "rl" / "checkpoints" / "global_step_5"):
        assert run_of(str(path)) == run
    assert run_of("asset://tiny") is None
    assert run_of("Qwen/Qwen2.5-0.5B-Instruct") is None
    assert run_of(str(model(tmp_path / "elsewhere"))) is None


def test_a_model_that_the_hub_does_not_give_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str, timeout: float) -> None:
        raise OSError(f"no answer\nfrom {url} in {timeout} s")

    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", refuse)
    answer = r"no answer from https://huggingface.co/some/model/\S+ in 8.0 s; use model.path=FOLDER"
    with pytest.raises(ModelError, match=f"^model.path=some/model: {answer}"):
        check_hub("some/model")
    with pytest.raises(ModelError, match="model.path=two words: Repo id"):
        check_hub("two words")
    for path in ("asset://tiny", "packaged://smollm2_135m", str(tmp_path), f"run://{tmp_path}"):
        check_hub(path)  # what lies here is not asked for


def test_a_packaged_model_whose_package_is_missing_is_refused_before_a_run_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locate, "find_spec", lambda name: None)
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path / "cache"))
    assert main(["model=smollm2_135m", f"output_dir={tmp_path / 'runs'}"]) == 2
    assert "turngrid: model.path=packaged://smollm2_135m: " in (err := capfd.readouterr().err)
    assert all(pin in err for pin in (ROOT / "requirements" / "smollm2.txt").read_text().splitlines()[1:])
    assert list(tmp_path.iterdir()) == []
    seal(model(tmp_path / "cache" / "models" / "smollm2_135m"))
    check_packaged("packaged://smollm2_135m", tmp_path / "cache")


def test_such_a_run_ends_before_a_game_is_made(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Tests run offline: the question is refused."""
    runs = tmp_path / "runs"
    small = ["model.sft.tokens_per_pass=1024", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1"]
    folders = [f"output_dir={runs}", f"env.cache_dir={tmp_path / 'cache'}"]
    assert main(["model=qwen2.5_0.5b", "scale=laptop", *small, *folders]) == 2
    assert "turngrid: model.path=Qwen/Qwen2.5-0.5B-Instruct: " in capfd.readouterr().err
    assert not (tmp_path / "cache").exists()
    assert not [file for file in runs.rglob("*") if file.parent.name == "tasks"]
