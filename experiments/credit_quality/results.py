"""Compute the results from measured games: true advantages, ratings of methods, and differences."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turngrid.envs.utils.files import write_whole
from turngrid.experiments.credit_quality.game import MeasuredGame, keys, score, token_counts
from turngrid.experiments.credit_quality.intervals import GRADIENT, PARTS, Table, of_truth, rated, statistics_of
from turngrid.experiments.credit_quality.measures import Truth, task_sums, truth
from turngrid.experiments.credit_quality.methods import Groups, Method, critic_file
from turngrid.experiments.credit_quality.study import Size
from turngrid.experiments.tables import interval, rounded, shown, table
from turngrid.experiments.viewer.page import page
from turngrid.experiments.viewer.sources import TOKENIZER, Shown
from turngrid.records.credit import Credit
from turngrid.records.statistics import Interval

if TYPE_CHECKING:
    from turngrid.experiments.credit_quality.policy_model import PolicyModel

FILE = "results.json"
MOST = 10**9  # numbers in all gradients together: 4 GB
NOTE = (
    "Bars and colours: the true advantage. Beside it each method's credit, both in standard deviations over all turns."
)


@dataclass(frozen=True)
class Results:
    """Results of a study."""

    about: Mapping[str, Any]  # what was measured, in words and numbers
    truth: Mapping[str, Interval]  # statistics of the true advantages, by name
    methods: Table  # {measure: {method: interval}}
    against: str  # the method that all others are compared with
    differences: Table  # as ``methods``, each method minus ``against``

    def write(self, folder: Path) -> Results:
        """Write the results; return them rounded, so that table and page show the same numbers."""
        write_whole(folder / FILE, json.dumps(rounded(asdict(self)), indent=1) + "\n")
        return self.read(folder / FILE)

    @classmethod
    def read(cls, file: Path) -> Results:
        data = json.loads(file.read_text(encoding="utf-8"))
        tables = {name: {key: _row(row) for key, row in data[name].items()} for name in ("methods", "differences")}
        return cls(**{**data, **tables, "truth": _row(data["truth"])})


def _row(row: Mapping[str, Mapping[str, float | None]]) -> dict[str, Interval]:
    return {name: interval(bounds) for name, bounds in row.items()}


@dataclass(frozen=True)
class Rated:
    """Results with each method's credit, (N,) over all turns of ``groups``, by its label."""

    results: Results
    truth: Truth
    credits: Mapping[str, np.ndarray]
    groups: Groups


def results(
    games: Sequence[MeasuredGame],
    methods: Sequence[Method],
    size: Size,
    about: Mapping[str, Any],
    model: PolicyModel | None,
    gradients: bool,
) -> Rated:
    """Rate the methods; with ``gradients`` by cosines too, of at most ``MOST`` numbers.

    Args:
        about: ``env``, ``task``, ``policy`` and ``reward`` by name.

    Raises:
        ValueError: an episode's advantages do not add up to R - V(s0).
    """
    groups = [[episode for episode in game.episodes[: size.samples] if episode.turns] for game in games]
    known = true_advantages(games, groups, about["reward"], size.k)
    inputs = _inputs(groups, {need for method in methods for need in method.needs}, model) if model else {}
    credits = {method.label: method.credit(groups, inputs) for method in methods}
    sums = {name: task_sums(known, credit.turns) for name, credit in credits.items()}
    against = methods[0].label
    statistics = statistics_of(sums)
    if model and gradients and len(groups) * (len(credits) + PARTS) * model.size <= MOST:
        from turngrid.experiments.credit_quality.policy_model import of_games  # imports torch

        of_tokens = {name: credit.tokens for name, credit in credits.items()}
        statistics[GRADIENT] = of_games(model, groups, of_tokens, known)
    ratings, less = rated(statistics, against, len(groups))
    measured = {**about, **asdict(size), "games": [game.key for game in games], **_counts(groups)}
    made = Results(measured, of_truth(sums[against]), ratings, against, less)
    return Rated(made, known, {name: credit.turns for name, credit in credits.items()}, groups)


def _inputs(groups: Groups, needs: Collection[str], model: PolicyModel) -> dict[str, np.ndarray]:
    """Return what methods need of the models, of all action tokens."""
    from turngrid.experiments.credit_quality.policy_model import run_critic  # imports torch

    compute = {"entropy": model.entropy} if "entropy" in needs else {}
    if "values" in needs and (file := critic_file(model.path)):
        compute["values"] = run_critic(file)
    episodes = [episode for group in groups for episode in group]
    return {name: np.concatenate([of(episode) for episode in episodes]) for name, of in compute.items()}


def _counts(groups: Groups) -> dict[str, float]:
    episodes = [(number, episode) for number, group in enumerate(groups) for episode in group]
    return {
        "episodes": len(episodes),
        "turns": sum(len(episode.turns) for _, episode in episodes),
        "prefixes": len({(number, key) for number, episode in episodes for key in keys(episode)}),
        "won": float(np.mean([episode.won for _, episode in episodes])),
    }


def true_advantages(games: Sequence[MeasuredGame], groups: Groups, reward: str, k: int) -> Truth:
    """Estimate the true advantages from the first ``k`` continuations of every prefix."""
    return truth(
        [
            (number, [np.array(game.values[key][:k]) for key in keys(episode)], score(episode, reward))
            for number, (game, group) in enumerate(zip(games, groups, strict=True))
            for episode in group
        ]
    )


def markdown(results: Results, only: Sequence[str] = ()) -> str:
    """Return a table of the measures (all, or those in ``only``) and of differences of r.

    The method with the best r comes first.
    """
    by_r = sorted(results.methods["r"], key=lambda name: -np.nan_to_num(results.methods["r"][name].mean, nan=-9))
    measures = [name for name in results.methods if not only or name in only]
    head = ["method", *measures, f"r less that of {results.against}"]
    columns = [*(results.methods[measure] for measure in measures), results.differences["r"]]
    return table(head, [[f"`{name}`", *(shown(column[name]) for column in columns)] for name in by_r])


def summary(results: Results) -> str:
    about, truth = results.about, results.truth
    return (
        f"{about['tasks']} games with {about['samples']} episodes each ({about['won']:.0%} won), "
        f"{about['turns']} turns, {about['k']} continuations of each of {about['prefixes']} prefixes. "
        f"Reliability of the true advantages {shown(truth['reliability'])}; "
        f"the best that credit constant in an episode can reach: {shown(truth['ceiling'])}."
    )


def episodes_page(rated: Rated, model: str) -> str:
    """Return the viewer's page. ``model``: the policy's model folder, or "" if it is no model."""
    title = "{env} {task}, {policy}: credit".format(**rated.results.about)
    return page(_measured(rated, model), title, note=NOTE)


def _measured(rated: Rated, model: str) -> Iterator[Shown]:
    columns = {"true advantage": rated.truth.advantage, **rated.credits}
    scaled = {name: column / (np.sqrt(np.mean(column**2)) or 1) for name, column in columns.items()}
    tokenizer, first = Path(model), 0
    for number, group in enumerate(rated.groups):
        for episode in group:
            end = first + len(episode.turns)
            truth = np.repeat(rated.truth.advantage[first:end], token_counts(episode)).tolist()
            yield Shown(
                episode,
                stage="credit quality",
                place=f"{number}:{episode.sample}",
                credit=Credit(truth, []),
                tokenizer=tokenizer if (tokenizer / TOKENIZER).exists() else None,
                reward=rated.results.about["reward"],
                compared={name: column[first:end].round(2).tolist() for name, column in scaled.items()},
            )
            first = end
