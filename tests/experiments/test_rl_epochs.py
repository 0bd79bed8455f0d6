"""verl ends training after so many passes over the games, and a pass has whole batches only: steps
must not run out."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngrid.config.compose import compose
from turngrid.experiments.stages.rl import rl_config
from turngrid.tasks.budget import Allocation
from turngrid.tasks.run import Run


@pytest.mark.parametrize(
    ("games", "batch", "steps"), [(200, 128, 15), (1000, 128, 15), (128, 128, 3), (2, 4, 2), (13, 4, 1)]
)
def test_passes_suffice_for_the_steps(games: int, batch: int, steps: int, tmp_path: Path) -> None:
    config = compose([f"data.train_batch_size={batch}"])
    allocation = Allocation(demonstrations=0, games=games, steps=steps, episodes_per_step=batch, units=games, unspent=0)
    batches = max(1, games // batch)  # of a pass; where there are fewer games than a batch has, they come several times
    passes = rl_config(Run(config, tmp_path), allocation, "model").trainer.total_epochs
    assert steps <= passes * batches < steps + 2 * batches + 1
