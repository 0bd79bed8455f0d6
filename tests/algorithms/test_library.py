"""The library of experience, as a composed config makes it."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from turngrid.algorithms.library.clusters import Clusters, common_subsequence, similar
from turngrid.algorithms.library.experience import EXAMPLE, WARNING, Entry, Experience
from turngrid.algorithms.library.texts import Skill, Skills
from turngrid.algorithms.slots import OfferedEpisode
from turngrid.config.compose import Composer
from turngrid.config.method_settings import methods_of
from turngrid.rollouts.episode import Turn

Made = Callable[..., Experience]
HALL, CELLAR = "You are in a hall.", "A damp cellar, without a lamp"
NOW = ("warmup=0", "least=0")


@pytest.fixture
def chosen(composed: Composer) -> Made:
    def chosen(*settings: str) -> Experience:
        words = ["model=smollm2_135m", "library=experience", *(f"library.experience.{one}" for one in settings)]
        return methods_of(composed(words)).of("library", 1)["experience"]

    return chosen


def episode(reward: float, *turns: tuple[str, str], won: bool = False, rise: int | None = None) -> OfferedEpisode:
    played = [Turn(seen, action, score_delta=float(number == rise)) for number, (seen, action) in enumerate(turns)]
    return OfferedEpisode("game", "win", won, reward, played)


def held(library: Experience) -> list[dict[str, Any]]:
    return library.state()["entries"]


def test_similarity_is_that_of_the_longest_common_subsequence() -> None:
    """Against the textbook's table; 2 L / (n + m) decides."""

    def table(one: str, other: str) -> int:
        row = [0] * (len(other) + 1)
        for a in one:
            before = row[:]
            row = [0]
            for number, b in enumerate(other):
                row.append(before[number] + 1 if a == b else max(before[number + 1], row[-1]))
        return row[-1]

    draw = random.Random(0)
    for _ in range(200):
        one, other = ("".join(draw.choices("abc d", k=draw.randrange(12))) for _ in range(2))
        longest = table(one, other)
        assert common_subsequence(one, other) == longest
        ratio = 2 * longest / (len(one) + len(other)) if one or other else 1.0
        assert similar(one, other, ratio) and (ratio == 1 or not similar(one, other, ratio + 1e-9))
    assert similar("abcd", "abxd", 0.75) and not similar("abcd", "abxd", 0.76)


def test_a_text_belongs_to_the_first_similar_cluster() -> None:
    clusters = Clusters(0.75)
    assert [clusters.join(text) for text in ("abcd", "abce", "axyd", "abxd", " abcd\n")] == [0, 0, 1, 0, 0]
    assert clusters.find("nothing") is None and clusters.join("nothing") == 2 and clusters.find("nothing") == 2


def test_capacity_is_that_of_the_specification(chosen: Made) -> None:
    """Scores 1 .5 .2 and candidates .2 .7 1: refused; .2 goes; .5 goes. The two of score 1 are
    shown, the newer first."""
    library = chosen("capacity=3", "novelty=1", *NOW)
    for number, score in enumerate((1, 0.5, 0.2, 0.2, 0.7, 1)):
        library.admit([Entry(f"plan {number}", EXAMPLE, score, HALL)])
    assert [entry["score"] for entry in held(library)] == [1, 0.7, 1]
    assert library.look_up("game", HALL, 1) == "What worked before:\n- plan 5\n- plan 0"
    assert library.look_up("game", CELLAR, 1) == ""


def test_zones_of_warnings_and_levels_are_apart_and_so_many_enter_a_step(chosen: Made) -> None:
    library = chosen("capacity=1", "warnings_capacity=1", "novelty=1", "strategies=2", "warnings=1", *NOW)
    zones = [EXAMPLE, "pattern", "principle", WARNING, WARNING]
    library.admit(Entry(f"text {zone} {number}", zone, number, HALL) for number, zone in enumerate(zones))
    assert [entry["zone"] for entry in held(library)] == [EXAMPLE, "pattern", WARNING]
    assert library.logged == {"strategies": 2, "warnings": 1, "new": 3, "clusters": 1}


def test_what_is_not_new_is_refused(chosen: Made) -> None:
    library = chosen("novelty=0.75")
    library.admit([Entry(text, EXAMPLE, 1.0, HALL) for text in ("abcd", "abxd", "axyz", "")])
    assert [entry["text"] for entry in held(library)] == ["abcd", "axyz"]


def test_it_is_off_in_the_warm_up_and_with_few_entries(chosen: Made) -> None:
    library = chosen("warmup=2", "least=1")
    library.admit([Entry("go", EXAMPLE, 1.0, HALL)])
    assert not library.look_up("game", HALL, 3)
    library.admit([Entry("take", EXAMPLE, 1.0, HALL)])
    assert not library.look_up("game", HALL, 2) and library.look_up("game", HALL, 3)


def test_a_cluster_without_entries_gets_similar_ones_of_the_whole_library(chosen: Made) -> None:
    """Found by the text or the observation of an entry; linked when the episodes are offered."""
    library = chosen("similarity=0.8", *NOW)
    library.offer(1, [episode(0, ("abcdef", "wait"))])  # a cluster, and a warning in it
    near, far = "abcdefgh", "abcdefghij"  # similar to the one before each only
    library.admit([Entry("12345678", EXAMPLE, 1.0, near)])
    assert held(library)[1]["clusters"] == [0]  # the first similar cluster
    assert "12345678" in library.look_up("game", far, 1)
    assert "12345678" in library.look_up("game", "1234567", 1)
    library.offer(2, [episode(0, (far, "wait"))])
    assert held(library)[1]["clusters"] == [0, 1]


def test_episodes_above_the_median_and_the_others(chosen: Made) -> None:
    """Rewards 0 0 1 2: the median is 0.5. With 1 1 1 0 none is above it."""
    library = chosen("episodes=1")
    four = [episode(reward, (HALL, f"act {number}")) for number, reward in enumerate((0.0, 0.0, 1.0, 2.0))]
    assert library.sides(four) == ([four[3]], [four[0]])
    assert chosen().sides(four) == ([four[3], four[2]], [four[0], four[1]])
    mostly = [episode(reward, (HALL, "act")) for reward in (1.0, 1.0, 1.0, 0.0)]
    assert library.sides(mostly) == ([], [mostly[3]]) and library.sides([]) == ([], [])


def test_the_rule_writes_the_actions_before_a_rise_and_before_the_end(chosen: Made) -> None:
    library = chosen(*NOW)
    path = [(f"place {number} of many", f"act {number}") for number in range(5)]
    library.offer(1, [episode(1.0, *path, won=True, rise=3), episode(0.0, (CELLAR, "wait"), (CELLAR, "sleep"))])
    found = [(entry["text"], entry["zone"], entry["score"], entry["observation"]) for entry in held(library)]
    assert found == [
        ("act 1, then act 2, then act 3", EXAMPLE, 1.0, "place 1 of many"),
        ("wait, then sleep", WARNING, 0.0, CELLAR),
    ]


def test_the_policy_writes_about_the_best_and_the_worst(chosen: Made) -> None:
    """What is asked waits in the state; an answer may begin with its level."""
    library = chosen("writer=policy", *NOW)
    won = episode(0.5, (HALL, "go east"), won=True)  # the median: it belongs to neither
    library.offer(1, [episode(1.0, (HALL, "open door"), won=True), won, episode(0.0, (CELLAR, "wait"))])
    assert not held(library)
    again = chosen("writer=policy", *NOW)
    again.load(library.state())
    won, lost = again.requests()
    assert won.lines == ["Goal: win", HALL, "Action taken: open door", "The attempt succeeded."] and won.length == 64
    assert "succeed?" in won.question and "fail?" in lost.question
    again.write(2, ["\nPattern: open doors.\nMore", "Never wait."])
    assert [(entry["text"], entry["zone"]) for entry in held(again)] == [
        ("open doors.", "pattern"),
        ("Never wait.", WARNING),
    ]
    assert not again.requests()


def test_state_and_clusters_of_a_group(chosen: Made) -> None:
    """What is looked up stays; states of a group are the same clusters, new ones in a copy."""
    library = chosen("similarity=0.75", *NOW)
    library.offer(1, [episode(0.0, ("abcd", "wait"))])
    again = chosen("similarity=0.75", *NOW)
    again.load(library.state())
    assert again.look_up("game", "abxd", 1) == library.look_up("game", "abxd", 1) == "What failed before:\n- wait"
    before, states = again.state(), again.states()
    assert [states(text) for text in ("abce", "12345", "12344")] == ["abcd", "12345", "12345"]
    assert again.state() == before == library.state()


# ---- skills of self_distill


def test_the_bound_of_a_skill() -> None:
    """Mean .5 of 4 uses and .2 of 1: .5 + sqrt(2 ln 5 / 4) and .2 + sqrt(2 ln 5); unused ones go
    first."""
    used, rare = Skill("used", 4, 2.0), Skill("rare", 1, 0.2)
    assert [skill.bound(5) for skill in (used, rare)] == pytest.approx([1.39706, 1.99412], abs=1e-5)
    bank = Skills(3, None)
    bank.load({"skills": {"game": [vars(used), vars(rare)]}, "asked": []})
    assert bank.text("game") == "rare" and bank.text("other") == ""
    bank.offer([episode(1.0, (HALL, "win"), won=True)])  # another skill, which nothing used yet
    assert bank.text("game") == "Workflow: win."
    assert bank.state()["skills"]["game"][1] == {"text": "rare", "uses": 2, "total": 1.2}


@pytest.mark.parametrize("writer", ["rule", "policy"])
def test_skills_of_a_composed_term(composed: Composer, writer: str) -> None:
    """No context before there is a skill; the state of the bank goes on."""
    words = ["algo=rloo", "terms=[self_distill]", "model=smollm2_135m", "terms.self_distill.hint=skill"]
    config = composed([*words, f"terms.self_distill.writer={writer}", "terms.self_distill.skills=1"])
    term, again = (methods_of(config).of("terms", 1)["self_distill"] for _ in range(2))
    row = SimpleNamespace(task="game", with_line=lambda text: [*map(ord, text)], after_prompt=lambda: ([1], [True]))
    assert term.contexts(row) == [] and term.in_rollout
    lost = episode(0.0, (HALL, "sing"))
    lost.turns[0].valid = False
    term.offer(1, [lost])
    assert term.logged == {"skills": 0} and not term.requests()
    term.offer(2, [lost, episode(1.0, (HALL, "open door"), (CELLAR, "take lamp"), won=True)])
    again.load(term.state())
    if writer == "policy":
        (request,) = again.requests()
        assert "Action taken: take lamp" in request.lines and request.length == 96
        again.write(3, ["Take\nthe lamp."])
    text = "Take the lamp." if writer == "policy" else "Workflow: open door, take lamp. Not understood: sing."
    (context,) = again.contexts(row)
    assert (bytes(context.ids[:-1]).decode(), context.scored[-1], context.turn) == (text, True, 0)
    again.offer(3, [lost])
    assert again.state()["skills"]["game"] == [{"text": text, "uses": 1, "total": 0.0}] and not again.requests()
