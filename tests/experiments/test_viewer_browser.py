"""The page in a real browser: what it shows, its filters and keys, and that it is safe."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import viewer_samples as samples
from browser_tab import Tab, launched, needs_browser
from playwright.sync_api import Browser, expect

from turngrid.experiments.viewer.page import fragment, page
from turngrid.experiments.viewer.sources import Shown, episode_files
from turngrid.records.credit import Credit
from turngrid.rollouts.episode import Episode

pytestmark = needs_browser
FOREIGN = """<!doctype html><style>* {{ display: none !important; color: red }}
html, body, div {{ display: block !important }}
</style><h1 id="top">Report</h1>{first}<p>between</p>{second}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as started:
        yield started


Open = Callable[..., Tab]  # of a page, or of episodes


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[Shown]:
    run = samples.run_folder(tmp_path_factory.mktemp("viewer") / "a-run")
    return [item for file in episode_files([run]) for item in file.shown()]


@pytest.fixture(scope="module")
def file(shown: list[Shown], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "page.html"
    path.write_text(page(shown, "a run", note="3 of 9 steps"), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page, or one of these episodes; the browser must not complain of it."""
    tabs: list[Tab] = []

    def open_one(what: Path | list[Shown], target: str = "", **look: Any) -> Tab:
        path = what if isinstance(what, Path) else tmp_path / "episodes.html"
        if not isinstance(what, Path):
            path.write_text(page(what, "episodes"), encoding="utf-8")
        tabs.append(Tab(browser, **look).open(path, target))
        return tabs[-1]

    yield open_one
    for tab in tabs:
        assert tab.complaints == []
        tab.page.context.close()


@pytest.fixture
def tab(opened: Open, file: Path, shown: list[Shown]) -> Iterator[Tab]:
    """At the first episode, a demonstration."""
    tab = opened(file, f"#{shown[0].address}")
    yield tab
    assert tab.asked == [tab.page.url.split("#")[0]]  # the file, and nothing else


# ---- reading


def test_an_episode_is_there_to_read(tab: Tab) -> None:
    tab.shows("31 episodes, 17 won", first="1")
    expect(tab.find(".note")).to_have_text("3 of 9 steps")
    assert tab.find(".turn[data-turn] .seen").all_text_contents() == [f"You see box {n}." for n in range(3)]
    assert [text.rstrip() for text in tab.find(".action > code").all_text_contents()] == ["open box"] * 3
    expect(tab.find(".end .badge")).to_have_text("won")
    expect(tab.find(".turn[data-turn='2'] .numbers summary")).to_contain_text("reward sparse +1 reward shaped +0.5")


def test_mask_colours_follow_who_wrote_the_token(tab: Tab, shown: list[Shown]) -> None:
    tab.find("[data-set=tokens]").click()
    tab.find("[data-set=mask]").click()
    tab.find(".row", has_text="step 1").first.click()
    episode = next(item.episode for item in shown if item.stage == "training")
    wanted = ["prompt"] * len(episode.prompt_ids)
    for turn in episode.turns:
        wanted += ["sampled"] * len(turn.action_ids) + ["environment"] * len(turn.context_ids)
    kinds = tab.find(".sequence .token").evaluate_all("nodes => nodes.map((node) => node.className.split(' ')[1])")
    assert kinds == wanted
    tab.find(".row", has_text="demonstrations").first.click()
    expect(tab.find(".sequence .given")).to_have_count(3 * len(episode.turns[0].action_ids))  # nobody sampled these


def test_a_window_that_moves_on_is_shown_where_it_begins(opened: Open) -> None:
    windowed = samples.episode(1)
    windowed.turns[0].prompt_ids = windowed.prompt_ids
    windowed.turns[1].role, windowed.turns[1].aside = "summary", True
    windowed.turns[2].prompt_ids = samples.ids("you are in another room, and remember one box.")
    tab = opened([Shown(windowed, tokenizer=samples.TINY)])
    expect(tab.find(".anew")).to_have_count(1)
    expect(tab.find("[data-turn='1'] .quiet-group")).to_contain_text("a summary, which the model saw in place of")
    expect(tab.find("header dl")).to_contain_text(f"turns{len(windowed.turns) - 1}")
    expect(tab.find("[data-turn='2'] .anew")).to_contain_text(f"saw {len(windowed.turns[2].prompt_ids)} prompt tokens")


def test_a_history_and_admissible_actions_are_told_once(opened: Open) -> None:
    """With ``prompt.history`` each turn has a prompt; the thought is among the tokens."""
    told = samples.episode(1)
    for number, turn in enumerate(told.turns):
        turn.admissible = ["open box", f"<b>take {number}</b>"]
        turn.action_ids, turn.thought = samples.ids(f"<think>plan {number}</think><action>open box</action>"), "plan"
        turn.prompt_ids = samples.ids(f"you are in a room, and remember {number}.")
    tab = opened([Shown(told, tokenizer=samples.TINY)])
    expect(tab.find(".anew")).to_have_count(1)
    expect(tab.find("[data-turn='1'] .anew")).to_contain_text("each turn has a prompt of its own")
    expect(tab.find(".meant.thought")).to_have_count(0)
    assert tab.find(".action > code").first.inner_text().count("plan 0") == 1
    expect(tab.find("[data-turn='2'] .admissible p")).to_have_text("open box, <b>take 2</b>")
    expect(opened([Shown(told)]).find(".meant.thought")).to_have_count(3)  # without a tokenizer


def test_an_answer_without_an_action_and_what_shaping_added_are_told(opened: Open) -> None:
    shaped = samples.episode(1, shaping={"format": -0.25})
    shaped.turns[0].valid, shaped.turns[1].valid, shaped.turns[1].parsed = False, False, False
    for turn in shaped.turns:
        turn.rewards["trained"] = -0.25 * (not turn.parsed)
    tab = opened([Shown(shaped, tokenizer=samples.TINY)])
    assert tab.find(".flag").all_text_contents() == ["not understood", "no action"]
    facts = " ".join(tab.find("header dl").inner_text().split())
    for words in ("without an action 1", "reward trained \u22120.25", "shaping format \u22120.25"):
        assert words in facts
    expect(tab.find(".strip button").nth(1)).to_have_attribute("title", "turn 2\nreward \u22120.25\nno action")


def test_a_token_tells_its_own_numbers(tab: Tab, shown: list[Shown]) -> None:
    item = [item for item in shown if item.credit][5]  # step 2, sample 5 of 8: game 101, sample 1
    tab.page.evaluate(f"location.hash = '{item.address}'")
    expect(tab.find("h2 em")).to_have_text("101")
    per_turn = len(item.episode.turns[0].action_ids)
    token = tab.find(".turn[data-turn='1'] .action .token").nth(1)
    token.hover()
    place = per_turn + 1
    text = token.get_attribute("title")
    advantage, value = (
        f"{number[place]:+.3g}".replace("-", "\u2212") for number in (item.credit.advantages, item.credit.values)
    )
    told = {
        "log-prob": "\u22120.500 nats",
        "probability": "0.607",
        "advantage": advantage,
        "return": "+1",
        "value": value,
    }
    for name, number in told.items():
        assert re.search(rf"{name}\s+{re.escape(number)}(\s|$)", text), (name, number, text)


def test_advantages_of_either_sign_have_their_own_colour(tab: Tab, shown: list[Shown]) -> None:
    item = next(item for item in shown if item.credit)
    tab.page.evaluate(f"location.hash = '{item.address}'")
    expect(tab.find(".row[aria-selected=true]")).to_contain_text("step 2")
    signs = tab.find(".action .token").evaluate_all("nodes => nodes.map((node) => node.className.split(' ')[1])")
    assert signs == ["minus" if number < 0 else "plus" if number else "" for number in item.credit.advantages]
    assert tab.find(".strip rect.minus").count() + tab.find(".strip rect.plus").count() == len(item.episode.turns)


# ---- filters


def test_order_and_filters_by_outcome_task_step_and_reward(tab: Tab) -> None:
    tab.find("select[name=order]").select_option("reward, lowest first")
    expect(tab.find(".row").first.locator(".reward")).to_have_text("0  0")
    tab.find(".chip.out_of_turns").click()
    tab.shows("14 of 31 episodes, 0 won")
    tab.find(".chip.won").click()
    tab.find(".chip.out_of_turns").click()
    tab.shows("17 of 31 episodes, 17 won")
    tab.find("select[name=task]").select_option("textworld/w4-o6-q8")
    tab.shows("3 of 31 episodes, 3 won", first="0")
    tab.find(".reset").click()
    tab.shows("31 episodes, 17 won")
    tab.find("[name=step-from]").fill("2")
    tab.find("[name=step-to]").fill("2")
    tab.shows("8 of 31 episodes, 4 won", first="100")
    tab.find("select[name=reward]").select_option("shaped")
    tab.find("[name=reward-from]").fill("0.5")
    tab.shows("4 of 31 episodes, 4 won")


def test_search_reads_all_text_and_marks_what_it_finds(tab: Tab) -> None:
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("BOX 4.")
    tab.shows("6 of 31 episodes, 0 won", first="100")  # five turns: sample 3 of each game
    assert tab.find("mark").all_text_contents() == ["box 4."]
    tab.find(".search").fill("101")
    tab.shows("12 of 31 episodes, 6 won", first="101")  # by its number
    tab.find(".search").fill("nowhere to be found")
    tab.shows("0 of 31 episodes, 0 won")
    tab.find(".search").fill("")
    tab.shows("31 episodes, 17 won")


# ---- getting about


def test_keys_lead_from_one_to_the_next(tab: Tab) -> None:
    press = tab.page.keyboard.press
    current = tab.find(".row[aria-selected=true]")
    for key, number in (("j", 1), ("j", 2), ("k", 1), ("k", 0), ("k", 0)):
        press(key)
        expect(current).to_have_attribute("data-number", str(number))
    press("n")
    expect(tab.find(".turn.here")).to_have_attribute("data-turn", "0")
    press("v")
    expect(tab.find(".sequence")).to_be_visible()
    tab.find(".row", has_text="sample 2").first.click()
    press("]")
    expect(current).to_contain_text("sample 3")
    press("?")
    expect(tab.find("dialog")).to_be_visible()


def test_an_address_opens_its_episode_and_none_the_last_step(opened: Open, file: Path, shown: list[Shown]) -> None:
    expect(opened(file).find(".row[aria-selected=true]")).to_contain_text("step 3")
    tab = opened(file, f"#{shown[20].address}")
    expect(tab.find(".row[aria-selected=true]")).to_have_attribute("data-number", "20")
    expect(tab.find("h2 .link")).to_have_text(f"#{shown[20].address}")
    tab.page.keyboard.press("j")
    expect(tab.find(".row[aria-selected=true]")).to_have_attribute("data-number", "21")
    assert tab.page.url.endswith(f"#{shown[21].address}")


def test_two_checkpoints_on_one_game_side_by_side(opened: Open) -> None:
    """And the choice stays, for the next game."""
    played = [(game, stage) for stage in ("base", "rl") for game in (1, 2)]
    shown = [
        Shown(samples.episode(game, turns=2 + (stage == "rl")), "a-run", f"evaluation/{stage}", f"{stage}:{game}")
        for game, stage in played
    ]
    tab = opened(shown)
    expect(tab.find(".episode")).to_have_count(1)
    tab.find("select[name=beside]").select_option(label="evaluation/rl")
    expect(tab.find(".episode")).to_have_count(2)
    assert [tab.find(f".episode >> nth={place} >> .action").count() for place in (0, 1)] == [2, 3]
    tab.page.keyboard.press("j")
    expect(tab.find("h2 em")).to_have_text(["2", "2"])
    tab.find("select[name=beside]").select_option("")
    expect(tab.find(".episode")).to_have_count(1)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One step of three games. The first's samples earned the same. The second's branch off, with a
    replayed beginning; the branch comes first. Of the third's, one has an answer without action."""
    flat = [samples.episode(1, step=1, sample=sample) for sample in range(2)]
    tree = [samples.episode(2, step=1, sample=sample, won=sample == 1, parent=[None, 0][sample]) for sample in range(2)]
    tree[1].turns[0].shared = True
    tree[0].prefix, tree[0].trained = [samples.turn(9)], False
    other = [samples.episode(3, step=1, sample=sample, won=sample == 1) for sample in range(2)]
    other[0].turns[1].valid = other[0].turns[1].parsed = False
    path = tmp_path_factory.mktemp("group") / "group.html"
    shown = [
        Shown(item, "a-run", "training", str(place), told(item), samples.TINY, "sparse")
        for place, item in enumerate([*flat, *reversed(tree), *other])
    ]
    path.write_text(page(shown, "a group"), encoding="utf-8")
    return path


def told(episode: Episode) -> Credit:
    """Layers of 0.5 by the estimator, less 0.25 by a method; 0 for the first game."""
    gain = 0.0 if episode.seed == 1 else 0.5
    layers = {"grpo": [gain] * len(episode.turns), "gigpo": [gain / 2] * len(episode.turns)}
    return replace(samples.credit(episode), layers=layers)


def test_groups_without_signal_and_turns_without_an_action_can_be_chosen(opened: Open, group: Path) -> None:
    tab = opened(group)
    expect(tab.find("h2 em")).to_have_text("2")  # the first with something to learn from
    expect(tab.find("[data-flaw]")).to_have_count(2)
    tab.find("[data-flaw=flat]").click()
    tab.shows("2 of 6 episodes, 0 won", first="1")
    expect(tab.find(".others .quiet-group")).to_contain_text("no signal")
    tab.find("[data-flaw=unparsed]").click()
    tab.shows("0 of 6 episodes, 0 won")
    tab.find("[data-flaw=flat]").click()
    tab.shows("1 of 6 episodes, 0 won", first="3")


def test_equal_observations_are_one_state(opened: Open, group: Path) -> None:
    tab = opened(group)
    tab.find(".row").last.click()
    expect(tab.find(".turn[data-turn='2'] .numbers summary")).to_contain_text("credit grpo +0.5, gigpo \u22120.25")
    tab.find(".group summary").click()
    expect(tab.find(".group .state")).to_have_count(4)  # three boxes, and the end that both came to
    assert tab.find(".group .state text").all_text_contents() == ["2"] * 4
    assert tab.find(".group .edge").evaluate_all("nodes => nodes.map((node) => node.dataset.count)") == ["2"] * 3
    title = tab.find(".group .edge title").first.text_content()
    assert title and title.startswith("open box\n2 times\nadvantage ")
    tab.find(".group .state").nth(2).click()
    expect(tab.find(".turn.here")).to_have_attribute("data-turn", "2")


def test_branches_part_where_they_were_sampled_apart(opened: Open, group: Path) -> None:
    tab = opened(group)
    tab.find(".group summary").click()
    expect(tab.find(".group summary")).to_have_text("The tree of these samples")
    expect(tab.find(".group .state")).to_have_count(2 + 2 * 2)  # the root and the turn they share, then two of each
    expect(tab.find(".group .edge")).to_have_count(1 + 2 * 2)
    counts = tab.find(".group .state text").all_text_contents()
    assert counts == ["2", "2"], "both begin with the same turn"
    expect(tab.find(".turn[data-turn='0']")).to_contain_text("sampled in another episode of this group")
    tab.page.keyboard.press("]")
    expect(tab.find(".turn.replayed:not([data-turn])")).to_contain_text("replayed, not learned from")


# ---- size, safety, company


def test_of_thousands_only_those_in_sight_are_drawn(opened: Open) -> None:
    many = [Shown(samples.episode(game, won=game % 2 == 0, step=1 + game // 100, turns=1)) for game in range(5000)]
    tab = opened(many)
    tab.shows("5,000 episodes, 2,500 won")
    assert tab.find(".row").count() < 40
    tab.find(".list").evaluate("list => { list.scrollTop = list.scrollHeight; }")
    expect(tab.find(".row").last).to_contain_text("4999")
    assert tab.find(".row").count() < 40
    tab.find(".row").last.click()
    expect(tab.find("h2 em")).to_have_text("4999")


def test_what_models_and_environments_say_is_text(opened: Open, tmp_path: Path) -> None:
    attacked = samples.episode(1, goal=samples.ATTACK, final_observation=samples.ATTACK, error=samples.ATTACK)
    attacked.messages[0]["content"] = samples.ATTACK
    attacked.task = f"textworld/{samples.ATTACK}/{samples.ATTACK}"
    attacked.turns[0] = replace(
        attacked.turns[0], observation=samples.ATTACK, action=samples.ATTACK, valid=False,
        info={samples.ATTACK: samples.ATTACK}, rewards={samples.ATTACK: 1.0},
    )  # fmt: skip
    attacked.turns[1] = replace(attacked.turns[1], observation="Here:\n#_P#\n#_O#\n####")
    path = tmp_path / "attacked.html"
    shown = [Shown(attacked, run=samples.ATTACK, stage=samples.ATTACK)] * 2
    path.write_text(page(shown, samples.ATTACK, note=samples.ATTACK))
    tab = opened(path)
    expect(tab.find(".turn[data-turn='0'] .seen")).to_have_text(samples.ATTACK)
    assert tab.find(".map").all_text_contents() == ["Here:\n#_P#\n#_O#\n####"]  # in a font of equal widths
    tab.find(".numbers summary").first.click()
    tab.find(".told summary").click()
    for key in ("v", "c", "v", "?"):
        tab.page.keyboard.press(key)
    assert tab.page.evaluate("window.attacked") is None
    assert tab.find("img, aside script, main script").count() == 0
    assert tab.page.title() == samples.ATTACK


def test_fragments_live_in_a_foreign_page_and_leave_it_alone(opened: Open, shown: list[Shown], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(FOREIGN.format(first=fragment(shown, limit=7), second=fragment(shown[7:])), encoding="utf-8")
    tab = opened(path, "#top")
    expect(tab.find(".turngrid-viewer[data-ready]")).to_have_count(2)
    assert tab.find(".total span").all_text_contents() == ["7 episodes, 5 won", "24 episodes, 12 won"]
    expect(tab.find(".turn .seen").first).to_be_visible()
    assert tab.page.url.endswith("#top")
    assert tab.page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(255, 0, 0)"


def test_dark_is_dark_and_narrow_is_readable(opened: Open, file: Path) -> None:
    tab = opened(file, scheme="dark", width=420)
    light = tab.find(".viewer").evaluate("node => getComputedStyle(node).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(light) < 60
    assert tab.find(".episode").evaluate("node => node.scrollWidth <= node.clientWidth")
    assert tab.find(".list").evaluate("node => node.clientHeight > 100")
