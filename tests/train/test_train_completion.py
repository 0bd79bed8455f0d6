"""TAB, as shells that really run complete it, and that nothing is offered which would be refused."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import shutil
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest
from hydra._internal.utils import get_args_parser
from omegaconf import OmegaConf

from config import base, suggest
from config.compose import compose
from envs.catalogue import SPLITS
from experiments.evaluate import Options
from train.completion import candidates, settings
from train.completion.__main__ import main
from train.completion.candidates import completions
from train.completion.shells import MODULES
from train.play.settings import PlaySettings

QUERY = [sys.executable, "-P", "-m", "train.completion", "query"]
LINES = {
    "turngrid-train al": ["algo.", "algo=", "algorithm."],
    "turngrid-train algo=": [f"algo={name}" for name in suggest.groups()["algo"]],
    "turngrid-train -m algo=ppo,r": ["algo=ppo,reinforce_plus_plus", "algo=ppo,rloo", "algo=ppo,rlvmr"],
    "turngrid-train -m algo=ppo,grpo,r": [
        "algo=ppo,grpo,reinforce_plus_plus",
        "algo=ppo,grpo,rloo",
        "algo=ppo,grpo,rlvmr",
    ],
    "turngrid-train actor_rollout_ref.rollout.n": [
        "actor_rollout_ref.rollout.n=",
        "actor_rollout_ref.rollout.n_gpus_per_node=",
        "actor_rollout_ref.rollout.name=",
        "actor_rollout_ref.rollout.nnodes=",
    ],
    "turngrid-train actor_rollout_ref.rollout.n=": ["actor_rollout_ref.rollout.n=8"],
    "turngrid-train scale=paper algo=ppo actor_rollout_ref.rollout.n=": ["actor_rollout_ref.rollout.n=1"],
    "turngrid-train env=textarena env.i": ["env.id="],
    "turngrid-train env.i": [],
    "turngrid-train env=tw_simple env.task=": ["env.task=tw-simple"],
    "turngrid-train fresh=": ["fresh=false", "fresh=true"],
    "turngrid-train env=no_such_world see": ["seed="],
    "turngrid-train +rec": ["+recipe="],
    "turngrid-train ~rec": ["~recipe="],
    "python3 -m train -m swe": ["sweep="],
    ".venv/bin/python -P -m train --cf": ["--cfg"],
    "turngrid-train --cfg j": ["job"],
    "turngrid-train --package model.s": ["model.sft."],
    "turngrid-train 'algo=ppo' bud": ["budget.", "budget="],
    "turngrid-train output_dir=/tm": [],  # the shell's own names of files
    "cd x; X=1 turngrid-play spl": ["split="],
    "python -m train.play split=te": ["split=test", "split=test_paper"],
    "turngrid-evaluate e": [
        "endpoint=",
        "endpoint_model=",
        "endpoint_tools=",
        "env.",
        "env=",
        "estimate=",
        "estimate_gpu=",
        "eval.",
        "expert",
    ],
}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where keys are kept, with those of the default config in it."""
    place = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNGRID_CACHE", str(place))
        settings.keys([])
        yield place


@pytest.mark.parametrize("line", LINES)
def test_what_a_line_may_go_on_with(line: str) -> None:
    assert completions(line) == LINES[line]


def test_every_sweep_and_recipe_is_offered() -> None:
    for key, folder in (("sweep", "sweeps"), ("recipe", "recipes")):
        files = sorted(file.stem for file in (base.ROOT / folder).glob("*.yaml"))
        assert completions(f"turngrid-train {key}=") == [f"{key}={name}" for name in files] != []


def test_letters_at_which_the_shell_parts_words_are_left_out() -> None:
    assert completions("turngrid-train algo=ppo,grp", "\"'><=;|&(:") == ["ppo,grpo"]


def test_what_is_offered_exists() -> None:
    base.register()
    assert settings.groups() == suggest.groups()
    parser = get_args_parser()._option_string_actions
    assert {flag for flags in candidates.FLAGS.values() for flag in flags} <= set(parser)
    assert candidates.OWN["play"] == ("watch", "delay", "split", "game") and set(candidates.OWN["play"]) == set(
        vars(PlaySettings())
    )
    assert list(candidates.OWN["evaluate"]) == [field.name for field in fields(Options)]
    assert {text.partition("=")[2] for text in completions("turngrid-play split=")} == set(SPLITS)
    config = compose([])
    for key, values in settings.keys([]).items():
        node = OmegaConf.select(config, key.rpartition(".")[0]) if "." in key else config
        assert key.rpartition(".")[2] in list(node.keys())  # a key without a value is not "in" it
        assert len(values) < 3
    for key in [key for key in candidates.CHOICES if "." in key]:
        assert OmegaConf.select(config, key) in (None, *candidates.CHOICES[key])


def test_a_folder_of_ones_own_brings_its_options(tmp_path: Path) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "mine.yaml").write_text("# @package _global_\nbudget: {name: mine, sft_share: 0.25}\n")
    line = f"turngrid-train --config-dir {tmp_path} budget"
    assert "budget=mine" in completions(f"{line}=")
    assert completions(f"{line}=mine budget.sft_share=") == ["budget.sft_share=0.25"]


def test_keys_are_composed_once_and_again_after_a_change(cache: Path, tmp_path: Path) -> None:
    before = set((cache / "completion").iterdir())
    settings.keys(["algo=ppo"])
    (new,) = set((cache / "completion").iterdir()) - before
    new.write_text(json.dumps({"kept": []}))
    assert settings.keys(["algo=ppo"]) == {"kept": []}
    (tmp_path / "algo").mkdir()
    (tmp_path / "algo" / "mine.yaml").write_text("# @package _global_\nalgo: {name: ppo}\n")
    assert "env.task" in settings.keys(["algo=ppo"], str(tmp_path))
    new.unlink(missing_ok=True)
    settings.keys([])  # the fixture's, whose place the other stamp took


def test_a_tab_costs_less_than_a_second_and_imports_nothing_heavy(tmp_path: Path) -> None:
    """Of a processor; the first one, which composes, a second and a half."""
    environment = {**os.environ, "PYTHONPATH": str(base.ROOT), "TURNGRID_CACHE": str(tmp_path)}
    for most in (5, 2):  # a busy machine's processors are slower than an idle one's
        start = _seconds()
        done = subprocess.run(
            [*QUERY, "turngrid-train env.", ""], env=environment, capture_output=True, text=True, check=True
        )
        assert "env.max_turns=" in done.stdout.splitlines()
        assert _seconds() - start < most
    heavy = "import sys, train.completion.candidates as c; c.completions('turngrid-train env=alfworld env.');" + (
        "print([m for m in ('torch', 'verl', 'ray', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", heavy], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


STARTS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], ". {file}\n"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit && compinit -u -D; . {file}\n"),
}
TYPED = {  # up to the TAB -> the whole line after it
    "turngrid-train algo=grp": "turngrid-train algo=grpo",
    "turngrid-train seed=0 recip": "turngrid-train seed=0 recipe=",
    "turngrid-train -m sweep=table1_": "turngrid-train -m sweep=table1_complexity",
    "python -m train trainer.save_f": "python -m train trainer.save_freq=",
    "turngrid-play split=trai": "turngrid-play split=train",
}


@pytest.mark.parametrize("shell", STARTS)
def test_tab_at_a_real_prompt(shell: str, tmp_path: Path, cache: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    script = subprocess.run([*QUERY[:-1], shell], capture_output=True, text=True, check=True, cwd=base.ROOT)
    file = tmp_path / "completion"
    file.write_text(script.stdout)
    command, reads = STARTS[shell]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PS1": "$ ", "TURNGRID_CACHE": str(cache), "HOME": str(tmp_path)}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    try:
        os.write(ours, f"{reads.format(file=file)}echo it is {'re' + 'ad'}\n".encode())
        _until(ours, "it is read\r")
        for typed, line in TYPED.items():
            os.write(ours, f"{typed}\t".encode())
            _until(ours, line)
            os.write(ours, b"\x15")  # Ctrl-U: an empty line
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_fish_offers_the_same(tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish here")
    script = subprocess.run([*QUERY[:-1], "fish"], capture_output=True, text=True, check=True, cwd=base.ROOT).stdout
    asks = "".join(f"complete -C '{typed}'\n" for typed in TYPED)
    fish = ["fish", "--no-config", "-c", script + "\n" + asks]
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(fish, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines() == [line.rpartition(" ")[2] for line in TYPED.values()]


def _until(terminal: int, text: str) -> None:
    """Read what is shown until ``text`` is there; escape sequences are left out."""
    shown, deadline = "", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1.0)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")
        if text in re.sub(r"\x1b[\[\]][0-9;?]*[A-Za-z]|[\b\x07]", "", shown):
            return
    raise AssertionError(f"{text!r} never came: {shown!r}")


def test_another_command_of_pythons_is_left_alone(tmp_path: Path) -> None:
    """What was registered for python before is asked; ours answers for our modules alone."""
    script = subprocess.run([*QUERY[:-1], "bash"], capture_output=True, text=True, check=True, cwd=base.ROOT).stdout
    ask = "COMP_LINE='python -m {0} ' COMP_POINT=${{#COMP_LINE}}; COMPREPLY=(); _turngrid_python; echo ${{COMPREPLY[0]}}\n"
    program = "theirs() { COMPREPLY=(theirs); }\ncomplete -F theirs python\n" + script + "\n" + script + "\n"
    program += ask.format("http.server") + "".join(
        f"[[ ' -m {name} ' =~ {pattern} ]] && echo {name}\n"
        for name in MODULES
        for pattern in re.findall(r"=~ (\S+) \]\]; then", script)
    )
    done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["theirs", *MODULES], done.stderr


def test_the_command_itself(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert 'eval "$(turngrid-completion bash)"' in capfd.readouterr().out
    assert main(["csh"]) == 2
    out, err = capfd.readouterr()
    assert out == "" and "one of bash, zsh, fish" in err
