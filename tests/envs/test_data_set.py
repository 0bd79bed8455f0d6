"""The environment of docs/env.md whose tasks are rows: listed, split, played, and what is no task
skipped."""

import json

import pytest
from page_modules import page_modules

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.types import TaskError

ROWS = [{"id": number, "question": f"{number} + 1", "answer": number + 1} for number in range(40)]


NAME = "sums.environment:Sums"


@pytest.fixture
def sums(tmp_path):
    """Return a function that makes the environment, given rows or lines."""

    def make(rows, **settings):
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
        return make_environment(NAME, {"instances": str(file), **settings})

    with page_modules(tmp_path, "env.md"):
        assert len((tmp_path / "sums/environment.py").read_text().splitlines()) <= 45
        yield make


def test_rows_are_played(sums, tmp_path):
    environment = sums([*ROWS[:2], "{", {"id": 7, "question": "?"}], test_share=0.0)
    found = Catalogue(environment, tmp_path / "cache").listing("sums", "train", None, workers=1, progress=False)
    assert min(reason for _, reason in found.rejected) == "a row has no field 'answer'"
    assert len(found.rejected) == 2
    env = environment.env()
    for task in found.tasks:
        number = int(env.reset(task, 0).text.split()[0])
        assert not env.step("no").won
        assert env.step(str(number + 1)).won


def test_what_is_no_source_is_said_and_a_test_set_may_be_a_second_one(sums):
    first, second = sums(ROWS[:3]).settings.instances, sums(ROWS[3:5]).settings.instances
    environment = sums([], instances=first, test_instances=second)
    assert (len(environment.seeds({}, "train")), len(environment.seeds({}, "test"))) == (3, 2)
    for settings, message in (
        ({"instances": "none.jsonl"}, "env.instances='none.jsonl': no such file"),
        ({"test_instances": "none.json"}, "env.test_instances='none.json': no such file"),
        ({"test_share": 0.7, "validation_share": 0.7}, "env.test_share and env.validation_share"),
    ):
        with pytest.raises(TaskError, match=message):
            sums(ROWS, **settings).parse_task("sums")
    for rows, message in (([{}], "none of its 1 rows .* the first: a row has no field 'question'"), ([], "its 0 rows")):
        with pytest.raises(TaskError, match=message):
            sums(rows).seeds({}, "train")


def test_a_row_has_one_split_and_one_game_in_any_file(sums):
    rows = [{"id": number, "question": "?", "answer": number} for number in range(200)]
    one, other = sums(rows, validation_share=0.1), sums(rows[::-1], validation_share=0.1)
    seeds = {split: one.seeds({}, split) for split in ("test", "validation", "train")}
    assert {split: other.seeds({}, split) for split in seeds} == seeds
    assert sum(map(len, seeds.values())) == len(set().union(*seeds.values())) == 200
    assert 30 <= len(seeds["test"]) <= 60
    assert 10 <= len(seeds["validation"]) <= 32
    assert one.seeds({}, "test_paper") == seeds["test"]
    assert one.seeds({}, "demonstrations") == seeds["train"]
