"""A step of ScienceWorld through our environment, beside one of the package's wrapper.

    python -m benchmarks.scienceworld

Both play the same gold path, step by step in turn, in a JVM each. The wrapper also lists all valid
actions at each step; we ask for the action's answer and score only.
"""

import time
from statistics import median

from scienceworld import ScienceWorldEnv

from turngrid.envs.games.catalogue import Catalogue
from turngrid.envs.jvm import machine
from turngrid.envs.registry import make_environment

ROUNDS, WARM = 12, 4  # the JVM has compiled its code after the first rounds
WRAPPER, OURS = "wrapper", "ours"


def main() -> None:
    environment = make_environment("scienceworld")
    [task] = Catalogue(environment).tasks("find-non-living-thing", "test", 1, reward="dense", progress=False)
    wrapper, env = ScienceWorldEnv("", envStepLimit=10**6), environment.new_env()
    wrapper.load(task.task, task.seed % 10_000, "easy")
    spent: dict[str, list[float]] = {WRAPPER: [], OURS: []}
    for number in range(ROUNDS):
        wrapper.reset()
        env.reset(task, 0)
        for action in task.expert_plan[:-1]:
            for name, step in ((WRAPPER, wrapper.step), (OURS, env.step)):
                start = time.perf_counter()
                step(action)
                if number >= WARM:
                    spent[name].append(1000 * (time.perf_counter() - start))
    wrapper.close()
    machine.close_all()
    count, theirs, ours = len(spent[OURS]), median(spent[WRAPPER]), median(spent[OURS])
    print(f"median of {count} steps: {WRAPPER} {theirs:.1f} ms, {OURS} {ours:.1f} ms, {theirs / ours:.1f} times")


if __name__ == "__main__":
    main()
