"""CPU seconds of the rollout server for a recorded step: this checkout beside another commit, in
turns.

    python -m benchmarks.replay RUN_FOLDER COMMIT [--rounds 3]

The requests of the first RL step of a finished run (rollout=transformers, rollout_form=linear), in
the lockstep batches in which they were asked, go through the generator with the weights of its SFT
stage. Each side samples once a round, in a process and thread of its own. Printed are medians, how
many turns got other tokens than were recorded, and the largest difference of a log-probability
where the tokens are the same. COMMIT: a5a3a04 or later, whose modules have the names used here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

ONE_SIDE = "--one-side"


def batches(run: Path) -> list[list[tuple[Any, Any]]]:
    """Return the lockstep batches in their order: requests, and the turns that answered them."""
    from omegaconf import OmegaConf

    from turngrid.rollouts.store import read_episodes
    from turngrid.verl_plugin.rollout.agent_worker import LOCKSTEP_BATCHES

    config = OmegaConf.load(run / "rl" / "config.yaml")
    episodes = list(read_episodes(run / "rl" / "episodes" / "000001.jsonl"))
    asked = [_asked(episode, number, config) for number, episode in enumerate(episodes)]
    half = -(-len(asked) // LOCKSTEP_BATCHES)
    halves = [asked[first : first + half] for first in range(0, len(asked), half)]
    turns = range(max(map(len, asked)))
    found = [[episode[turn] for episode in part if turn < len(episode)] for turn in turns for part in halves]
    return [batch for batch in found if batch]


def _asked(episode: Any, number: int, config: Any) -> list[tuple[Any, Any]]:
    """Return an episode's requests and turns. Groups are named as the task loader names them."""
    from turngrid.rollouts.sampling import SampleRequest
    from turngrid.rollouts.seeds import request_seed

    rollout, step = config.actor_rollout_ref.rollout, episode.step
    group, ids, asked = f"{step:06d}-{number // rollout.n:04d}", episode.prompt_ids, []
    for index, turn in enumerate(episode.turns):
        seed = request_seed(config.seed, step, group, episode.sample, index)
        rules = (config.env.max_action_tokens, rollout.temperature, rollout.top_p, rollout.top_k, seed)
        asked.append((SampleRequest(f"{step}/{group}/{episode.sample}", tuple(ids), *rules), turn))
        ids = [*ids, *turn.action_ids, *turn.context_ids]
    return asked


def one_side(run: Path) -> dict[str, float]:
    """Sample all batches, after a warm-up with the first one."""
    import torch

    from turngrid.verl_plugin.servers.transformers_server.generator import Generator

    torch.set_num_threads(1)
    generator, asked = Generator.from_pretrained(str(run / "sft" / "model")), batches(run)
    generator.generate([request for request, _ in asked[0]])
    generator.load_weights(generator.model.state_dict().items())  # forgets what it has read
    cpu = time.process_time()
    answers = [generator.generate([request for request, _ in batch]) for batch in asked]
    cpu = time.process_time() - cpu
    pairs = [pair for batch, found in zip(asked, answers, strict=True) for pair in zip(batch, found, strict=True)]
    same = [(turn, got) for (_, turn), got in pairs if list(got.token_ids) == turn.action_ids]
    off = [abs(a - b) for turn, got in same for a, b in zip(turn.logprobs, got.log_probs, strict=True)]
    return {"cpu": cpu, "turns": len(pairs), "other": len(pairs) - len(same), "off": max(off, default=0.0)}


def measured(checkout: Path, run: Path) -> dict[str, float]:
    """Measure one side in a process of its own; raise SystemExit if it fails."""
    from benchmarks.checkouts import import_variables

    command = [sys.executable, __file__, str(run), ONE_SIDE]
    with import_variables(checkout) as imports:
        variables = os.environ | imports | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, check=False, cwd=checkout, env=variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{checkout}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def line(name: str, seen: Sequence[dict[str, float]]) -> str:
    cpu, last = median(one["cpu"] for one in seen), seen[-1]
    turns = f"{last['other']} of {last['turns']} turns differ, log-probs within {last['off']:.1e}"
    return f"{name:8}{cpu:8.2f} CPU s   {turns}"


def main() -> None:
    from benchmarks.checkouts import ROOT, checked_out

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run's folder")
    parser.add_argument("commit", help="what this checkout is compared with")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    seen: dict[str, list[dict[str, float]]] = {"this": [], args.commit[:7]: []}
    with checked_out(args.commit) as other:
        places = dict(zip(seen, (ROOT, other), strict=True))
        for number in range(args.rounds):
            for name in sorted(places, reverse=bool(number % 2)):
                seen[name].append(measured(places[name], args.run.resolve()))
    for name, found in seen.items():
        print(line(name, found))
    this, theirs = (median(one["cpu"] for one in found) for found in seen.values())
    print(f"ratio   {this / theirs:8.2f}")


if __name__ == "__main__":
    if ONE_SIDE in sys.argv:
        print(json.dumps(one_side(Path(sys.argv[1]))))
    else:
        main()
