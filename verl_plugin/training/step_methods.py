"""The slots of a step in verl's trainer: filters, an estimator over turns, credit, loss terms and a buffer.

Methods see the turn table and nothing of verl (``algorithms.slots``). A filter mutes tokens in both masks: the mean of the
loss is taken over ``loss_mask``. Muted tokens have advantage 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from omegaconf import DictConfig
from torch import Tensor
from transfer_queue import KVBatchMeta

from algorithms.chosen import ALGO, Chosen, algorithm, slots_of
from algorithms.registry import ON_BATCH
from algorithms.slots import Estimate, credited
from algorithms.turns import Turns, repeated_states
from rollouts.prompt_forms.registry import prompt_form
from verl_plugin import value_heads
from verl_plugin.training import replay
from verl_plugin.training.credit_log import rounded
from verl_plugin.training.dead_rows import mute_dead
from verl_plugin.training.losses import IN_WORKERS, PREFIX
from verl_plugin.training.turn_rows import MASKS, TARGETS, TurnRows, of_responses, targets_alone

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as Base
else:
    Base = object

STATE = "methods.pt"
NOTHING_LEFT = "filters or rejection left nothing to learn from; no update"
TRAINED_ON = {TARGETS, *map(value_heads.weight, range(value_heads.MOST))}


class Methods(Base):
    """Mixed into the trainer, below what logs the credit of a step."""

    _learned_again: Sequence[
        tuple[Any, str | None]
    ] = ()  # episodes of earlier steps, and in whose place; for the record

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._slots = slots_of(config, (*ON_BATCH, ALGO))
        self._methods = Chosen(self._slots)
        self._in_workers: dict[str, Any] = {}
        self._replay: list[Any] = []
        self._replaced: frozenset[str] = frozenset()  # episodes in whose place this step learns from earlier ones
        self._layers: dict[str, dict[str, list[float]]] = {}  # of the step's advantages, by episode
        self._dropped_all = False  # filters left nothing of this step to learn from: nothing is updated

    # ---- before anything is computed of the rows

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], **kwargs: Any) -> KVBatchMeta:
        for name, buffer in self._methods.of("buffer", self.global_steps).items():
            if hasattr(buffer, "replace"):
                turns = self._rows(batch).turns()
                found = {turns.episodes[e]: held for e, held in buffer.replace(turns, self.global_steps).items()}
                replay.in_place(batch, found)
                self._replaced = frozenset(found)
                self._learned_again = [*self._learned_again, *((held, name) for name, held in found.items())]
                metrics |= {f"buffer/{name}/replaced": float(len(found))}
        return super()._balance_batch(batch, metrics, **kwargs)

    def _compute_values(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        batch = super()._compute_values(batch, metrics)
        if (heads := self._methods.heads()) > 1:
            of_responses(batch, heads)
        return batch

    # ---- between estimator and update

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        before, self._dropped_all = self._filters("before"), False
        if before:
            batch = self._filter_before(self._rows(batch), before, metrics)
        batch, alone = self._mute_dead(super()._compute_advantage(batch, metrics))
        if self._methods:
            batch = self._apply(self._rows(batch), metrics)
        if self._rejects() or self._slots["filter"] or alone or self._dropped_all:
            # "total" in the name: of several updates in a step verl logs the sum
            metrics["filter/groups_of_one/total"] = float(alone)
            metrics["filter/updates_left_out/total"] = float(self._dropped_all)
        return batch

    def _rejects(self) -> bool:
        return bool((self.config.algorithm.rollout_correction or {}).get("rollout_rs"))

    def _mute_dead(self, batch: KVBatchMeta) -> tuple[KVBatchMeta, int]:
        """After verl's correction of old samples, which may have rejected whole episodes. Also returns the number of groups of one."""
        needs_group = algorithm(self.config.algo.name).needs_group
        if not needs_group and not self._rejects():
            return batch, 0
        batch, alone, nothing = mute_dead(batch, needs_group)
        self._dropped_all |= nothing
        return batch, alone

    def _rows(self, batch: KVBatchMeta) -> TurnRows:
        return TurnRows(batch, self._methods.reads(), prompt_form(self.config.get("prompt")).parts)

    def _apply(self, rows: TurnRows, metrics: dict[str, Any]) -> KVBatchMeta:
        turns = rows.turns()
        columns = self._estimated(rows, turns) | {"turn_ids": turns.turn_ids}
        advantages = self._credited(rows, turns, columns.get("advantages", rows.tokens["advantages"]))
        keep = self._kept(turns, self._filters("after"), metrics)
        columns |= self._muted(rows, turns, keep)
        advantages = advantages * columns["response_mask"] * (not self._dropped_all)
        for name in columns.keys() & TRAINED_ON:
            columns[name] = columns[name] * columns["response_mask"]
        self._remember(rows, turns, turns.mean(advantages, rows.tokens["response_mask"]), metrics)
        columns["advantages"] = advantages
        columns |= self._prepared(rows, turns, keep, metrics)
        metrics |= {"credit/repeated_states": repeated_states(turns)}
        return rows.put(columns)

    def _estimated(self, rows: TurnRows, turns: Turns) -> dict[str, Tensor]:
        """Advantages and returns a token where ``algo=`` estimates over turns; verl's own are in the rows already."""
        columns: dict[str, Tensor] = {}
        for estimator in self._methods.of(ALGO, self.global_steps).values():
            rewarded, tokens = rows.of_estimator(turns)
            found = estimator(rewarded, tokens)
            for name, numbers in (("advantages", found.advantages), ("returns", found.returns)):
                spread = numbers if estimator.grain == "token" else turns.spread(numbers)
                columns[name] = spread.where(tokens.mask, 0.0).to(rows.tokens[name].dtype)
            if found.heads:
                columns |= of_heads(rows, turns, found)
            elif found.targets is not None:
                columns[TARGETS] = found.targets.to(rows.tokens["response_mask"].dtype)
        return columns

    def _credited(self, rows: TurnRows, turns: Turns, tokens: Tensor) -> Tensor:
        """(B, T) advantages."""
        credits, name = self._methods.of("credit", self.global_steps), str(self.config.algo.name)
        mask, base = rows.tokens["response_mask"], algorithm(name)
        found, layers = credited(credits, turns, tokens, mask, base.name, base.grain)
        if credits and self.config.tracking.credit:
            self._layers |= by_episode(turns, layers)
        return found

    # ---- filters

    def _filters(self, when: str) -> dict[str, Any]:
        found = self._methods.of("filter", self.global_steps)
        return {name: method for name, method in found.items() if method.when == when}

    def _filter_before(self, rows: TurnRows, filters: Mapping[str, Any], metrics: dict[str, Any]) -> KVBatchMeta:
        """Dropped episodes become dead rows, so that no baseline counts them."""
        turns = rows.turns()
        return rows.put(self._muted(rows, turns, self._kept(turns, filters, metrics)))

    def _kept(self, turns: Turns, filters: Mapping[str, Any], metrics: dict[str, Any]) -> Tensor:
        """(E,) bool: what all filters keep."""
        keep = torch.ones(len(turns.group), dtype=torch.bool)
        for name, method in filters.items():
            kept = method(turns, self.global_steps)
            metrics[f"filter/{name}/dropped_share"] = (~kept).double().mean().item() if len(kept) else 0.0
            keep &= kept
        return keep

    def _muted(self, rows: TurnRows, turns: Turns, keep: Tensor) -> dict[str, Tensor]:
        """Both masks. Where nothing is left they stay as they are, since verl's metrics are means over them."""
        self._dropped_all |= not keep.any()
        if self._dropped_all:
            return {name: rows.tokens[name] for name in ("loss_mask", "response_mask")}
        alive = turns.spread((turns.mask & keep.unsqueeze(1)).long()).to(rows.tokens["loss_mask"].dtype)
        return {name: rows.tokens[name] * alive for name in MASKS}

    # ---- terms

    def _prepared(self, rows: TurnRows, turns: Turns, keep: Tensor, metrics: dict[str, Any]) -> dict[str, Tensor]:
        """Numbers a token of every term; its coefficients go to the workers with the batch."""
        columns: dict[str, Tensor] = {}
        coefficients: dict[str, Any] = {}
        for name, term in self._methods.of("terms", self.global_steps).items():
            entropy, steps = rows.tokens.get("entropy"), self.total_training_steps
            numbers, coefficients[name] = term.prepare(turns, keep, entropy, self.global_steps, steps)
            columns |= {f"{PREFIX}{name}_{field}": value.float() for field, value in numbers.items()}
            metrics |= {f"terms/{name}/{key}": value for key, value in coefficients[name].items()}
        self._in_workers = {**self._of_loss(), "terms": self._slots["terms"], "coefficients": coefficients}
        return columns

    # ---- buffer

    def _remember(self, rows: TurnRows, turns: Turns, advantages: Tensor, metrics: dict[str, Any]) -> None:
        """Take what this step replays, then offer what it played."""
        for name, buffer in self._methods.of("buffer", self.global_steps).items():
            self._replay = buffer.take(self.global_steps)
            wanted = buffer.wanted(turns, advantages, self.global_steps)
            chosen = [episode for episode in wanted if turns.episodes[episode] not in self._replaced]
            more = (*rows.recorded, *self._told_of_tokens()) if hasattr(buffer, "replace") else ()
            buffer.offer(self.global_steps, replay.stored(rows.batch, turns, chosen, self.global_steps, more), turns)
            told = {"episodes": len(buffer), "replayed": len(self._replay)}
            if self._replay:
                told["age"] = sum(self.global_steps - episode.step for episode in self._replay) / len(self._replay)
            metrics |= {f"buffer/{name}/{key}": float(count) for key, count in told.items()}

    def _told_of_tokens(self) -> tuple[str, ...]:
        """Fields of a row that the rollouts may have told beside its log-probs, and a method needs."""
        return ("entropy",) if "entropy" in self._methods.needs() else ()

    # ---- update

    def _update_critic(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        if self._dropped_all:
            return batch
        with targets_alone(batch):
            return super()._update_critic(batch, metrics)

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        if self._dropped_all:
            print(f"turngrid: step {self.global_steps}: {NOTHING_LEFT}", flush=True)
        else:
            if self._methods:
                batch.extra_info[IN_WORKERS] = self._in_workers
            batch = super()._update_actor(batch, metrics)
        taken, self._replay = self._replay, []
        if taken:
            self._learned_again = [*self._learned_again, *((episode, None) for episode in taken)]
            self._update_with(taken, batch, metrics)
        return batch

    def _update_with(self, taken: list[Any], batch: KVBatchMeta, metrics: dict[str, Any]) -> None:
        """An update of its own, without KL and terms; its rows leave the queue with it."""
        size = self.config.actor_rollout_ref.actor.ppo_mini_batch_size * self.config.actor_rollout_ref.rollout.n
        with replay.in_queue(taken, batch, self.global_steps, size, self.tokenizer.eos_token_id) as rows:
            rows.extra_info[IN_WORKERS] = {**self._of_loss(), "replay": True}
            found: dict[str, Any] = {}
            super()._update_actor(rows, found)
        told = {name: value for name, value in found.items() if name.startswith("actor/") and "/perf/" not in name}
        metrics |= {f"replay/{name.removeprefix('actor/')}": value for name, value in told.items()}

    def _of_loss(self) -> dict[str, Any]:
        return {"loss": self._slots["loss"], "step": self.global_steps}

    # ---- state

    def _state_file(self) -> Path:
        return Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}" / STATE

    def _save_checkpoint(self) -> None:
        """Before verl's own files: the last of those says that the checkpoint is whole."""
        if state := self._methods.state():
            self._state_file().parent.mkdir(parents=True, exist_ok=True)
            torch.save(state, self._state_file())
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        if self.global_steps and self._methods.state():
            self._methods.load(torch.load(self._state_file(), weights_only=True))


def of_heads(rows: TurnRows, turns: Turns, found: Estimate) -> dict[str, Tensor]:
    """What each head of a critic is to say, and where. Its values are in the queue since the critic said them."""
    columns = {value_heads.weight(0): found.targets.float()} if found.targets is not None else {}
    for number, head in enumerate(found.heads, start=1):
        columns[value_heads.column("returns", number)] = turns.spread(head.returns.to(rows.tokens["returns"].dtype))
        columns[value_heads.column("values", number)] = rows.tokens[value_heads.column("values", number)]
        columns[value_heads.weight(number)] = head.targets.float()
    return columns


def by_episode(turns: Turns, layers: Mapping[str, Tensor]) -> dict[str, dict[str, list[float]]]:
    """(E, K) numbers, for the record: an episode's by its name, one entry a turn it has."""
    lengths = turns.mask.sum(dim=1).tolist()
    tables = {name: rounded(matrix.numpy()) for name, matrix in layers.items()}
    return {
        episode: {name: table[row][:length] for name, table in tables.items()}
        for row, (episode, length) in enumerate(zip(turns.episodes, lengths, strict=True))
    }
