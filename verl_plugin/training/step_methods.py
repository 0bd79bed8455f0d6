"""The methods of a step: filters, an estimator over turns, credit, loss terms and a buffer.

Methods see only the turn table, nothing of verl (``turngrid.algorithms.slots``). A filter mutes
tokens in both masks, since the mean of the loss is over ``loss_mask``. Their advantage is 0.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transfer_queue import KVBatchMeta

from turngrid.algorithms.chosen import ALGO, Chosen, slots_of
from turngrid.algorithms.registry import ON_BATCH
from turngrid.algorithms.slots import Estimate, OfferedEpisode, Request
from turngrid.algorithms.turn_table import turn_ids
from turngrid.algorithms.turns import Turns, credited, repeated_states
from turngrid.records.files.checkpoints import METHODS
from turngrid.records.files.json_lines import write_lines
from turngrid.records.step_metrics import REPEATED
from turngrid.rollouts.episode import Episode
from turngrid.tasks.run import Run
from turngrid.verl_plugin import value_heads
from turngrid.verl_plugin.rollout.agent_worker import Written
from turngrid.verl_plugin.shared_state import write as write_shared
from turngrid.verl_plugin.training.contexts import Contexts
from turngrid.verl_plugin.training.credit_log import rounded
from turngrid.verl_plugin.training.losses import PREFIX
from turngrid.verl_plugin.training.reasoning import Reasoning
from turngrid.verl_plugin.training.replay import Replay
from turngrid.verl_plugin.training.step import Metrics, Step
from turngrid.verl_plugin.training.turn_rows import MASKS, TARGETS, TurnRows, mute_dead, of_responses

TRAINED_ON = {TARGETS, *map(value_heads.weight, range(value_heads.MOST))}


class Methods:
    """The run's methods that act on a step's rows. Their state is saved in every checkpoint."""

    def __init__(self, run: Run, step: Step) -> None:
        self._run, self._step = run, step
        self._slots = slots_of(run.config, (*ON_BATCH, ALGO))
        self.chosen = Chosen(self._slots)
        self.replay = Replay(self.chosen, step, self.rows)
        self.contexts = Contexts(self.chosen, run.config.actor_rollout_ref.rollout, step)
        self.reasoning = Reasoning(run.tracking, run.seed, self.contexts, step)
        self.in_workers: dict[str, Any] = {}  # settings for the losses, for the step's own update

    def rows(self, batch: KVBatchMeta) -> TurnRows:
        log_probs = "log_probs" in self.chosen.needs()
        return TurnRows(batch, self.chosen.reads(), self._run.prompt.parts, self.contexts.asking, log_probs)

    def cut_values(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Cut the values of further heads to the responses, as verl does with the first head's."""
        if (heads := self.chosen.heads()) > 1:
            of_responses(batch, heads)
        return batch

    # ---- between values and update

    def filter_before(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Drop episodes before the baseline is computed, as dead rows, which no baseline counts."""
        self._step.nothing_left = False
        filters = self._filters("before")
        if not filters:
            return batch
        rows = self.rows(batch)
        turns = rows.turns()
        return rows.put(self._muted(rows, turns, self._kept(turns, filters, metrics)))

    def mute_dead(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Drop episodes without tokens after verl's rejection, and samples alone in a group."""
        needs_group = self._run.algorithm.needs_group
        if needs_group or (self._run.config.algorithm.rollout_correction or {}).get("rollout_rs"):
            batch, nothing = mute_dead(batch, needs_group)
            self._step.nothing_left |= nothing
        return batch

    def apply(self, batch: KVBatchMeta, metrics: Metrics) -> KVBatchMeta:
        """Run estimator, credit, filters and buffer, then prepare the loss terms."""
        if not self.chosen:
            return batch
        rows = self.rows(batch)
        turns = rows.turns()
        columns = self._estimated(rows, turns) | {"turn_ids": turn_ids(rows.tokens["loss_mask"])}
        advantages = self._credited(rows, turns, columns.get("advantages", rows.tokens["advantages"]), metrics)
        keep = self._kept(turns, self._filters("after"), metrics)
        columns |= self._muted(rows, turns, keep)
        advantages = advantages * columns["response_mask"] * (not self._step.nothing_left)
        for name in columns.keys() & TRAINED_ON:
            columns[name] = columns[name] * columns["response_mask"]
        self.replay.exchange(rows, turns, turns.mean(advantages, rows.tokens["response_mask"]), metrics)
        columns["advantages"] = advantages
        columns |= self._prepared(rows, turns, keep, metrics)
        metrics |= {REPEATED: repeated_states(turns)}
        return rows.put(columns)

    def _estimated(self, rows: TurnRows, turns: Turns) -> dict[str, Tensor]:
        """Return advantages and returns of our estimator over turns, else verl's."""
        columns: dict[str, Tensor] = {}
        for estimator in self.chosen.of(ALGO, self._step.number).values():
            rewarded, tokens = rows.of_estimator(turns)
            estimate = estimator(rewarded, tokens)
            for name, numbers in (("advantages", estimate.advantages), ("returns", estimate.returns)):
                spread = numbers if estimator.grain == "token" else turns.spread(numbers)
                columns[name] = spread.where(tokens.mask, 0.0).to(rows.tokens[name].dtype)
            if estimate.heads:
                columns |= of_heads(rows, turns, estimate)
            elif estimate.targets is not None:
                columns[TARGETS] = estimate.targets.to(rows.tokens["response_mask"].dtype)
        return columns

    def by_turn(self) -> Any:
        """Return the estimator if each turn number has an update of its own, else None."""
        estimators = self.chosen.of(ALGO, self._step.number).values()
        return next((one for one in estimators if getattr(one, "by_turn", False)), None)

    def _credited(self, rows: TurnRows, turns: Turns, tokens: Tensor, metrics: Metrics) -> Tensor:
        """Return token advantages after credit, (B, T); keep those of turns for the log."""
        credits = self.chosen.of("credit", self._step.number)
        mask, base = rows.tokens["response_mask"], self._run.algorithm
        advantages, layers = credited(credits, turns, tokens, mask, base.name, base.grain)
        for name, credit in credits.items():
            metrics |= {f"credit/{name}/{key}": value for key, value in getattr(credit, "logged", {}).items()}
        if credits and self._run.tracking.credit:
            self._step.layers |= by_episode(turns, layers)
        return advantages

    # ---- filters

    def _filters(self, when: str) -> dict[str, Any]:
        filters = self.chosen.of("filter", self._step.number)
        return {name: method for name, method in filters.items() if method.when == when}

    def _kept(self, turns: Turns, filters: Mapping[str, Any], metrics: Metrics) -> Tensor:
        """Return (E, K) bool: the turns that all filters keep."""
        keep = turns.mask.clone()
        for name, method in filters.items():
            kept = method(turns.seen_by("filter", name), self._step.number)
            if kept.ndim > 1 and method.when == "before":
                raise ValueError(f'filter={name}: it chooses turns before the baseline; use when = "after"')
            among = kept[turns.mask] if kept.ndim > 1 else kept
            metrics[f"filter/{name}/dropped_share"] = (~among).double().mean().item() if len(among) else 0.0
            keep &= kept if kept.ndim > 1 else kept.unsqueeze(1)
        return keep

    def _muted(self, rows: TurnRows, turns: Turns, keep: Tensor) -> dict[str, Tensor]:
        """Return both masks, as they are if no turn is left: verl's metrics need tokens."""
        self._step.nothing_left |= not keep.any()
        if self._step.nothing_left:
            return {name: rows.tokens[name] for name in MASKS}
        alive = turns.spread(keep.long()).to(rows.tokens["loss_mask"].dtype)
        return {name: rows.tokens[name] * alive for name in MASKS}

    # ---- terms

    def _prepared(self, rows: TurnRows, turns: Turns, keep: Tensor, metrics: Metrics) -> dict[str, Tensor]:
        """Return every term's per-token numbers; store its coefficients for the workers."""
        columns: dict[str, Tensor] = {}
        coefficients: dict[str, Any] = {}
        for name, term in self.chosen.of("terms", self._step.number).items():
            entropy, steps = rows.tokens.get("entropy"), self._step.total
            seen = turns.seen_by("terms", name)
            numbers, coefficients[name] = term.prepare(seen, keep, entropy, self._step.number, steps)
            columns |= {f"{PREFIX}{name}_{field}": value.float() for field, value in numbers.items()}
            metrics |= {f"terms/{name}/{key}": value for key, value in coefficients[name].items()}
        self.in_workers = {**self.of_loss(), "terms": self._slots["terms"], "coefficients": coefficients}
        return columns

    def of_loss(self) -> dict[str, Any]:
        return {"loss": self._slots["loss"], "step": self._step.number}

    # ---- texts of a step's episodes

    def offered(self) -> dict[str, Any]:
        """Return the methods that learn from the texts of episodes, by ``slot/name``."""
        methods = self.chosen.in_rollout(self._step.number)
        return {name: method for name, method in methods.items() if hasattr(method, "offer")}

    def offer(self, episodes: Sequence[Episode]) -> dict[str, float]:
        """Offer a step's episodes; return metrics."""
        if not (methods := self.offered()):
            return {}
        reward, metrics = self._run.turn_reward.name, {}
        trained = [offered_episode(episode, reward) for episode in episodes if episode.trained and episode.turns]
        for name, method in methods.items():
            method.offer(self._step.number, trained)
            metrics |= {f"{name}/{key}": value for key, value in getattr(method, "logged", {}).items()}
        return metrics

    def write(self, ask: Callable[[int, Sequence[Request]], Sequence[Written]]) -> None:
        """Let the policy write what methods ask for since the last step, and record it."""
        step, records = self._step.number, []
        for name, method in self.offered().items():
            if requests := getattr(method, "requests", tuple)():
                texts = ask(step, requests)
                method.write(step, [text for text, _ in texts])
                records += [{"method": name, "text": text, "tokens": tokens} for text, tokens in texts]
        if records:
            write_lines(self._run.rl.library / f"{step:06d}.jsonl", records)

    def share(self) -> None:
        write_shared(self._run.rl.shared, self.chosen, self._step.number)

    # ---- state

    def save(self, checkpoint: Path) -> None:
        """Write the methods' state, if they have any, into the folder of a checkpoint."""
        if state := self.chosen.state():
            checkpoint.mkdir(parents=True, exist_ok=True)
            torch.save(state, checkpoint / METHODS)

    def load(self, checkpoint: Path) -> None:
        if self.chosen.state():
            self.chosen.load(torch.load(checkpoint / METHODS, weights_only=True))


def offered_episode(episode: Episode, reward: str) -> OfferedEpisode:
    earned = sum(turn.trained(reward) for turn in episode.turns)
    return OfferedEpisode(episode.task, episode.goal, episode.won, earned, episode.played_turns)


def of_heads(rows: TurnRows, turns: Turns, estimate: Estimate) -> dict[str, Tensor]:
    """Return each head's target values and tokens, and the further heads' values."""
    columns = {value_heads.weight(0): estimate.targets.float()} if estimate.targets is not None else {}
    for number, head in enumerate(estimate.heads, start=1):
        columns[value_heads.column("returns", number)] = turns.spread(head.returns.to(rows.tokens["returns"].dtype))
        columns[value_heads.column("values", number)] = rows.tokens[value_heads.column("values", number)]
        columns[value_heads.weight(number)] = head.targets.float()
    return columns


def by_episode(turns: Turns, layers: Mapping[str, Tensor]) -> dict[str, dict[str, list[float]]]:
    """Turn (E, K) numbers by layer into lists of an episode's turns, by episode."""
    lengths = turns.mask.sum(dim=1).tolist()
    tables = {name: rounded(matrix.numpy()) for name, matrix in layers.items()}
    return {
        episode: {name: table[row][:length] for name, table in tables.items()}
        for row, (episode, length) in enumerate(zip(turns.episodes, lengths, strict=True))
    }
