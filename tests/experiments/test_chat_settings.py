"""One chat template for RL rollouts, SFT rows, an evaluated model and a chat endpoint."""

import asyncio
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_stub import chat_stub, says
from finished_run import finish
from omegaconf import DictConfig, OmegaConf
from transformers import AutoTokenizer
from verl.workers.config import HFModelConfig

from turngrid.config.base import ROOT
from turngrid.config.compose import compose
from turngrid.config.prompts import form_of
from turngrid.envs.hosting.pool import pool_of
from turngrid.experiments.evaluate import acting, evaluation_folder
from turngrid.experiments.evaluation import stage as evaluation
from turngrid.experiments.evaluation.policies import policies
from turngrid.experiments.evaluation.process import evaluate
from turngrid.experiments.evaluation.stage import Checkpoint, episode_specs, open_pools, roll_out_in_text
from turngrid.experiments.stages.sft import sft_config
from turngrid.records.process.exit_codes import Refusal
from turngrid.rollouts.chat_policy import Endpoint
from turngrid.rollouts.chat_settings import ChatSettings
from turngrid.rollouts.episode import Episode
from turngrid.rollouts.sampling import Sample, SampleRequest
from turngrid.rollouts.store import read_episodes, write_episodes
from turngrid.tasks.evaluation_sets import EvaluationSetting, evaluation_settings, prepare_evaluation_sets
from turngrid.tasks.rejection import without_ids
from turngrid.tasks.run import Run
from turngrid.tasks.splits import read_tasks
from turngrid.verl_plugin.rollout.agent_loop import TurngridAgentLoop
from turngrid.verl_plugin.sft import EpisodeSFTTrainer

COUNTING = ["env.name=counting_environment:Counting", "env.task=count-2", "eval.games=1", "env.workers=1"]
NO_THINKING = "+data.apply_chat_template_kwargs.enable_thinking=false"
QWEN3_LIKE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
    "{% endif %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with a template that depends on a setting."""
    folder = tmp_path_factory.mktemp("model") / "thinker"
    shutil.copytree(ROOT / "assets" / "tiny", folder)
    (folder / "chat_template.jinja").write_text(QWEN3_LIKE)
    return folder


def composed(model: Path, folder: Path, *overrides: str) -> tuple[DictConfig, EvaluationSetting]:
    config = compose([*COUNTING, f"model.path={model}", f"env.cache_dir={folder / 'cache'}", *overrides])
    run = Run(config, folder)
    prepare_evaluation_sets(run, also_own=True)
    (item,) = evaluation_settings(run)
    return config, item


def evaluated(config: DictConfig, item: EvaluationSetting, model: Path, folder: Path) -> Episode:
    """As the evaluation's process plays."""
    (folder / "evaluation").mkdir()
    run = Run(config, folder)
    before, after = [Checkpoint("base", "a"), Checkpoint("sft", "b")], Checkpoint("model", str(model))
    assert evaluation.process_config(run, [*before, after], False).run.models == {"start": "b"}
    policies = evaluation.process_config(run, [after], False).run.policies
    asyncio.run(evaluate(run, OmegaConf.to_container(policies)))
    (episode,) = evaluation.played(folder, "model")
    return episode


def rolled_out(config: DictConfig, item: EvaluationSetting, model: Path, like: Episode) -> Episode:
    """As RL plays, with the answers of ``like``."""

    class Again:
        def __init__(self) -> None:
            self.turns = iter(like.turns)

        async def sample(self, request: SampleRequest) -> Sample:
            turn = next(self.turns)
            return Sample(tuple(turn.action_ids), tuple(turn.logprobs))

    async def play() -> Episode:
        async with pool_of(config.env) as pool:
            loop = TurngridAgentLoop(Run(config, Path()).for_process(), AutoTokenizer.from_pretrained(model), "qwen3")
            loop.pool = pool
            (task,) = read_tasks(Path(item.evaluation_set.file))
            spec = loop.spec({"task": json.dumps(task.to_dict()), "global_steps": 1, "uid": "a"})
            return await loop.play(spec, Again())

    return asyncio.run(play())


def imitated(config: DictConfig, model: Path, folder: Path, episode: Episode) -> Episode:
    """As the SFT stage fills ids in."""
    file = folder / "demonstrations.jsonl"
    write_episodes(file, [without_ids(episode)])
    stage = sft_config(Run(config, folder), file, str(model))
    trainer = object.__new__(EpisodeSFTTrainer)
    trainer.run, trainer.model_config = stage.run, HFModelConfig(**stage.verl.model)
    trainer._build_dataset()
    (filled,) = read_episodes(file)
    row = trainer.train_dataset[0]["input_ids"].tolist()
    assert row[: len(filled.prompt_ids)] == filled.prompt_ids
    return filled


def asked(config: DictConfig, item: EvaluationSetting, model: Path, like: Episode) -> Iterator[list[int]]:
    """What the server of an endpoint that takes ``chat_template_kwargs`` makes of each request."""
    answers = itertools.chain((says(turn.response) for turn in like.turns), itertools.repeat(says("")))
    with chat_stub(lambda body: next(answers)) as stub:
        (candidate,) = policies([], Endpoint(stub.url, "thinker"), Run(config))

        async def play() -> None:
            run = Run(config)
            async with open_pools() as pool_of, acting(run, candidate, item) as policy:
                pool = await pool_of(run, item.evaluation_set.env)
                await roll_out_in_text(policy, episode_specs(run, item), pool, 1, lambda: None)

        asyncio.run(play())
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    for _, _, body in stub.seen:
        settings = body.get("chat_template_kwargs", {})
        assert settings == Run(config).chat.kwargs
        yield tokenizer.apply_chat_template(body["messages"], add_generation_prompt=True, return_dict=False, **settings)


def contexts(episode: Episode, end: int) -> list[list[int]]:
    """The ids between the turns, without the token that ends an action."""
    return [turn.context_ids[turn.context_ids[0] == end :] for turn in episode.turns if turn.context_ids]


FORMS = ("", NO_THINKING, "prompt=think_action prompt.thinking=false env.max_action_tokens=16")
FORMS += ("prompt=tool_call prompt.history=1 prompt.thinking=false env.max_action_tokens=16",)


@pytest.mark.parametrize("words", FORMS, ids=lambda words: words.split(" ")[0] or "as the model has it")
def test_all_four_render_alike(model: Path, tmp_path: Path, words: str) -> None:
    """With a history every prompt is rendered anew; in a growing row the first one is."""
    config, item = composed(model, tmp_path, *words.split())
    played = evaluated(config, item, model, tmp_path)
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    text, end = tokenizer.decode(played.prompt_ids), tokenizer.eos_token_id
    assert text.endswith("</think>\n\n" if words else "assistant\n") and form_of(config).cue.lower() in text
    for other in (rolled_out(config, item, model, played), imitated(config, model, tmp_path, played)):
        assert _prompts(other) == _prompts(played)
        assert contexts(other, end) == contexts(played, end)
    sent = list(asked(config, item, model, played))
    assert len(_prompts(played)) == (len(played.turns) if "history" in words else 1) and len(sent) > 1
    assert sent[: len(_prompts(played))] == _prompts(played)
    if "prompt=" not in words:
        for rendered, context in zip(sent[1:], contexts(played, end), strict=True):
            assert rendered[-len(context) :] == context


def _prompts(episode: Episode) -> list[list[int]]:
    return [episode.prompt_ids, *(turn.prompt_ids for turn in episode.turns if turn.prompt_ids)]


def test_a_template_of_ones_own_is_everybodys(model: Path, tmp_path: Path) -> None:
    """verl itself gives it to the rollouts."""
    own = QWEN3_LIKE.replace("m.role", "m.role | upper").replace("<think>", "<mull>")
    config, item = composed(model, tmp_path, NO_THINKING)
    config.actor_rollout_ref.model.custom_chat_template = own
    played = evaluated(config, item, model, tmp_path)
    demonstration = imitated(config, model, tmp_path, played)
    assert "<mull>" in AutoTokenizer.from_pretrained(model).decode(played.prompt_ids)
    assert demonstration.prompt_ids == played.prompt_ids


def test_a_run_is_evaluated_as_it_was_trained(model: Path, tmp_path: Path) -> None:
    run = finish(tmp_path / "a-run")
    shutil.copytree(model, run / "sft" / "model")
    (run / "attempts.jsonl").write_text("")
    plain, told, names = compose(COUNTING), compose([*COUNTING, NO_THINKING]), set()
    for settings in ({}, {"enable_thinking": False}, {"enable_thinking": True}):
        (run / "config.yaml").write_text(json.dumps({"data": {"apply_chat_template_kwargs": settings}}))
        (candidate,) = policies([str(run)], None, Run(plain))
        assert candidate.chat.kwargs == settings
        names.add(candidate.name)
        (said,) = policies([str(run)], None, Run(told))
        assert said.chat.kwargs == {"enable_thinking": False}, "what the command says wins"
    assert len(names) == 3, "rendered otherwise, games are played anew"
    react = compose([*COUNTING, "prompt=react", "prompt.history=2"])
    summed = compose([*COUNTING, "rollout_form=summary"])
    for key, config, other, words in (
        ("prompt", react, {"train_thoughts": False}, "prompt=react prompt.history=2"),
        ("rollout_form", summed, {}, "rollout_form.summary.length=64"),
    ):
        node: Any = OmegaConf.to_container(config[key], resolve=True)
        (run / "config.yaml").write_text(json.dumps({key: {**node, **other}}))
        with pytest.raises(Refusal, match=f"{words}: evaluate it with the same"):
            policies([str(run)], None, Run(plain))
        (found,) = policies([str(run)], None, Run(config))
        assert found.kind == "checkpoint" and evaluation_folder(Run(config)) != evaluation_folder(Run(plain))


def test_of_two_settings_the_first_wins() -> None:
    ours, theirs = ChatSettings({"a": 1}), ChatSettings({"a": 2, "b": 3}, "template")
    assert ours.over(theirs) == ChatSettings({"a": 1, "b": 3}, "template")
