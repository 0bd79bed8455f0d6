"""Breaks a run from outside, in each process whose PYTHONPATH has this folder.

``TURNGRID_TEST_ILLNESS`` names the illness, whose function replaces a part of a module.
"""

import functools
import os
import random
import sys
import time
import types
from dataclasses import replace
from importlib.abc import MetaPathFinder
from importlib.util import find_spec

ROWS, GAMES = "turngrid.rollouts.row", "turngrid.envs.text_env"
ESTIMATORS, SERVER = (
    "turngrid.verl_plugin.training.estimators",
    "turngrid.verl_plugin.servers.transformers_server.replica",
)


def around(name, change):
    """Call ``change`` in place of a function or method, with the real one before its arguments."""

    def breaks(module):
        *owners, last = name.split(".")
        owner = functools.reduce(getattr, owners, module)
        real = getattr(owner, last)
        setattr(owner, last, lambda *given, **settings: change(real, *given, **settings))

    return breaks


# ---- rows: what the trainer gets


def of_turns(change):
    """Change the turns of each row."""

    def row(real, episode, prompt, turns, reward):
        changed = [change(turn, number < len(turns) - 1) for number, turn in enumerate(turns)]
        return real(episode, prompt, changed, reward)

    return around("_row", row)


def of_rows(change):
    return around("_row", lambda real, *given: change(real(*given)))


def without_separator(turn, followed):
    return replace(turn, context_ids=turn.context_ids[1:]) if followed else turn


def without_thoughts(turn, followed):
    cut = len(turn.action_ids) // 2 if followed else 0
    return replace(turn, action_ids=turn.action_ids[cut:], logprobs=turn.logprobs[cut:])


def noisy(turn, followed):
    return replace(turn, logprobs=[value + random.gauss(0, 0.5) for value in turn.logprobs])


def trains_observations(row):
    return replace(row, mask=[1] * len(row.mask))


def reward_first(row):
    first = row.mask.index(1)
    return replace(row, rewards=[sum(row.rewards) * (number == first) for number in range(len(row.rewards))])


def without_goal(row):
    return replace(row, prompt_ids=row.prompt_ids[-12:])


# ---- estimators


def of_advantages(change):
    def by_episode(real, *given, **settings):
        data = real(*given, **settings)
        data.batch["advantages"] = change(data.batch["advantages"])
        return data

    return around("by_episode", by_episode)


CALLS = [0]


def infinite_later(advantages):
    CALLS[0] += 1
    return advantages * float("inf") if CALLS[0] == 4 else advantages


# ---- environments


RESET, STEP = "TextEnv.reset", "TextEnv.step"
TASKS = []  # of this process
STEPS: dict[int, int] = {}


def first_game(real, env, task, seed):
    TASKS.append(task)
    return real(env, TASKS[0], 0)


def counted(real, env, task, seed):
    STEPS[id(env)] = 0
    return real(env, task, seed)


def won_when_done(real, env, action):
    STEPS[id(env)] += 1
    result = real(env, action)
    return replace(result, won=True, terminated=True) if STEPS[id(env)] == 6 else result


def with_plan(real, env, task, seed):
    seen = real(env, task, seed)
    return replace(seen, text=f"{seen.text}\n{' '.join(task.expert_plan)}")


def blank(real, env, task, seed):
    return replace(real(env, task, seed), text="...")


def forgetful(real, env, action):
    """From this process's 600th action on it understands only half of them."""
    STEPS[0] = STEPS.get(0, 0) + 1
    result = real(env, action)
    return replace(result, valid=False) if STEPS[0] > 600 and STEPS[0] % 2 else result


def slow_game(real, env, task, seed):
    STEPS[id(env)] = task.seed % 8 == 0
    return real(env, task, seed)


def slow_step(real, env, action):
    """One game in eight takes half a second for an action."""
    time.sleep(0.5 * STEPS[id(env)])
    return real(env, action)


# ---- updates

UPDATES = []


def hung_update(real, engine):
    """The second update of this process never ends."""
    UPDATES.append(engine)
    while len(UPDATES) == 2:
        time.sleep(1)
    return real(engine)


# ---- servers


async def stale(real, server, weights, *given, **settings):
    """Only the first weights arrive."""
    kept = getattr(server, "test_weights", None)
    if kept is None:
        kept = server.test_weights = [(name, tensor.detach().clone()) for name, tensor in weights]
    else:
        list(weights)
    await real(server, iter(kept), *given, **settings)


ILLNESSES = {
    "lost_separator": (ROWS, of_turns(without_separator)),
    "dropped_thoughts": (ROWS, of_turns(without_thoughts)),
    "noisy_logprobs": (ROWS, of_turns(noisy)),
    "trained_observations": (ROWS, of_rows(trains_observations)),
    "reward_at_first_token": (ROWS, of_rows(reward_first)),
    "window_without_goal": (ROWS, of_rows(without_goal)),
    "wrong_sign": (ESTIMATORS, of_advantages(lambda advantages: -advantages)),
    "infinite_advantage": (ESTIMATORS, of_advantages(infinite_later)),
    "repeated_game": (GAMES, around(RESET, first_game)),
    "done_is_won": (GAMES, around(RESET, counted), around(STEP, won_when_done)),
    "leaking_expert": (GAMES, around(RESET, with_plan)),
    "blank_observation": (GAMES, around(RESET, blank)),
    "forgetful_parser": (GAMES, around(STEP, forgetful)),
    "slow_game": (GAMES, around(RESET, slow_game), around(STEP, slow_step)),
    "hung_update": ("turngrid.verl_plugin.cpu.engines", around("_OnCpu.optimizer_step", hung_update)),
    "stale_weights": (SERVER, around("WeightSync.update_weights", stale)),
}


class Breaker(MetaPathFinder):
    def __init__(self, module, *breaks):
        self.module, self.breaks = module, breaks

    def find_spec(self, name, path, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_break(module):
            execute(module)
            for breaks in self.breaks:
                breaks(module)

        spec.loader.exec_module = execute_and_break
        return spec


def patient(module):
    """Ray gives its start 30 s, which are too few on a loaded machine; its clock goes slower."""
    clock = types.SimpleNamespace(**vars(time))
    clock.monotonic = lambda: time.monotonic() / 20
    module.time = clock


sys.meta_path.insert(0, Breaker("ray._private.node", patient))
if (asked := os.environ.get("TURNGRID_TEST_ILLNESS", "")) in ILLNESSES:
    sys.meta_path.insert(0, Breaker(*ILLNESSES[asked]))
