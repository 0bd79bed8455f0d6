"""What gets into a page of episodes: all that was recorded, nothing that would run."""

import base64
import dataclasses
import gzip
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import viewer_samples as samples
from tokenizers import Tokenizer

from turngrid.experiments.sweep import record
from turngrid.experiments.sweep.definition import Layout
from turngrid.experiments.sweep.record import Sweep, SweepRun
from turngrid.experiments.viewer.__main__ import Options, main, thin
from turngrid.experiments.viewer.page import asset, fragment, page, words
from turngrid.experiments.viewer.sources import Shown, episode_files
from turngrid.records.credit import Credit, Replayed, tokens_of, unpack_runs, write_credit
from turngrid.records.files.json_lines import write_lines
from turngrid.records.process.exit_codes import Refusal
from turngrid.rollouts.episode import Outcome
from turngrid.rollouts.row import to_rows
from turngrid.rollouts.store import read_episodes, write_episodes

SQUEEZED = re.compile(r'<script type="application/gzip" class="(index|block)">([^<]*)</script>')


def shown_episodes(paths: list[Path]) -> Iterator[Shown]:
    return (item for file in episode_files(paths) for item in file.shown())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return samples.run_folder(tmp_path / "a run")


def unpacked(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(index, episodes) of a page."""
    found = [(kind, json.loads(gzip.decompress(base64.b64decode(data)))) for kind, data in SQUEEZED.findall(text)]
    ((_, index),) = [item for item in found if item[0] == "index"]
    return index, [episode for kind, block in found if kind == "block" for episode in block]


# ---- what is shown


def test_each_outcome_has_a_mark() -> None:
    """The list, the filters and an episode's head read it; without one the page stops."""
    marks = re.search(r"const OUTCOMES = {(.*?)^};", asset("colour.js"), re.DOTALL | re.MULTILINE)
    assert marks and set(re.findall(r"^  (\w+): { mark", marks[1], re.MULTILINE)) == {*Outcome}


def test_episodes_that_a_later_step_learned_from_again_say_so(run: Path) -> None:
    """By their tokens, in the step that played them; ``instead`` is a line of the later step."""
    first = next(iter(read_episodes(run / "rl/episodes/000001.jsonl")))
    (row,) = to_rows(first, "sparse")
    tokens = tokens_of([(row.prompt_ids, row.response_ids)])
    told = [Replayed(1, tokens, 0.5), Replayed(1, tokens, None, instead=2), Replayed(2, tokens, 1.0)]
    write_lines(run / "rl/replayed/000003.jsonl", told)
    training = {item.place: item for item in shown_episodes([run]) if item.stage == "training"}
    same = [place for place, item in training.items() if item.again]
    places = ("rl/episodes/000001.jsonl:0", "rl/episodes/000003.jsonl:2")
    assert places[0] in same
    assert all(training[place].again == [(3, 0.5), (3, None)] for place in same if "/000001.jsonl" in place)
    assert {place: item.replaced for place, item in training.items() if item.replaced} == {places[1]: 1}
    index, episodes = unpacked(page([training[place] for place in places], "a run"))
    assert episodes[0]["again"] == [[3, 0.5], [3, None]] and index["columns"]["replaced"] == [None, 1]


def test_a_run_shows_demonstrations_evaluation_and_training_with_credit(run: Path) -> None:
    """Each address is unique, and the same from the file or the run."""
    shown = list(shown_episodes([run]))
    assert [(item.stage, item.place) for item in shown[:3]] == [
        ("demonstrations", "episodes/demonstrations.jsonl:0"),
        ("demonstrations", "episodes/demonstrations.jsonl:1"),
        ("evaluation/rl", "evaluation/rl.jsonl:0"),
    ]
    training = shown[7:]
    assert [item.stage for item in training] == ["training"] * 24
    assert {(item.run, item.tokenizer) for item in shown} == {("a run", samples.TINY)}
    assert [item.credit for item in training] == [None] * 8 + [samples.credit(item.episode) for item in training[8:]]
    addresses = {item.place: item.address for item in shown}
    assert len(set(addresses.values())) == 31
    alone = list(shown_episodes([run / "rl" / "episodes" / "000002.jsonl"]))
    assert [item.address for item in alone] == [addresses[item.place] for item in alone]


def test_the_page_holds_every_number_of_every_token(run: Path) -> None:
    shown = list(shown_episodes([run]))
    index, episodes = unpacked(fragment(shown))
    assert index["columns"]["address"] == [item.address for item in shown]
    assert index["columns"]["step"] == [item.episode.step for item in shown]
    for item, found in zip(shown, episodes, strict=True):
        assert found["prompt_ids"] == item.episode.prompt_ids
        for turn, kept in zip(item.episode.turns, found["turns"], strict=True):
            assert (kept["action_ids"], kept["context_ids"]) == (turn.action_ids, turn.context_ids)
            assert (kept["observation"], kept["rewards"]) == (turn.observation, turn.rewards)
            assert [number / index["nats"] for number in kept["logprobs"]] == turn.logprobs
        if item.credit:
            for name in ("advantages", "returns", "values"):
                kept = [number for turn in found["turns"] for number in unpack_runs(turn[name])]
                assert kept == pytest.approx(list(getattr(item.credit, name)))


def test_credit_of_a_thought_that_is_not_learned_from_is_none() -> None:
    item = samples.episode(1, trains_thoughts=False)
    item.turns[1].thought, item.turns[1].thought_tokens = "so", 1
    tokens = [len(turn.action_ids) for turn in item.turns]
    _, (found,) = unpacked(fragment([Shown(item, credit=Credit([0.5] * (sum(tokens) - 1), [0.5] * sum(tokens)))]))
    told = [unpack_runs(turn["advantages"]) for turn in found["turns"]]
    assert told == [[0.5] * tokens[0], [None, *[0.5] * (tokens[1] - 1)], [0.5] * tokens[2]]
    assert [turn.get("thought") for turn in found["turns"]] == [None, "so", None]


def test_words_are_those_of_the_runs_own_tokenizer(run: Path) -> None:
    shown = list(shown_episodes([run]))
    index, _ = unpacked(fragment(shown))
    (found,) = index["words"]  # the demonstrations', the evaluation's and the training's tokenizer are one
    turn = shown[0].episode.turns[0]
    assert "".join(found[str(token)] for token in turn.action_ids) == "open box"
    used = {token for item in shown for token in item.episode.prompt_ids}
    used |= {token for item in shown for turn in item.episode.turns for token in turn.action_ids + turn.context_ids}
    assert {int(token) for token in found} == used


def test_half_a_character_or_a_control_character_reads_as_the_tokenizer_writes_it() -> None:
    """A snowman is E2 98 83, of which the tiny model knows the bytes only."""
    tokenizer = Tokenizer.from_file(str(samples.TINY / "tokenizer.json"))
    for text in ("\u2603", "\x1b\x9b"):
        pieces = samples.ids(text)
        assert words(tokenizer, pieces) == {piece: tokenizer.id_to_token(piece) for piece in pieces}


def test_whatever_a_file_holds_a_page_holds_no_control_characters(tmp_path: Path) -> None:
    """What a model said is kept as it was; so are observations of older files."""
    noise = f"before{''.join(map(chr, (*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0))))}\x1b[2J\ud800\u202eafter"
    record = json.loads(json.dumps(samples.episode(1, error="none", policy="model").to_dict()).replace("box", "NOISE"))
    record |= {"goal": "NOISE", "error": "NOISE", "policy": "NOISE", "final_observation": "NOISE"}
    record["turns"][0]["info"] = {"patch": ["NOISE", {"NOISE": "NOISE"}]}
    record["messages"][0]["content"] = "NOISE"
    path = tmp_path / "old.jsonl"
    path.write_text(json.dumps(record).replace("NOISE", json.dumps(noise)[1:-1]) + "\n")
    index, episodes = unpacked(page(shown_episodes([path]), "old"))
    text = json.dumps([index, episodes], ensure_ascii=False)
    assert text.count("before") == text.count("after") > 10
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e\ud800-\udfff]|\\u00", text)


def test_an_evaluation_without_a_run_decodes_each_policies_tokens(tmp_path: Path) -> None:
    played = tmp_path / "evaluations" / "textworld-w2-o3-q4-0123abcd"
    write_episodes(played / "evaluation" / "tiny-01234567.jsonl", [samples.episode(1)])
    write_episodes(played / "evaluation" / "t1" / "expert.jsonl", [samples.episode(1)])
    policies = [{"name": "tiny-01234567", "path": str(samples.TINY)}, {"name": "expert", "path": ""}]
    (played / "result.json").write_text(json.dumps({"policies": policies}))
    found = {item.stage: item.tokenizer for item in shown_episodes([played])}
    assert found == {"evaluation/tiny-01234567": samples.TINY, "evaluation/t1/expert": None}


# ---- too many, and wrong ones


def test_steps_are_left_out_evenly_and_whole(run: Path) -> None:
    files, note = thin(episode_files([run]), 13)
    assert [file.path.name for file in files] == ["demonstrations.jsonl", "rl.jsonl", "000003.jsonl"]
    assert [file.count for file in files] == [len(list(file.shown())) for file in files] == [2, 3, 8]
    assert "a page of 13 episodes: the first " in note
    assert thin(episode_files([run]), limit=31) == (episode_files([run]), "")


def test_a_sweep_shows_all_its_runs_that_have_played(run: Path, tmp_path: Path) -> None:
    second = samples.run_folder(tmp_path / "second", steps=1)
    (tmp_path / "third").mkdir()
    layout = Layout(rows={}, columns={})
    runs = [SweepRun({"algo": name}, 0, [], name) for name in ("a run", "second", "third")]
    folder = record.write(Sweep("s", "laptop", "", "", None, "", layout, (), [], runs), tmp_path)
    assert {item.run for item in shown_episodes([folder])} == {run.name, second.name}


def test_a_runs_page_lies_in_its_folder_and_any_other_here(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    output = run / "trajectories.html"
    assert main([str(run)]) == 0
    assert re.fullmatch(rf"{output}: 31 episodes, \d\.\d MB, \d+\.\d s\n", capsys.readouterr().out)
    assert "<title>a run</title>" in output.read_text() and not Path("trajectories.html").exists()
    assert main([str(run / "evaluation" / "rl.jsonl")]) == 0
    assert Path("trajectories.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no run or file of episodes is named; use python -m experiments.viewer runs/NAME"),
        (["{run}", "limits=3"], "unknown key limits; use limit"),
        (["{run}", "limit=0"], "limit=0 must be a number of 1 or more"),
        (["{run}x"], "a runx does not exist; use {run}"),
        (["{run}/.."], "holds no episodes; name a run in it, such as"),
        (["{run}/attempts.jsonl"], "attempts.jsonl, line 1 is not an episode"),
    ],
)
def test_a_wrong_call_is_one_line(run: Path, arguments: list[str], said: str, refused: Callable[..., str]) -> None:
    assert said.format(run=run) in refused(main, [argument.format(run=run) for argument in arguments])


def test_credit_of_other_episodes_is_refused(run: Path) -> None:
    write_credit(run / "rl" / "credit" / "000002.jsonl", [Credit([0.5] * 3, [0.5] * 3)] * 8)
    with pytest.raises(Refusal, match=r"000002\.jsonl, line 1: credit for 3 tokens, the episode has \d+"):
        list(shown_episodes([run]))


def test_the_docs_know_every_option_key_and_colour() -> None:
    docs = (Path(__file__).resolve().parents[2] / "docs" / "viewer.md").read_text(encoding="utf-8")
    keys = re.search(r"const KEYS = \[(.*?)\n\];", asset("viewer.js"), re.DOTALL)
    colours = re.search(r"const COLOURS = {(.*?)\n};", asset("colour.js"), re.DOTALL)
    assert keys and colours
    for key in re.findall(r'\["(.)", "(.?)"', keys[1]):
        assert all(f"`{letter}`" in docs for letter in key if letter)
    for name in re.findall(r'label: "(\w+)"', colours[1]):
        assert re.search(rf"^\|[^|]*\b{name}\b", docs, re.MULTILINE), name
    assert all(f"{option.name}=" in docs for option in dataclasses.fields(Options))


# ---- size and weight


def test_five_thousand_episodes_fit_a_page(tmp_path: Path) -> None:
    write_episodes(tmp_path / "many.jsonl", (samples.episode(game, won=game % 3 == 0, turns=9) for game in range(5000)))
    text = page(shown_episodes([tmp_path / "many.jsonl"]), "many")
    assert len(unpacked(text)[1]) == 5000 and len(text) < 10e6
