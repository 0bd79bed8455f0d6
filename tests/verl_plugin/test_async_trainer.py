"""Which prompts an asynchronous trainer hands out, and what it takes for its step; on the trainer's
own methods, without its processes."""

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from ray.exceptions import ActorDiedError
from tensordict import TensorDict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils import fsdp_utils
from verl.workers.rollout.replica import TokenOutput

from turngrid.config import asynchronous
from turngrid.config.compose import compose
from turngrid.records.resume import RlFolder
from turngrid.rollouts.sampling import SampleLost, SampleRequest
from turngrid.rollouts.store import write_episodes
from turngrid.verl_plugin import weight_transfer
from turngrid.verl_plugin.rollout.agent_worker import AgentLoopWorker
from turngrid.verl_plugin.rollout.samplers import ServerSampler
from turngrid.verl_plugin.training import rollout_groups, task
from turngrid.verl_plugin.training.step import Step, in_order
from turngrid.verl_plugin.training.task import ColocateAsyncTrainer
from turngrid.verl_plugin.training.task_loader import Games
from turngrid.verl_plugin.weight_transfer import MeetingPoint, RayWeightTransfer

BATCH, STEPS = 4, 3


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Statuses by prompt, as the transfer queue would tell them."""
    found: dict[str, str] = {}
    for module in (task, rollout_groups):
        monkeypatch.setattr(module, "prompts_in_queue", lambda: found)
    return found


@pytest.fixture
def trainer(tmp_path: Path, queue: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> ColocateAsyncTrainer:
    """One whose data loader never ends and whose agent loops put every prompt into the queue."""
    made = object.__new__(ColocateAsyncTrainer)
    rl = RlFolder(tmp_path)
    made.config = OmegaConf.create(
        {
            "data": {"train_batch_size": BATCH, "gen_batch_size": 1},
            "run": {"episodes": str(rl.episodes), "folder": str(tmp_path)},
        }
    )
    made.now, made._prompts = Step(), Counter()
    made.methods = SimpleNamespace(write=lambda ask: None, share=lambda: None)  # none has a state
    made.groups, made.games = made.kind_of_groups(rl, BATCH, made.now), Games(made.config)
    made.global_steps, made.total_training_steps, made.timing_raw = 1, STEPS, {}

    def fetch(_: Any) -> TensorDict:
        return TensorDict({"uid": torch.zeros(1), "row": torch.zeros(1)}, batch_size=1)

    def submit(_: Any, batch: TensorDict) -> int:
        queue.update({uid: "pending" for uid in batch["uid"]})
        return len(batch)

    monkeypatch.setattr(PPOTrainer, "_fetch_one_gen_batch", fetch)
    monkeypatch.setattr(PPOTrainer, "_submit_batch_to_rollout", submit)
    return made


def step(trainer: ColocateAsyncTrainer, queue: dict[str, str], take: int = BATCH) -> None:
    trainer.on_step_begin()
    trainer._add_batch_to_generate()
    for uid in sorted(queue)[:take]:
        del queue[uid]
        trainer.groups.trained.append(uid)
    trainer.global_steps += 1


@pytest.mark.parametrize(("before", "ids"), [(BATCH, ((1, 8), (2, 4))), (2 * BATCH, ((1, 12),))])
def test_each_prompt_is_handed_out_once_and_no_more_than_will_be_trained_on(
    trainer: ColocateAsyncTrainer, queue: dict[str, str], before: int, ids: tuple[tuple[int, int], ...]
) -> None:
    """Some before the first step."""
    trainer._add_prompts_to_generate(before)
    seen = {*queue}
    for _ in range(STEPS):
        step(trainer, queue)
        assert len(trainer.groups.trained) == BATCH
        seen |= {*trainer.groups.trained, *queue}
    assert queue == {} and sorted(seen) == [f"{s:06d}-{i:04d}" for s, count in ids for i in range(count)]


def test_what_was_dropped_is_handed_out_again(trainer: ColocateAsyncTrainer, queue: dict[str, str]) -> None:
    trainer._add_prompts_to_generate(STEPS * BATCH)
    dropped = [queue.popitem() for _ in range(2)]
    assert trainer._add_prompts_to_generate(len(dropped)) == 2
    assert len(queue) == STEPS * BATCH
    assert trainer._add_prompts_to_generate(1) == 0


def test_a_step_takes_the_groups_of_its_rows_whenever_they_were_played(trainer: ColocateAsyncTrainer) -> None:
    for group in ("000001-0002", "000002-0000", "000002-0001"):
        write_episodes(trainer.groups.file(group), [])
    keys = ["000002-0000_1_0", "000001-0002_0_0", "000002-0000_0_0", "000001-0002_1_0"]
    batch = KVBatchMeta(keys=keys, tags=[{} for _ in keys], partition_id="train")
    assert in_order(trainer.groups.note(batch, {}), {}).keys == sorted(keys)
    assert [file.stem for file in trainer.groups.files()] == ["000001-0002", "000002-0000"]


# ---- asking for turns

REQUEST = SampleRequest("1/a/0", (1, 2), 8, 0.7, 1.0, -1, 5)


class Client:
    """Answers as verl's client does once it has put the parts of a cut-off answer together."""

    def __init__(self, **extra: Any) -> None:
        self.extra, self.asked = extra, []

    async def generate(self, **request: Any) -> TokenOutput:
        self.asked.append(request)
        return TokenOutput(token_ids=[3, 4], log_probs=[-0.5, -0.1], stop_reason="completed", extra_fields=self.extra)


def test_an_answer_knows_the_weights_of_its_first_and_its_last_token() -> None:
    client = Client(global_steps=4, min_global_steps=2, max_global_steps=4)
    sample = asyncio.run(ServerSampler(client).sample(REQUEST))
    assert (sample.version, sample.oldest) == (4, 2)
    assert client.asked[0]["sampling_params"]["seed"] == 5


@pytest.mark.parametrize(
    ("words", "seed", "named"),
    [
        ("cluster=cpu", 5, "1/a/0"),
        ("cluster=cpu rollout=vllm", 5, None),
        ("cluster=cpu rollout=vllm trainer.v1.trainer_mode=colocate_async", None, None),
        ("cluster=gpu1 rollout=transformers", 5, "1/a/0"),
        ("cluster=gpu1 rollout=vllm", None, None),
    ],
)
def test_which_server_is_given_a_seed_and_the_episode(words: str, seed: int | None, named: str | None) -> None:
    """vLLM a seed where answers can repeat, since its sampler pays for it, and never the episode;
    our own server both, since verl's client gives it another id each turn."""
    worker, client = object.__new__(AgentLoopWorker), Client(global_steps=4)
    worker.config, worker.llm_client = compose(["model=tiny", *words.split()]), client
    asyncio.run(worker._one_by_one.sample(REQUEST))
    params = client.asked[0]["sampling_params"]
    assert (params["seed"], params.get("episode")) == (seed, named)


def test_a_dead_server_loses_the_sample() -> None:
    async def dies(**_: Any) -> None:
        raise ActorDiedError

    with pytest.raises(SampleLost, match="rollout server died"):
        asyncio.run(ServerSampler(SimpleNamespace(generate=dies)).sample(REQUEST))


# ---- weights through Ray


def test_weights_that_are_put_aside_do_not_follow_the_update(one_process: None) -> None:
    """On a CPU, where a copy to the CPU is none."""
    model = torch.nn.Linear(2, 2)
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    before = model.weight.full_tensor().clone()
    state, spec = fsdp_utils.fsdp2_sharded_save_to_cpu(model)
    with torch.no_grad():
        model.weight.add_(1)
    fsdp_utils.fsdp2_sharded_load_from_cpu(model, state, spec)
    assert torch.equal(model.weight.full_tensor(), before)


def test_weights_arrive_as_they_were_sent(ray_session: None) -> None:
    trainer, server = RayWeightTransfer(1, is_master=True, dtype="bfloat16"), RayWeightTransfer(1)
    trainer.prepare()
    server.prepare()

    async def transfer(step: int) -> dict[str, torch.Tensor]:
        live = torch.full((2, 3), float(step))

        async def receive() -> dict[str, torch.Tensor]:
            return {name: tensor async for name, tensor in server.receive_weights(step)}

        receiving = asyncio.create_task(receive())
        await trainer.send_weights(iter([("w", live)]), step)
        live.zero_()  # the trainer goes on at once
        return await receiving

    for step in (0, 1):
        assert torch.equal(asyncio.run(transfer(step))["w"], torch.full((2, 3), float(step), dtype=torch.bfloat16))


def test_nobody_takes_the_weights_of_another_step() -> None:
    async def meet() -> list[Any]:
        place = MeetingPoint()
        await place.leave(1, ["old"])
        taking = asyncio.create_task(place.take(2))
        await asyncio.sleep(0.01)
        assert not taking.done()
        await place.leave(2, ["new"])
        return await taking

    assert asyncio.run(meet()) == ["new"]


def test_the_config_names_the_engine_as_it_is_registered() -> None:
    assert asynchronous.CPU_ENGINE == weight_transfer.ENGINE
