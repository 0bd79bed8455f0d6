"""Keys and options that had other names: what is answered, and that a run is the same run under either."""

import pytest
from omegaconf import OmegaConf

from config.compose import compose
from config.errors import ConfigError
from records import former_keys
from records.run_folder import outside_identity, run_name

NOW = [
    "eval.samples_per_game=4",
    "curriculum=phases",
    "env.tasks=[w2-o3-q4,w2-o4-q4]",
    "demos.source=expert",
]


@pytest.mark.parametrize(
    ("typed", "answer"),
    {
        "eval.plays=2": "unknown key eval.plays; it is called eval.samples_per_game now",
        "plan=true": "unknown key plan; it is called estimate now",
        "+plan=true": "unknown key plan; it is called estimate now",
        "plan_gpu=H100x8": "unknown key plan_gpu; it is called estimate_gpu now",
        "curriculum.stages={1: [w2-o3-q4]}": "unknown key curriculum.stages; it is called curriculum.phases now",
        "curriculum=stages": "unknown option curriculum=stages; it is called curriculum=phases now",
    }.items(),
)
def test_a_former_name_is_answered_with_the_new_one(typed: str, answer: str) -> None:
    with pytest.raises(ConfigError) as error:
        compose([typed])
    assert str(error.value) == answer


def test_a_former_key_in_a_file_of_ones_own_is_answered_too(tmp_path) -> None:
    (tmp_path / "budget").mkdir()
    (tmp_path / "budget" / "mine.yaml").write_text("# @package _global_\neval: {plays: 3}\n")
    with pytest.raises(ConfigError, match=r"^unknown key eval\.plays; it is called eval\.samples_per_game now$"):
        compose(["budget=mine"], str(tmp_path))


def test_a_run_is_hashed_and_named_by_the_first_names() -> None:
    """A config of an earlier version has the same identity as today's."""
    config = compose(NOW)
    node = OmegaConf.to_container(config)
    assert isinstance(node, dict)
    first = former_keys.former(node)
    assert (first["eval"]["plays"], first["demos"]["source"], first["curriculum"]["name"]) == (
        4,
        "walkthrough",
        "stages",
    )
    assert first["curriculum"]["stages"] == {1: ["w2-o3-q4"], 13: ["w2-o4-q4"]}
    assert former_keys.former(first) == first
    assert (first.pop("plan"), first.pop("plan_gpu")) == (False, None)  # never part of what is hashed
    assert run_name(OmegaConf.create(first)) == run_name(config)
    assert "-w2-o3-q4+w2-o4-q4-stages-" in run_name(config)


def test_an_estimate_is_no_part_of_the_identity() -> None:
    assert {"estimate", "estimate_gpu"} <= set(outside_identity())
