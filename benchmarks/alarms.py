"""CPU milliseconds that the alarms of a step take after so many steps.

python -m benchmarks.alarms
"""

import random
import time

from turngrid.config.compose import compose
from turngrid.records.health.alarms import Curves, alarms, limits_of
from turngrid.records.health.rules import RULES

STEPS = (25, 100, 1_000)
REPEATS = 5


def curves(steps: int) -> Curves:
    """Return random values of all metrics that rules read."""
    draw = random.Random(0).random
    names = sorted({name.replace("*", "any") for rule in RULES for name in rule.metrics})
    return Curves.of({"step": step, **{name: draw() for name in names}} for step in range(1, steps + 1))


def main() -> None:
    limits = limits_of(dict(compose([]).health))
    alarms(curves(25), limits)  # imports pandas, once a run
    for steps in STEPS:
        seen, start = curves(steps), time.process_time()
        for _ in range(REPEATS):
            alarms(seen, limits)
        print(f"{steps:>5,} steps: {(time.process_time() - start) / REPEATS * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
