"""env=search over users' questions, in the forms in which others publish them, and a retrieval
server that answers, fails, hangs and talks nonsense."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import small
from chat_stub import chat_stub
from made import played

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.search import retrieval
from turngrid.envs.search.files import read_row
from turngrid.envs.search.retrieval import Corpus, Document, Server, document
from turngrid.envs.types import EnvError, TaskError, TaskRef

BRIDGE = ["The Orlen Bridge crosses the Vask.", "It was built by Ada Rull."]
RULL = ["Ada Rull was an engineer.", "She was born in Tamm."]
LISTED = [["Orlen Bridge", BRIDGE], ["Ada Rull", RULL], ["Vask", ["The Vask is a river."]]]
FACTS = [("Orlen Bridge", BRIDGE[1]), ("Ada Rull", RULL[1])]
WHERE = "Where was the builder of the Orlen Bridge born?"
HOTPOT = {
    "_id": "5a",
    "question": WHERE,
    "answer": "Tamm",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Orlen Bridge", 1], ["Ada Rull", 1], ["Ada Rull", 9]],
    "context": LISTED,
}
TWO_WIKI = {**HOTPOT, "evidences": [["Orlen Bridge", "builder", "Ada Rull"]]}
COLUMNS = {
    "id": "dev_0",
    "question": WHERE,
    "golden_answers": ["Tamm"],
    "metadata": {
        "type": "bridge",
        "supporting_facts": {"title": ["Orlen Bridge", "Ada Rull"], "sent_id": [1, 1]},
        "context": {"title": [title for title, _ in LISTED], "sentences": [texts for _, texts in LISTED]},
    },
}
MUSIQUE = {
    "id": "2hop__1_2",
    "question": WHERE,
    "answer": "Tamm",
    "answer_aliases": ["Tamm Town"],
    "answerable": True,
    "paragraphs": [
        {"idx": number, "title": title, "paragraph_text": " ".join(texts), "is_supporting": number < 2}
        for number, (title, texts) in enumerate(LISTED)
    ],
}
PLAIN = {"id": "test_1", "question": "who built the bridge", "golden_answers": ["Ada Rull", "Rull"]}
ASKED = "Answer inside <answer>. For example, <answer> Beijing </answer>. Question: who built it?\n"
SEARCH_R1 = {
    "data_source": "nq",
    "prompt": [{"role": "user", "content": ASKED}],
    "reward_model": {"style": "rule", "ground_truth": {"target": ["Ada Rull"]}},
}
CORPUS = [{"id": str(n), "contents": f'"{title}"\n{" ".join(texts)}'} for n, (title, texts) in enumerate(LISTED)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Indices of collections go there, not into the cache of this machine."""
    monkeypatch.setenv("TURNGRID_CACHE", str(tmp_path / "cache"))


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


FORMS = {
    "hotpotqa": (HOTPOT, WHERE, ["Tamm"], FACTS, 3, "bridge"),
    "2wiki": (TWO_WIKI, WHERE, ["Tamm"], FACTS, 3, "bridge"),
    "flashrag": (COLUMNS, WHERE, ["Tamm"], FACTS, 3, "bridge"),
    "musique": (MUSIQUE, WHERE, ["Tamm", "Tamm Town"], [("Orlen Bridge", BRIDGE[0]), ("Ada Rull", RULL[0])], 3, ""),
    "nq": (PLAIN, "who built the bridge", ["Ada Rull", "Rull"], [], 0, ""),
    "search-r1": (SEARCH_R1, "who built it?", ["Ada Rull"], [], 0, ""),
}
NO_QUESTIONS = {
    "no answer": ({**MUSIQUE, "answerable": False}, {**PLAIN, "golden_answers": ["the"]}),
    "no question": ({**PLAIN, "question": " "},),
    "another form": ({**HOTPOT, "context": 3}, {**SEARCH_R1, "prompt": []}, {**PLAIN, "metadata": [1]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_each_form(form: str) -> None:
    row, question, golds, facts, paragraphs, kind = FORMS[form]
    read = read_row(row)
    assert (read["question"], read["golds"], read["facts"], read["kind"]) == (question, golds, facts, kind)
    assert len(read["paragraphs"]) == paragraphs


def test_rows_that_are_no_questions() -> None:
    for why, rows in NO_QUESTIONS.items():
        for row in rows:
            with pytest.raises(ValueError, match=why):
                read_row(row)
    with pytest.raises(KeyError):
        read_row({"id": 1})


# ---- sets


def place(folder: Path, **settings: Any):
    return make_environment("search", {"data_dir": str(folder), **settings})


def games(environment, cache: Path, task: str, split: str) -> list[TaskRef]:
    how = {"reward": "dense", "workers": 1, "progress": False, "at_most": [split]}
    return Catalogue(environment, cache).tasks(task, split, 9, **how)


def test_a_question_is_searched_in_its_paragraphs(tmp_path: Path) -> None:
    (tmp_path / "hotpotqa").mkdir()
    (tmp_path / "hotpotqa/hotpot_dev_distractor_v1.json").write_text(
        json.dumps([HOTPOT, {"_id": "x"}, {**HOTPOT, "question": "Where?", "context": []}])
    )
    environment = place(tmp_path)
    [task] = games(environment, tmp_path / "cache", "hotpotqa", "test")
    assert environment.max_turns("hotpotqa") == 5 and task.expert_plan == () and task.max_score == 3
    env = environment.new_env(legal=True)
    assert env.reset(task, 0).gold == ("Tamm",) and task.goal == WHERE
    first = env.step("search Orlen Bridge")
    assert first.score_delta == 1 and "It was built by Ada Rull." in first.observation.text
    assert first.info["task_type"] == "bridge" and "answer Orlen Bridge" in first.observation.legal
    assert env.step("search Rull engineer").score_delta == 1
    assert env.step("answer the Tamm").won


def test_splits_of_files(tmp_path: Path) -> None:
    """The test split is dev where test has no answers; no question of it is in training."""
    shared = {"id": "t", "question": "Who, built the BRIDGE?", "golden_answers": ["Ada Rull"]}
    rows = [{**PLAIN, "id": f"train_{n}", "question": f"question {n}"} for n in range(300)]
    lines(tmp_path / "nq/train.jsonl", [*rows, shared])
    lines(tmp_path / "nq/dev.jsonl", [PLAIN, {**PLAIN, "id": "2", "question": "another"}])
    lines(tmp_path / "nq/test.jsonl", [{"id": "no", "question": "hidden"}])
    corpus = lines(tmp_path / "corpus.jsonl", CORPUS)
    with pytest.raises(TaskError, match="use env.corpus=FILE.jsonl or env.url=http://"):
        place(tmp_path).seeds(place(tmp_path).parse_task("nq"), "test")
    environment = place(tmp_path, corpus=str(corpus))
    params = environment.parse_task("nq")
    seeds = {split: environment.seeds(params, split) for split in ("test", "validation", "train", "demonstrations")}
    assert len(seeds["test"]) == 2 and seeds["train"] == seeds["demonstrations"]
    assert 1 <= len(seeds["validation"]) <= 15 and len(seeds["validation"]) + len(seeds["train"]) == 300
    rows_of = {split: environment.files("nq").of_split(split) for split in ("train", "validation")}
    questions = [row.fields["question"] for found in rows_of.values() for row in found]
    assert shared["question"] not in questions and len(set(questions)) == 300
    [first, _] = games(environment, tmp_path / "cache", "nq", "test")
    assert json.loads(Path(first.game_file).read_text())["paragraphs"] == []


def test_search_r1s_parquet_and_a_corpus(tmp_path: Path) -> None:
    """In a collection a title is the fact."""
    (tmp_path / "nq_search").mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([SEARCH_R1]), tmp_path / "nq_search/test.parquet")
    corpus = lines(tmp_path / "corpus.jsonl", CORPUS)
    environment = place(tmp_path, corpus=str(corpus))
    [task] = games(environment, tmp_path / "cache", "nq_search", "test")
    assert len(list((tmp_path / "cache/search").glob("*/offsets.npy"))) == 1, "before the first reset"
    env = environment.new_env()
    env.reset(task, 0)
    text = env.step("search orlen bridge").observation.text
    assert text.startswith("<information>\nDoc 1 (Orlen Bridge): The Orlen Bridge crosses the Vask. It was built")
    assert env.step("answer Ada Rull.").won
    lines(tmp_path / "musique/musique_ans_v1.0_dev.jsonl", [MUSIQUE])
    [task] = games(environment, tmp_path / "cache", "musique", "test")
    assert [step.score_delta for step in played(env, task, ["search rull"] * 2)[1]] == [2, 0]
    with pytest.raises(TaskError, match="has no file train.jsonl"):
        environment.seeds(environment.parse_task("musique"), "train")
    (tmp_path / "nq_search/train.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(TaskError, match=r"train.parquet' cannot be read as parquet"):
        environment.seeds(environment.parse_task("nq_search"), "train")


def test_an_index_is_made_once_and_again_if_the_file_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lines(tmp_path / "corpus.jsonl", CORPUS)
    assert Corpus(path).search("river", 2)[0] == Document("Vask", "Vask", ("The Vask is a river.",))
    made = list((tmp_path / "cache/search").glob("*/offsets.npy"))
    with monkeypatch.context() as patched:
        patched.setattr(retrieval, "_read", lambda path: pytest.fail("read again"))
        assert [found.title for found in Corpus(path).search("rull engineer", 3)] == ["Ada Rull", "Orlen Bridge"]
    lines(path, [*CORPUS, {"contents": "Tamm\nA town by a river and a lake."}])
    assert {found.title for found in Corpus(path).search("river", 5)} == {"Vask", "Tamm"}
    assert len(made) == 1 and len(list((tmp_path / "cache/search").glob("*/offsets.npy"))) == 2
    with pytest.raises(EnvError, match=r"line 2 is no passage"):
        Corpus(lines(tmp_path / "broken.jsonl", [CORPUS[0], {"id": 1}]))
    with pytest.raises(EnvError, match="it has no passage"):
        Corpus(lines(tmp_path / "empty.jsonl", []))


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("nq", {"data_dir": "none"}, "env.data_dir=none: no such folder"),
        ("hotpot", {}, "env.task=hotpot: .* has no such folder; use env.task=hotpotqa"),
        ("empty", {}, "has no file of questions, such as train.jsonl"),
        ("twice", {}, "has train.json and train.jsonl for one split; keep one of them"),
        ("nq", {"corpus": "none.jsonl"}, "env.corpus=none.jsonl: no such file"),
        ("nq", {"url": "localhost"}, "env.url=localhost .*; use env.url=http://"),
        ("nq", {"url": "http://x", "corpus": "c"}, "env.corpus=c: .* use env.corpus=''"),
        ("h2", {"data_dir": "", "corpus": "c.jsonl"}, "env.corpus=c.jsonl: .* use env.data_dir too"),
        ("h2", {"data_dir": "", "url": "http://x"}, "env.url=http://x: .* use env.data_dir too"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, task: str, settings: dict[str, Any], message: str) -> None:
    for name in ("hotpotqa", "empty"):
        (tmp_path / name).mkdir()
    lines(tmp_path / "nq/test.jsonl", [PLAIN])
    for name in ("train.json", "train.jsonl"):
        lines(tmp_path / "twice" / name, [PLAIN])
    with pytest.raises(TaskError, match=message):
        make_environment("search", {"data_dir": str(tmp_path), **settings}).parse_task(task)


# ---- Search-R1's server


GOOD = json.dumps({"result": [[{"document": row, "score": 1.5} for row in CORPUS]]})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Answers as ``says`` has it, the first of several once; as the real one, it fails without
    scores."""
    over = threading.Event()

    def answer(body: dict[str, Any]) -> tuple[int, str]:
        said = stub.says.pop(0) if len(stub.says) > 1 else stub.says[0]
        if said == "hang":
            over.wait(60.0)
        return (500, "") if said == 500 or not body["return_scores"] else (200, said)

    monkeypatch.setattr(retrieval, "WAITS_S", (0.0, 0.0))
    stub: Any
    with chat_stub(answer) as stub:
        stub.says = [GOOD]
        yield stub
        over.set()


def test_the_server_is_asked_as_search_r1_asks_it(server: Any) -> None:
    """If it fails twice, a third time."""
    found = Server(server.url, 30.0).search("the bridge", 2)
    assert server.seen[0][2] == {"queries": ["the bridge"], "topk": 2, "return_scores": True}
    assert found == [Document(title, title, tuple(texts)) for title, texts in LISTED[:2]]
    assert document("no title") == Document("no title", "no title", ("no title",))
    server.says = [500, "{", GOOD]
    assert len(Server(server.url, 30.0).search("x", 3)) == 3 and len(server.seen) == 1 + 3


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (500, "answered 500"),
        ("hang", "did not answer: ReadTimeout"),
        *((said, "sent no passages") for said in ("", '{"result": []}', '{"result": [[{"document": null}]]}')),
        ('{"result": [[{"document": {"contents": 3}}]]}', "sent no passages"),
        ("[" * 100_000, "sent no passages"),
    ],
)
def test_nonsense_is_an_error_of_the_environment(server: Any, said: Any, message: str) -> None:
    server.says = [said]
    with pytest.raises(EnvError, match=message) as error:
        Server(server.url, 0.5 if said == "hang" else 30.0).search("x", 3)
    small.wait_for(lambda: len(server.seen) == 3, 30)  # the last one is given up before it is read
    assert len(str(error.value)) < 400


def test_a_dead_server_costs_an_episode_and_no_run(tmp_path: Path, server: Any) -> None:
    """The next game goes on when the server is back."""
    lines(tmp_path / "nq/test.jsonl", [PLAIN])
    environment = place(tmp_path, url=server.url, timeout_s=10.0)
    assert environment.longest_step_s == 30.0
    [task] = games(environment, tmp_path / "cache", "nq", "test")
    env = environment.new_env()
    env.reset(task, 0)
    server.says = ["nonsense"]
    with pytest.raises(EnvError, match="sent no passages"):
        env.step("search bridge")
    server.says = [GOOD]
    asked, answered = played(env, task, ["search bridge", "answer Rull"])[1]
    assert "Orlen Bridge" in asked.observation.text and answered.won
