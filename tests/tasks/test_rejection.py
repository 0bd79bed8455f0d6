"""Which of a run's wins become demonstrations, by hand; and whose token ids they carry."""

import shutil
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf
from transformers import AutoTokenizer

from turngrid.config.base import ROOT
from turngrid.config.checks.check import check
from turngrid.config.compose import compose
from turngrid.config.errors import ConfigError
from turngrid.envs.types import TaskRef
from turngrid.records.run_folder import begun_folder
from turngrid.rollouts.episode import Episode, Outcome, Turn
from turngrid.rollouts.store import read_episodes, write_episodes
from turngrid.rollouts.stream import assistant, user
from turngrid.tasks import demonstrations
from turngrid.tasks.rejection import DemosError, Standards, as_demonstrations, draw, same_tokens, select
from turngrid.tasks.run import Run
from turngrid.tasks.splits import task_file, write_tasks
from turngrid.verl_plugin.rollout.token_stream import TokenCodec
from turngrid.verl_plugin.sft_rows import with_ids

TINY = ROOT / "assets" / "tiny"


def episode(game: int, words: str, *, won: bool = True, invalid: int = 0, step: int = 1) -> Episode:
    """One turn a word; the first ``invalid`` of them were not understood."""
    turns = [
        Turn("a door.", word, [7, 2], [-0.1, -0.2], [9], valid=i >= invalid) for i, word in enumerate(words.split())
    ]
    messages = [said for turn in turns for said in (user(turn.observation), assistant(turn.action))]
    outcome = Outcome.WON if won else Outcome.OUT_OF_TURNS
    return Episode(
        f"doors/leave/{game}", game, "train", "leave", messages, [1, 2, 3], turns, outcome, step=step, policy="model"
    )


PLAYED = [
    episode(1, "open door go", step=1),
    episode(1, "open go", step=2),
    episode(1, "open go", step=3),  # says what the one before said
    episode(2, "look look open go", step=1),
    episode(2, "lok open", invalid=1, step=2),
    episode(3, "look", won=False),
    episode(3, "a b c d e f g", step=4),
    episode(4, "go", step=5),
]


def words(episodes: list[Episode]) -> list[tuple[int, str, int]]:
    return [(e.seed, " ".join(turn.action for turn in e.turns), e.step) for e in episodes]


def test_the_best_of_each_game_come_first() -> None:
    chosen, left_out = select(PLAYED, 10, Standards(per_game=1, max_invalid=0, max_turns=6))
    assert words(chosen) == [(1, "open go", 3), (2, "look look open go", 1), (4, "go", 5)]
    assert left_out == {
        "not won": 1,
        "more than 0 invalid actions": 1,
        "more than 6 turns": 1,
        "the same actions as another": 1,
        "more than enough of one game": 1,
    }


def test_no_game_has_two_before_every_game_has_one() -> None:
    chosen, _ = select(PLAYED, 4, Standards(per_game=2, max_invalid=1, max_turns=7))
    assert words(chosen) == [(1, "open go", 3), (2, "look look open go", 1), (3, "a b c d e f g", 4), (4, "go", 5)]
    chosen, _ = select(PLAYED, 6, Standards(per_game=2, max_invalid=1, max_turns=7))
    assert words(chosen)[4:] == [(1, "open door go", 1), (2, "lok open", 2)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder as far as it is read: training episodes, and the model that they came from."""
    folder = tmp_path / "some run"
    write_episodes(folder / "rl" / "episodes" / "000001.jsonl", PLAYED[:4])
    write_episodes(folder / "rl" / "episodes" / "000002.jsonl", PLAYED[4:])
    model = {"actor_rollout_ref": {"model": {"path": str(TINY)}}, "env": {"name": "textworld"}}
    OmegaConf.save(OmegaConf.create(model), folder / "rl" / "config.yaml")
    return folder


def asked(run: Path, *overrides: str) -> DictConfig:
    return compose(["demos.source=episodes", f"demos.run='{run}'", "budget.units=75", "budget.rl_steps=1", *overrides])


def test_a_run_that_holds_too_few_is_refused_with_the_reasons(run: Path) -> None:
    """Unless its demonstrations are made already."""
    with pytest.raises(ConfigError, match=r"gives 4 demonstrations of the 5 .*left out: .*1 not won") as caught:
        check(asked(run, "budget.units=90"))
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match="was played in env=textworld; use that here too"):
        check(asked(run, "env=sokoban"))
    with pytest.raises(ConfigError, match="used rollout_form=linear"):
        check(asked(run, "rollout_form=summary"))
    theirs = OmegaConf.load(run / "rl" / "config.yaml")
    OmegaConf.save({**theirs, "library": compose(["library=[experience]"]).library}, run / "rl" / "config.yaml")
    with pytest.raises(ConfigError, match="with library=experience; choose its library settings too"):
        check(asked(run))
    assert check(asked(run, "library=[experience]")) == []
    words = ("budget.units=90", f"output_dir={run.parent}")
    write_episodes(demonstrations.episodes_file(begun_folder(asked(run, *words))), PLAYED)
    shutil.rmtree(run)
    assert check(asked(run, *words)) == []
    with pytest.raises(ConfigError, match="has no training episodes"):
        check(asked(run, *words, "fresh=true"))


def test_the_stage_writes_records(run: Path, tmp_path: Path) -> None:
    demonstrations.make_demonstrations(Run(asked(run), tmp_path / "mine"), str(TINY))
    written = list(read_episodes(demonstrations.episodes_file(tmp_path / "mine")))
    assert words(written) == [
        (1, "open go", 3), (2, "look look open go", 1), (3, "a b c d e f g", 4), (4, "go", 5)
    ]  # fmt: skip
    assert {e.policy for e in written} == {"model of some run"}
    for folder, split, seed in ((run, "train", 4), (tmp_path / "mine", "test", 9)):
        ref = TaskRef("doors", "leave", {}, seed, split, "", "", "", (), "the same", 1.0)
        write_tasks(task_file(folder, split), [ref])
    with pytest.raises(DemosError, match="1 a game that this run tests"):
        demonstrations.make_demonstrations(Run(asked(run), tmp_path / "mine"), str(TINY))


def test_the_same_tokens_are_kept_as_they_were_sampled(run: Path) -> None:
    chosen = draw(Run(asked(run)), 4)
    kept = as_demonstrations(chosen, run, str(TINY), Run(asked(run)))
    assert [turn for e in kept for turn in e.turns] == [turn for e in chosen for turn in e.turns]
    for change in ("+data.apply_chat_template_kwargs.enable_thinking=false", "env.window_turns=3"):
        other = as_demonstrations(chosen, run, str(TINY), Run(asked(run, change)))
        assert not any(turn.action_ids or turn.context_ids or turn.sampled for turn in other[0].turns)


def test_other_tokens_are_filled_in_and_not_marked_as_sampled(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other model"
    shutil.copytree(TINY, other)
    template = other / "chat_template.jinja"
    template.write_text(template.read_text() + "{# another #}")
    assert same_tokens(str(TINY), str(TINY)) and not same_tokens(str(other), str(TINY))
    assert not same_tokens("Qwen/Qwen2.5-0.5B-Instruct", str(TINY))
    (first, *_) = as_demonstrations(draw(Run(asked(run)), 4), run, str(other), Run(asked(run)))
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    filled = with_ids(first, TokenCodec(tokenizer, "qwen3"))
    assert [tokenizer.decode(turn.action_ids, skip_special_tokens=True) for turn in filled.turns] == ["open", "go"]
    assert not any(turn.sampled or turn.logprobs for turn in filled.turns)
