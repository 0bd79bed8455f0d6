"""Overrides that could be typed are refused by their key, or make a config of the same kinds.

``TURNGRID_FUZZ_SEED=7`` before pytest draws others.
"""

import os
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from turngrid.config import compose
from turngrid.config.suggest import groups
from turngrid.records.run_folder import flattened, run_name
from turngrid.train import app

SEED = os.environ.get("TURNGRID_FUZZ_SEED", "0")
DRAWN = 25  # overrides of a chunk
CHUNKS = [0, *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in range(1, 40))]
# fmt: off
VALUES = (
    "0", "1", "-1", "7", "0.5", "1.5", "-0.001", "1e-400", "1e30", "1e400", "99999999999999999999", "nan", "-inf",
    "1_000", "0x10", "007", "--1", ".5", "1/2", "١", "10%", "seven", "true", "null", "None", "???", "nope", "auto",
    "a.b", "a/b", "~", "/", "..", "-x", "@", "$", "*", "ü", "\u202eabc", "", " ", "a b", "'a b'", "a=b", "a\nb",
    "x" * 3000, "\\", "[", "}", "(", "'", "[1", "{a: 1", "[,]", "[]", "[1,2]", "[null]", "[nan]", "[1,[2,{a: 3}]]",
    "{}", "{a: 1}", "{null: 1}", "${seed}", "${nope}", "${oc.env:NOPE_NOT_SET}", "${oc.env:NOPE_NOT_SET,3}", "${",
    "${nope:1}", "${eval.temperatures[5]}", "${..}", "${now:}", "${trainer}", "x${seed}", "1,2", "choice(1,2)",
    "range(1,3)", "interval(0,1)", "glob(*)", "int(x)", "json_str({a:1})", "choice(",
)
# of a key {k} and a value {v}: Hydra's signs, and signs that are nearly Hydra's
FORMS = (
    "+{k}={v}", "++{k}={v}", "~{k}", "~{k}={v}", "{k}=={v}", "{k}= {v}", "{k}.0={v}", "+++{k}={v}", "{k}@a:b={v}",
    "{k}", "{k}:{v}", "-{k}={v}", "--{k}={v}", ".{k}={v}", "{k}/x={v}", "${{{k}}}={v}", "{k}+={v}", "{k}@={v}",
)
GROUP_FORMS = (
    "{g}={o}", "{g}=[{o}]", "{g}=[{o},{p}]", "{g}=[]", "{g}={{a: 1}}", "{g}=null", "~{g}", "+{g}={o}", "{g}@x={o}",
    "{g}={o},{p}", "{g}=glob(*)", "{g}={o}.yaml", "{g}=../{g}/{o}", "{g}=${{nope}}", "{g}={v}",
)
# fmt: on
NO_ANSWER = ("Traceback", "HYDRA_FULL_ERROR", "object_type=", "full_key:", "<class ")


@pytest.fixture(scope="module")
def default() -> dict[str, Any]:
    """Without what is below an interpolation: such keys are set elsewhere."""
    config = compose.compose([])
    plain = dict(flattened(OmegaConf.to_container(config, resolve=True)))
    return {key: plain.get(key) for key, _ in flattened(OmegaConf.to_container(config))}


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[DictConfig]:
    """All that is composed; nothing starts, in a folder with the file that some lines name."""
    made: list[DictConfig] = []
    ready, finalise = app.ready, compose.finalise

    def begun(arguments: Sequence[str]) -> app.Start:
        ready(arguments)
        return lambda: 0

    def finished(config: DictConfig) -> DictConfig:
        made.append(finalise(config))
        return made[-1]

    (tmp_path / "README.md").write_text("a file")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "ready", begun)
    monkeypatch.setattr(compose, "finalise", finished)
    return made


def drawn(random: Random, default: dict[str, Any]) -> tuple[str, str]:
    """An override, and what a refusal names."""
    key, value = random.choice(list(default)), random.choice(VALUES)
    kind = random.random()
    if kind < 0.6:
        return f"{key}={value}", key
    if kind < 0.8:
        return random.choice(FORMS).format(k=key, v=value), key
    group, options = random.choice([(group, names) for group, names in groups().items() if names])
    two = {"o": random.choice(options), "p": random.choice(options)}
    return random.choice(GROUP_FORMS).format(g=group, v=value, **two), group


# Folders that are not there, and deprecated keys: these libraries warn before the line is refused.
@pytest.mark.filterwarnings("ignore:.* is deprecated. Change your code:UserWarning:omegaconf.resolvers.oc")
@pytest.mark.parametrize("chunk", CHUNKS)
def test_every_override_is_answered(
    chunk: int, default: dict[str, Any], configs: list[DictConfig], capfd: pytest.CaptureFixture[str]
) -> None:
    random, faults, accepted = Random(f"{SEED}-{chunk}"), [], 0
    draws = DRAWN // 2 if f"{SEED}-{chunk}" == "0-0" else DRAWN  # `make test` draws the same each time
    for _ in range(draws):
        line, name = drawn(random, default)
        code = app.main([line])
        accepted += code == 0
        wrong = refusal(capfd.readouterr().err, name) if code else nonsense(configs, default)
        faults += [f"{line}: {wrong}"] if wrong else []
        configs.clear()
    assert not faults, f"TURNGRID_FUZZ_SEED={SEED}, chunk {chunk}: {len(faults)} faults\n" + "\n".join(faults)
    assert 0 < accepted < draws


def refusal(err: str, name: str) -> str:
    """What is wrong with the words of a refusal."""
    lines = err.splitlines()
    if not 1 <= len(lines) <= 3 or not lines[0].startswith("turngrid: ") or any(words in err for words in NO_ANSWER):
        return err
    return "" if name in err else f"does not name {name}: {err}"


def nonsense(configs: list[DictConfig], default: dict[str, Any]) -> str:
    """What no run could use of accepted configs."""
    for config in configs:
        if len(run_name(config).encode()) > 255:
            return "no file system has such a name"
        for key, value in flattened(OmegaConf.to_container(config, resolve=True)):
            was = default.get(key)
            if isinstance(value, float) and not isfinite(value):
                return f"{key}={value}"
            if isinstance(was, bool | int | float) and value is not None and not isinstance(value, bool | int | float):
                return f"{key}={value!r}, and the default is {was!r}"
    return ""
