"""Every ``algo=`` word leads by its file to an algorithm of the registry."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from turngrid.algorithms import registry
from turngrid.algorithms.chosen import algorithm, method_class
from turngrid.algorithms.registry import ALGO, ALGORITHMS, ESTIMATORS, ROLES, SLOTS, base_of, words

FOLDER = Path(__file__).parents[2] / "conf/algo"


def option(name: str) -> Any:
    """With the file that it builds on."""
    own = OmegaConf.load(FOLDER / f"{name}.yaml")
    bases = [base for base in own.get("defaults", []) if isinstance(base, str)]
    return OmegaConf.merge(*map(option, bases), own)


def test_every_algorithm_has_a_file_and_every_word_an_algorithm() -> None:
    known = {*ALGORITHMS, *ESTIMATORS}
    assert {base_of(word) for word in words()} == known <= {*words()}


def test_a_method_is_a_module_of_its_own_name() -> None:
    slots = {ALGO: ESTIMATORS, **SLOTS, ROLES: {}}
    kinds = {(name, method_class(slot, name, {})) for slot, methods in slots.items() for name in methods}
    assert [name for name, kind in kinds if kind.__module__.rpartition(".")[2] != name] == []


@pytest.mark.parametrize("name", words())
def test_an_option_hands_verl_the_registered_estimator(name: str) -> None:
    found, asked = option(name), algorithm(name)
    assert found.algo.name == name
    assert found.algorithm.adv_estimator == asked.estimator
    assert ("critic" in found) == asked.needs_critic
    assert found.actor_rollout_ref.rollout.n > 1 or not asked.needs_group


def test_a_word_of_another_package_is_its_yaml_or_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"theirs": "defaults:\n  - gigpo\n", "estimates": "defaults:\n  - reinforce_plus_plus\n"}
    for word, text in files.items():
        (tmp_path / f"{word}.yaml").write_text(text)
    monkeypatch.setattr(registry, "options", lambda: {"algo": {word: tmp_path / f"{word}.yaml" for word in files}})
    monkeypatch.setattr(registry, "installed", lambda *_: {"estimates": "package:Estimates"})
    others = ["estimates", "unheard", "a.module:Name"]
    assert [base_of(word) for word in ("theirs", *others)] == ["grpo", *others]
