"""When our rollout server is asked for entropies.

``test_engines`` has the trainer's own beside them, ``test_steps`` a step with either.
"""

from dataclasses import replace

import pytest
from step_probe import TINY

from turngrid.algorithms.chosen import ALGO, Chosen, slots_of
from turngrid.algorithms.registry import ON_BATCH
from turngrid.config.compose import composer
from turngrid.rollouts.episode import Turn
from turngrid.rollouts.sampling import SampleRequest
from turngrid.verl_plugin.rollout.agent_loop import entropies_of, entropies_wanted
from turngrid.verl_plugin.servers.transformers_server.generator import Generator

TEMPERATURE = 0.7
PASS = "algorithm.rollout_correction.bypass_mode=false"


def test_asking_for_entropies_changes_no_answer() -> None:
    generator = Generator.from_pretrained(str(TINY))
    bare = [SampleRequest(f"{n}", (5, 6 + n), 4, TEMPERATURE, seed=n) for n in range(3)]
    answers = []
    for requests in (bare, [replace(one, full_entropies=one.seed != 1) for one in bare]):
        generator.memory.clear()
        answers.append(generator.generate(requests))
    assert [replace(answer, full_entropies=()) for answer in answers[1]] == answers[0]
    asked = [len(answer.full_entropies) == len(answer.token_ids) for answer in answers[1]]
    assert asked == [True, False, True] and not answers[1][1].full_entropies


@pytest.mark.parametrize(
    ("words", "bypassed", "asked"),
    [
        ("algo=grpo", True, False),
        ("algo=aem", True, True),
        ("algo=epo", True, True),
        (f"algo=aem {PASS}", False, False),
        ("algo=aem rollout=vllm", False, False),
        ("algo=aem trainer.v1.trainer_mode=colocate_async", False, False),
        ("algo=gigpo rollout=vllm", True, False),
    ],
)
def test_the_trainer_has_its_pass_where_the_server_cannot_tell(words: str, bypassed: bool, asked: bool) -> None:
    with composer() as compose:
        config = compose(["model=tiny", *words.split()])
    assert config.algorithm.rollout_correction.bypass_mode is bypassed
    assert entropies_wanted(config, Chosen(slots_of(config, (*ON_BATCH, ALGO)))) is asked


def test_a_row_has_the_entropies_of_its_action_tokens() -> None:
    told, untold = Turn("", "", [1, 2], [-1.0] * 2, [9], full_entropies=[0.5, 0.25]), Turn("", "", [1], [-1.0])
    assert entropies_of([told])["entropy"].tolist() == [0.5, 0.25, 0.0] and not entropies_of([untold])
    with pytest.raises(ValueError, match="of every token"):
        entropies_of([told, untold])
