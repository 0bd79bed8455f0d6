"""What only makes composing quicker changes nothing of what is read and composed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from config import base, quick
from config.compose import composer

ODD = {
    "text": "x",
    "none": None,
    "missing": "???",
    "here": "${text}",
    "there": "a ${text}",
    "node": {"key": 1.5, "list": [1, "${text}"]},
    "same": "${node}",
    "nowhere": "${nothing}",
    "no_node": DictConfig(None),
    "missing_node": DictConfig("???"),
    1: True,
}


def test_what_is_read_is_what_omegaconf_reads() -> None:
    with composer() as compose:
        config = compose(["algo=ppo", "model=qwen2.5_0.5b", "cluster=gpu8"])
    odd = OmegaConf.create(ODD)
    closed = OmegaConf.create(ODD, flags={"struct": True})
    numbered = DictConfig({1: 2}, key_type=int)
    words = [*ODD, "none at all", "1", "__name__"]
    asked = [*_asked(config), *((node, key) for node in (odd, closed, numbered, config.env) for key in words)]
    assert len(asked) > 1000
    for node, key in asked:
        for default in (quick.REQUIRED, None, 7):
            quickly, usually = (_read(reader, node, key, default) for reader in (quick._get_plain, quick._get))
            assert quickly is usually or (type(quickly), quickly) == (type(usually), usually), key


def _asked(node: DictConfig) -> Iterator[tuple[DictConfig, str]]:
    for key in node:
        yield node, str(key)
        if isinstance(child := node._get_node(key), DictConfig) and not (child._is_none() or child._is_interpolation()):
            yield from _asked(child)


def _read(reader, node: DictConfig, key: str | int, default: object) -> object:  # type: ignore[no-untyped-def]
    try:
        return reader(node, key, default)
    except Exception as error:  # noqa: BLE001 - the same one, whichever
        return type(error), str(error)


@pytest.mark.parametrize("word", ["", "first=two"])
def test_a_defaults_list_may_refer_to_another_choice(tmp_path: Path, word: str) -> None:
    for group in ("first", "second"):
        (tmp_path / group).mkdir()
        for option in ("one", "two"):
            (tmp_path / group / f"{option}.yaml").write_text(f"name: {group} {option}\n")
    (tmp_path / "root.yaml").write_text("defaults: [{first: one}, {second: '${first}'}]\n")
    base.register()
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        config = hydra_compose("root", [word] if word else [])
    chosen = "two" if word else "one"
    assert config == {"first": {"name": f"first {chosen}"}, "second": {"name": f"second {chosen}"}}
