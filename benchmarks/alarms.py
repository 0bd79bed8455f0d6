"""What the alarms of a step cost in CPU, and how often two of them are right in simulated runs.

python -m benchmarks.alarms

The model of these runs is in docs/health.md.
"""

import random
import time

import numpy as np

from turngrid.config.compose import compose
from turngrid.records.health import conditions as when
from turngrid.records.health.alarms import Curves, alarms, limits_of
from turngrid.records.health.rules import RULES

STEPS = (25, 100, 1_000)
REPEATS = 5
RUNS, LEVEL = 1_000, 0.95  # of ``success`` and ``hacked``
# what happens -> expected success by step, games a step, reward beyond success (for ``hacked``)
SIMULATED = {
    **{f"steady at .5, {steps} steps": (np.full(steps, 0.5), 16, None) for steps in (10, 25, 100)},
    "from .6 to .18 in step 16": (np.repeat([0.6, 0.18], [15, 5]), 16, None),
    "from .6 to .06 in step 16, 4 games": (np.repeat([0.6, 0.06], [15, 5]), 4, None),
    "steady at .15, a penalty of .4 is learned away": (np.full(25, 0.15), 16, -0.4 * np.exp(-np.arange(25) / 6)),
    "from .53 to .29, the reward rises": (np.linspace(0.53, 0.29, 25), 16, np.linspace(0, 1, 25)),
    "from .53 to .1, the reward rises": (np.linspace(0.53, 0.1, 25), 16, np.linspace(0, 1, 25)),
}


def curves(steps: int) -> Curves:
    """Return random values of all metrics that rules read."""
    draw = random.Random(0).random
    names = sorted({name.replace("*", "any") for rule in RULES for name in rule.metrics})
    return Curves.of({"step": step, **{name: draw() for name in names}} for step in range(1, steps + 1))


def share(name: str, equal: bool) -> float:
    """Return the share of simulated runs with an alarm; of a sudden fall, in its 5 steps."""
    success, games, reward = SIMULATED[name]
    means, draw, raised = np.repeat(success[:, None], games, 1), np.random.default_rng(0), 0
    for _ in range(RUNS):
        won = draw.binomial(8, means if equal else draw.beta(means, 1 - means)).mean(1) / 8
        holds = when.fallen.holds([won], LEVEL) if reward is None else when.apart.holds([won + reward, won], LEVEL)
        raised += holds[15 if "step 16" in name else 0 :].any()
    return raised / RUNS


def main() -> None:
    limits = limits_of(dict(compose([]).health))
    alarms(curves(25), limits)  # imports pandas, once a run
    for steps in STEPS:
        seen, start = curves(steps), time.process_time()
        for _ in range(REPEATS):
            alarms(seen, limits)
        print(f"{steps:>5,} steps: {(time.process_time() - start) / REPEATS * 1e3:.1f} ms")
    for name in SIMULATED:
        print(f"success {name}: {share(name, True):.1%} of runs if games are equal, {share(name, False):.1%} if not")


if __name__ == "__main__":
    main()
