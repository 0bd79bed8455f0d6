"""A run with each rollout form: what is trained, told and charged. test_methods_killed.py kills
them."""

from pathlib import Path
from typing import Any

import pytest
import small
from chat_stub import chat_stub, says

pytestmark = pytest.mark.slow  # its pieces are tested on real games in tests/rollouts and tests/verl_plugin
PROMPTS, SAMPLES = 4, 4
FORMS = {
    "tcod": ("rollout_form=tcod", "rollout_form.tcod.every=1"),
    "retry": ("rollout_form=retry",),
    "tree": ("algo=tree_grpo", "rollout_form.tree.nodes=2"),
    "arpo": ("algo=arpo",),
    "summary": ("rollout_form=summary", "rollout_form.summary.tokens=280", "rollout_form.summary.length=12"),
}
OVERRIDES = ("budget=rl_only", "budget.sft_share=0", "budget.units=100", "budget.count=rollouts", "eval.games=4")


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def run(form: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.finish(tmp_path_factory.mktemp(form), *OVERRIDES, *FORMS[form])


def episodes(run: Path, step: int) -> list[dict[str, Any]]:
    return small.lines(run / "rl" / "episodes" / f"{step:06d}.jsonl")


def test_every_episode_played_is_charged_and_own_tokens_alone_are_counted(run: Path, form: str) -> None:
    entries = [entry for entry in small.lines(run / "ledger.jsonl") if entry["kind"] == "rl_episode"]
    metrics = small.lines(run / "rl" / "metrics.jsonl")
    for entry, line in zip(entries, metrics, strict=True):
        played = episodes(run, entry["step"])
        own = [turn for episode in played for turn in episode["turns"] if not turn.get("shared")]
        assert entry["count"] == entry["units"] == line["rollout/episodes"] == len(played)
        assert entry["tokens"] == line["rollout/sampled_tokens"] == sum(len(turn["action_ids"]) for turn in own)
        assert sum(episode.get("trained", True) for episode in played) == PROMPTS * SAMPLES
        assert {"tcod": 16, "tree": 24, "arpo": 16}.get(form, len(played)) == len(played)
    assert metrics[-1]["budget/tokens"] == sum(entry["tokens"] for entry in entries)
    assert metrics[-1]["budget/units"] == sum(entry["units"] for entry in entries) <= 100


def test_success_says_what_it_is_of(run: Path, form: str) -> None:
    apart = {"tcod": "train_after_prefix", "retry": "train_guided"}.get(form, "train_branched")
    marked = {"tcod": "prefix", "retry": "guidance"}
    for line in small.lines(run / "rl" / "metrics.jsonl"):
        played = episodes(run, line["step"])
        kinds: dict[str, list[bool]] = {"train": [], apart: []}
        for episode in played:
            shared = any(turn.get("shared") for turn in episode["turns"])
            helped = bool(episode.get(marked[form])) if form in marked else shared
            kinds[apart if helped else "train"].append(episode["outcome"] == "won")
        for name, won in kinds.items():
            assert line.get(f"success/{name}") == (pytest.approx(sum(won) / len(won)) if won else None)
        turns = [turn for episode in played if episode.get("trained", True) for turn in episode["turns"]]
        rows = 16 + sum(turn.get("aside", False) for turn in turns)  # verl's mean is over rows
        assert line["reward/trained/mean"] == pytest.approx(sum(turn["rewards"]["sparse"] for turn in turns) / rows)
    for line in small.lines(run / "evaluation" / "rl.jsonl"):
        assert not {"prefix", "guidance", "parent"} & set(line)


def test_a_run_outlives_failures_of_the_opponents_endpoint(tmp_path: Path) -> None:
    """A request in sixty is refused, the same one whenever it is sent: its group is replaced."""

    def answer(body: dict[str, Any]) -> tuple[int, str]:
        return says("deny") if body["seed"] % 60 else (401, "not now")

    with chat_stub(answer) as stub:
        keys = {"opponent": "endpoint", "endpoint": stub.url, "endpoint_model": "m"}
        words = [f"rollout_form.self_play.{key}={value}" for key, value in keys.items()]
        words += ["env=two_player", "env.id=SimpleNegotiation-v0", "model=tiny_all", "algo=spiral"]
        run = small.finish(tmp_path, *OVERRIDES, *words, "data.max_prompt_length=640", "data.max_response_length=1408")
    lines = small.lines(run / "rl" / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3] and sum(line["rollout/failed_groups"] for line in lines) > 0
    for line in lines:
        played = episodes(run, line["step"])
        assert len(played) == PROMPTS * SAMPLES and {episode["opponent"] for episode in played} == {"endpoint"}
