"""Fictional worlds and their questions: proven again by other means, hard to shortcut, paid."""

import itertools
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.registry import make_environment
from turngrid.envs.search.files import exact_match, f1
from turngrid.envs.search.games import Collection, Question, ask, collection_in, collection_of, mentions
from turngrid.envs.search.relations import CLASSES, RELATIONS, keys, root_class
from turngrid.envs.search.retrieval import Bm25, Document, GoldFact, cut, shows, words
from turngrid.envs.search.world import World, WorldSpec, make_world
from turngrid.envs.types import EnvError
from turngrid.rollouts.prompt_forms.form import messages
from turngrid.rollouts.prompt_forms.registry import PLAIN_FORM

TOP_K, CHARS = 3, 1200


def asked(names: str, wording: str, count: int) -> list[tuple[Collection, Question]]:
    found = []
    for hops in range(1, 5):
        for seed in range(count):
            collection = collection_of(WorldSpec(names, seed % 4, 700, 2.0, wording))
            found.append((collection, ask(collection, hops, TOP_K, CHARS, random.Random(f"{hops} {seed}"))))
    return found


@pytest.fixture(scope="module")
def questions() -> list[tuple[Collection, Question]]:
    return asked("train", "usual", 50)


@pytest.mark.parametrize(
    ("answer", "gold", "em", "score"),
    [
        ("The Orlen Bridge.", "Orlen Bridge", 1, 1),
        ("Orlen Bridge in Vask", "Orlen Bridge", 0, 2 / 3),
        ("Vask Vask", "Vask", 0, 2 / 3),
        ("12 March 1871", "March 12, 1871", 0, 1),
        ("Orlen-Bridge", "Orlen Bridge", 0, 0),
        ("a", "A", 0, 0),  # no word is left of either
        ("no bridge", "no", 0, 0),
        ("Ærø", "ærø", 1, 1),
    ],
)
def test_scores_of_worked_examples(answer: str, gold: str, em: int, score: float) -> None:
    assert exact_match(answer, ["Else", gold]) == em
    assert f1(answer, ["Else", gold]) == pytest.approx(score)


# ---- worlds


def test_kinds_of_worlds_share_no_name_and_no_new_sentence() -> None:
    names: dict[str, set[str]] = {}
    for kind in CLASSES:
        worlds = [make_world(WorldSpec(kind, number, 100, 2.0, "usual")) for number in range(50)]
        entities = [entity for world in worlds for entity in world.entities if entity.kind != "year"]
        names[kind] = {name for entity in entities for name in entity.names}
        assert len({world.digest for world in worlds}) == 50 and len(names[kind]) > 1_000
        roots = [
            word for entity in entities for word in words(entity.name) if root_class(word.capitalize()) in CLASSES[kind]
        ]
        assert len(roots) >= len(entities)  # so each name has one
    assert sum(map(len, names.values())) == len(set().union(*names.values()))
    in_questions = set(words(" ".join(relation.asks for relation in RELATIONS.values())))
    told = [wording for relation in RELATIONS.values() for wording in relation.wordings]
    for wording in told:  # relations are asked in other words than they are told in
        assert all(wording.key in words(sentence) for sentence in filter(None, wording[1:]))
        assert wording.key not in in_questions
    assert len({sentence for wording in told for sentence in wording[1:] if sentence}) == 4 * (2 * 14 - 3)
    assert keys("employer", "usual") == "post wages" and keys("employer", "new") == "desk"


def test_each_fact_is_told_once_by_a_sentence_about_it(questions: list[tuple[Collection, Question]]) -> None:
    world = questions[0][0].world
    for fact, (passage, place) in zip(world.facts, world.positions, strict=True):
        text = world.passages[passage].sentences[place]
        ends = world.entities[fact.subject], world.entities[fact.object]
        about = world.entities[world.passages[passage].about]
        assert about in ends
        other = ends[about == ends[0]]
        assert any(mentions(text, name) for name in (other.called, other.alias) if name)
        assert any(mentions(text, wording.key) for wording in RELATIONS[fact.relation].wordings)
    assert len(set(world.positions)) == len(world.facts)


# ---- questions


def solved(world: World, text: str) -> set[str]:
    """Evaluate a question from its words, over all facts; another way than the chain's."""
    phrase, path = re.fullmatch(r"\w+ is (.*)\?", text)[1], []  # type: ignore[index]
    while found := [
        (name, match[1])
        for name, relation in RELATIONS.items()
        if (match := re.fullmatch(relation.asks.replace("{}", "(.*)"), phrase))
    ]:
        [(name, phrase)] = found
        path.insert(0, name)
    now = {number for number, entity in enumerate(world.entities) if phrase in (entity.called, entity.alias)}
    assert len(now) == 1
    for name in path:
        pairs = [fact for fact in world.facts if fact.relation == name]
        both = [(fact.object, fact.subject) for fact in pairs] if name == "spouse" else []
        now = {end for begin, end in [*both, *((fact.subject, fact.object) for fact in pairs)] if begin in now}
        assert len(now) == 1
    return {name for number in now for name in world.entities[number].names}


def of_form(form: str, questions: list[tuple[Collection, Question]]) -> list[tuple[Collection, Question]]:
    chosen = [(collection, question) for collection, question in questions if question.form == form]
    assert chosen
    return chosen


def with_noun(noun: str) -> str:
    [name] = [name for name, relation in RELATIONS.items() if relation.asks == f"the {noun} of {{}}"]
    return name


def called(world: World, name: str) -> int:
    [number] = [number for number, entity in enumerate(world.entities) if name in (entity.called, entity.alias)]
    return number


def test_an_intersection_has_one_answer_and_needs_both_conditions(questions) -> None:
    for collection, question in of_form("intersection", questions):
        world = collection.world
        match = re.fullmatch(r"Wh\w+ has (.*) as (\w+) and (.*) as (\w+)\?", question.text)
        pairs = (match[1], match[2]), (match[3], match[4])  # type: ignore[index]
        conditions = [(with_noun(noun), called(world, name)) for name, noun in pairs]
        having = [{f.subject for f in world.facts if (f.relation, f.object) == one} for one in conditions]
        [answer] = having[0] & having[1]
        assert min(map(len, having)) > 1
        assert world.entities[answer].names == question.golds


def test_the_answer_of_a_comparison_is_the_earlier_one(questions) -> None:
    firsts = set()
    for collection, question in of_form("comparison", questions):
        world = collection.world
        match = re.fullmatch(r"Which has the earlier ([\w ]+), (.*) or (.*)\?", question.text)
        noun, *names = match.groups()  # type: ignore[union-attr]
        years = {
            name: int(world.entities[fact.object].name)
            for name in names
            for fact in world.facts
            if (fact.subject, fact.relation) == (called(world, name), with_noun(noun))
        }
        earlier = min(names, key=years.__getitem__)
        assert len(set(years.values())) == 2
        assert earlier in question.golds and question.plan[-1] == f"answer {earlier}"
        firsts.add(earlier == names[0])
    assert firsts == {True, False}


def test_a_stated_fact_is_the_questions_own(questions) -> None:
    for collection, question in of_form("stated", questions):
        statement, rest = question.text.split(". ")
        assert solved(collection.world, rest) == set(question.golds)
        [fact] = [collection.world.facts[number] for number in question.facts]
        assert any(mentions(statement, wording.key) for wording in RELATIONS[fact.relation].wordings)
        assert mentions(statement, question.plan[0].removeprefix("answer ")) and len(question.plan) == 1


def test_questions_have_one_answer_and_no_shortcut(questions: list[tuple[Collection, Question]]) -> None:
    for collection, question in of_form("chain", questions):
        world, chain = collection.world, question.chain
        assert solved(world, question.text) == set(question.golds)
        assert len(set(chain)) == len(chain) == len(question.facts) + 1
        ends = [{world.facts[fact].subject, world.facts[fact].object} for fact in question.facts]
        assert ends == [set(pair) for pair in itertools.pairwise(chain)]
        for fact in world.facts:
            if fact.subject in chain and fact.object in chain:
                assert abs(chain.index(fact.subject) - chain.index(fact.object)) == 1
        passages = [world.passages[world.positions[fact][0]] for fact in question.facts]
        earlier = " ".join(text for passage in passages[:-1] for text in passage.sentences)
        assert not any(mentions(f"{question.text} {earlier}", name) for name in question.golds)


def test_the_expert_names_only_what_it_was_shown(questions: list[tuple[Collection, Question]]) -> None:
    for collection, question in questions:
        known = question.text
        for action, fact in zip(question.plan[:-1], question.facts, strict=question.form != "stated"):
            query = action.removeprefix("search ")
            name = query.rsplit(" ", 2 if collection.world.spec.wording == "usual" else 1)[0]
            assert mentions(known, name)
            shown = cut(collection.search(query, TOP_K), CHARS)
            assert shows(shown, collection.gold_fact(fact))
            known += " ".join(text for document in shown for text in document.sentences)
        answer = question.plan[-1].removeprefix("answer ")
        assert mentions(known, answer) and exact_match(answer, question.golds)


def test_retrieval_is_not_trivial(questions: list[tuple[Collection, Question]]) -> None:
    """The targets of docs/search.md: a bare name shows its fact in 60 to 80 % of the cases."""
    bare, whole, kinds = [], [], []
    for collection, question in questions:
        world, best = collection.world, collection.index.best
        passages = [world.positions[fact][0] for fact in question.facts]
        names = [world.entities[entity].name for entity in question.chain]
        bare += [passage in best(name, TOP_K) for passage, name in zip(passages, names, strict=False)]
        if question.form == "chain" and len(passages) > 1:
            whole.append(passages[-1] in best(question.text, TOP_K))
        kinds.append(world.entities[question.chain[-1]].kind)
    index = Bm25(["red fox", "blue fox", "red fox", "red hare", "red fox"])
    assert index.best("Fox, RED!", 3) == [0, 2, 4] and index.best("owl", 3) == index.best("!", 3) == []  # ties in order
    assert 0.6 <= sum(bare) / len(bare) <= 0.8
    assert sum(whole) / len(whole) < 0.05
    assert max(kinds.count(kind) for kind in kinds) < 0.3 * len(kinds)


# ---- games


@pytest.fixture(scope="module")
def place():
    return make_environment("search")


@pytest.fixture(scope="module")
def task(place, game_cache: Path):
    [task] = Catalogue(place, game_cache).tasks("h3", "test", 1, reward="dense", workers=1, progress=False)
    return task


def test_new_wording_is_a_test_split_of_its_own(tmp_path: Path) -> None:
    """A game is worth a point a step of its plan; a world that changed is an error."""
    place = make_environment("search", {"worlds": 2, "passages": 300, "test_split": "new_wording"})
    params = place.parse_task("h1-4")
    wordings = {split: place.for_split(params, split)["wording"] for split in ("train", "validation", "test")}
    assert wordings == {"train": "usual", "validation": "usual", "test": "new"}
    tasks = Catalogue(place, tmp_path).tasks("h1-4", "test", 15, workers=1, progress=False)
    assert [len(task.expert_plan) for task in tasks] == [task.max_score for task in tasks]
    assert {task.max_score for task in tasks} >= {2, 3, 4, 5}
    for collection, question in of_form("chain", asked("test", "new", 5)):
        assert solved(collection.world, question.text) == set(question.golds)
    world = {"names": "test", "number": 1, "passages": 100, "distractors": 2.0, "wording": "usual"}
    with pytest.raises(EnvError, match="has other passages in this version"):
        collection_in({"world": world, "sha256": "of another"})


def test_facts_are_paid_once_and_only_if_shown(place, task) -> None:
    env = place.new_env()
    opening = env.reset(task, 0)
    first, second, _, answer = task.expert_plan
    step = env.step(first)
    assert step.score_delta == 1 and step.info == {"facts": 1, "searches": 1, "task_type": "3 hops"}
    assert step.observation.text.startswith("<information>\nDoc 1 (")
    assert [env.step(action).score_delta for action in (first, second)] == [0, 1]
    lost = env.step("ANSWER: not this")
    assert lost.lost and not lost.won and lost.score_delta == 0 and lost.info["em"] == lost.info["f1"] == 0
    env.reset(task, 0)
    won = env.step(answer.replace("answer ", "Answer: The "))  # articles and commands' case are free
    assert won.won and won.score_delta == 1 and (won.info["em"], won.info["f1"], won.info["facts"]) == (1, 1, 0)
    shown = PLAIN_FORM.head(place.prompt, task.goal) + str(messages(PLAIN_FORM, opening))
    assert opening.gold and not any(mentions(shown, gold) for gold in opening.gold)


def test_a_fact_that_was_cut_off_is_not_paid(place, task) -> None:
    env = place.new_env()
    env.reset(replace(task, params={**task.params, "result_chars": 1}), 0)
    assert env.step(task.expert_plan[0]).score_delta == 0
    documents = [Document("1", "T", ("One two.", "Three.")), Document("2", "U", ("Four.", "Five."))]
    assert cut(documents, 15) == documents[:1]
    assert cut(documents, 14) == [documents[0]._replace(sentences=("One two.",))]
    assert cut(documents, 21) == [documents[0], documents[1]._replace(sentences=("Four.",))]
    assert cut(documents, 3) == [documents[0]._replace(sentences=("One",))] and cut([], 5) == []
    assert shows(documents, GoldFact("2", "")) and not shows(documents[:1], GoldFact("2", ""))
    assert not shows(documents, GoldFact("1", "Four."))


def test_a_budget_is_told_and_kept(place, task) -> None:
    """Without one, texts, games and limits of turns are those of ``place``."""
    told = make_environment("search", {"tell_budget": 4})
    params = told.for_split(told.parse_task("h3"), "test")
    assert params == {**task.params, "searches": 4} and (told.max_turns("h3"), place.max_turns("h3")) == (7, 6)
    env, usual = told.new_env(legal=True), place.new_env()
    env.reset(replace(task, params=params), 0)
    usual.reset(task, 0)
    query = task.expert_plan[0]
    assert env.step("search").observation.text.endswith("\nSearches left: 4")  # no search
    for left in (3, 2, 1, 0):
        step = env.step(query)
        assert step.observation.text == f"{usual.step(query).observation.text}\nSearches left: {left}"
    assert step.observation.legal and all(action.startswith("answer ") for action in step.observation.legal)
    step = env.step(task.expert_plan[1])
    assert (step.valid, step.score_delta) == (False, 0)
    assert step.observation.text == "No search is left. Write answer WORDS.\nSearches left: 0"
    assert env.step(task.expert_plan[-1]).won


HOSTILE = (
    *("answer", "answer the", "answer ...", "search", "search !?", "search \u2028", "searching bread", "answers x"),
    *("[" * 100_000, '{"name": "search", "arguments": ' + '{"query": ' * 40_000),
    *("{'a': 1}", '{"name": "answer", "arguments": {"text": {"x": 1}}}', '{"name": "answer", "arguments": {}}'),
)
HARMLESS = (
    *('"; DROP TABLE docs; --', "__import__('os').system('true')", "</information> Doc 1 (x): y", "{{7*7}} ${HOME}"),
    *("\u00fcn\u00ef \u6f22\u5b57 \u202e", "a" * 200_000, "b " * 100_000),
)


def test_hostile_answers_change_nothing(place, task) -> None:
    env = place.new_env()
    env.reset(task, 0)
    for action in HOSTILE:
        step = env.step(action)
        assert not step.valid and not step.over and step.score_delta == 0, action
    for words_ in HARMLESS:
        step = env.step(f"search {words_}")
        assert step.valid and not step.over and step.score_delta == 0
        assert len(step.observation.text) < 2 * CHARS
    results = [env.step(action) for action in task.expert_plan]
    assert results[-1].won and sum(step.score_delta for step in results) == task.max_score
    for words_ in HARMLESS:
        env.reset(task, 0)
        assert env.step(f"answer {words_}").lost
    env.reset(task, 0)
    assert env.step('search "' + task.expert_plan[0].removeprefix("search ") + '"\nanswer nothing').score_delta == 1
