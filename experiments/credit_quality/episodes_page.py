"""The measured episodes in the viewer: the true advantage of each turn beside every method's credit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from experiments.credit_quality.results import Rated
from experiments.viewer.page import page
from experiments.viewer.sources import Shown
from experiments.viewer.tokenizer import FILE
from records.credit import Credit

TRUE = "true advantage"
NOTE = (
    "Bars and colours: the true advantage. Beside it each method's credit, both in standard deviations over all turns."
)


def episodes_page(rated: Rated, reward: str, model: str) -> str:
    """``model``: the folder of the policy, "" where it is none."""
    about = rated.results.about
    return page(shown(rated, reward, model), f"{about['env']} {about['task']}, {about['policy']}: credit", note=NOTE)


def shown(rated: Rated, reward: str, model: str) -> Iterator[Shown]:
    columns = {TRUE: rated.truth.advantage, **rated.credits}
    scaled = {name: column / (np.sqrt(np.mean(column**2)) or 1) for name, column in columns.items()}
    tokenizer, first = Path(model), 0
    for number, group in enumerate(rated.groups):
        for episode in group:
            end = first + len(episode.turns)
            lengths = [len(turn.action_ids) - episode.muted(turn) for turn in episode.turns]
            truth = np.repeat(rated.truth.advantage[first:end], lengths).tolist()
            yield Shown(
                episode,
                stage="credit quality",
                place=f"{number}:{episode.sample}",
                credit=Credit(truth, []),
                tokenizer=tokenizer if (tokenizer / FILE).exists() else None,
                reward=reward,
                compared={name: column[first:end].round(2).tolist() for name, column in scaled.items()},
            )
            first = end
