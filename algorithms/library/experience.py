"""SLEA-RL's library: strategies of won episodes and warnings of lost ones, by observation."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from turngrid.algorithms.library.clusters import Clusters, similar
from turngrid.algorithms.library.texts import LOST, POLICY, RULE, WON, first_line, moment, request, rises
from turngrid.algorithms.slots import OfferedEpisode, Request
from turngrid.rewards.declared import SYNCHRONOUS, Conflict, Method, fixed, number, word

PRINCIPLE, PATTERN, EXAMPLE = LEVELS = ("principle", "pattern", "example")
WARNING = "warning"


@dataclass
class Entry:
    """One text of the library.

    Attributes:
        zone: a level of strategies, or ``WARNING``.
        score: the reward of its episode.
        observation: the one before the first of the entry's actions.
        clusters: indices of the clusters for which it is shown.
    """

    text: str
    zone: str
    score: float
    observation: str = ""
    clusters: list[int] = field(default_factory=list)


@dataclass(kw_only=True)
class Experience(Method):
    """The library of SLEA-RL (docs/methods.md).

    Observations form clusters, to which entries belong. After a step, entries are written about its
    best episodes above the median reward, and about its worst ones below.
    """

    strategies_shown: int = number(0)
    warnings_shown: int = number(0)
    tokens: int = number(1)
    similarity: float = number(0, 1)
    warmup: int = number(0)
    least: int = number(0)
    capacity: int = number(1)
    warnings_capacity: int = number(1)
    strategies: int = number(0)
    warnings: int = number(0)
    episodes: int = number(1)
    novelty: float = number(0, 1)
    writer: str = word(RULE, POLICY)
    length: int = number(1)

    in_rollout: ClassVar[bool] = True
    requires = frozenset({SYNCHRONOUS})
    conflicts = (
        Conflict(
            ("model.name",),
            lambda library, name: library.writer == POLICY and str(name).startswith("tiny"),
            "so small a model writes nothing of use",
            "library.experience.writer=rule",
        ),
        fixed("library.experience.similarity", "clusters stay as they are"),
    )

    _entries: list[Entry] = field(default_factory=list, init=False, repr=False)  # the oldest first
    _asked: list[tuple[Request, Entry]] = field(default_factory=list, init=False, repr=False)
    _near: dict[str, list[Entry]] = field(default_factory=dict, init=False, repr=False)  # ``_similar``'s cache
    logged: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._clusters = Clusters(self.similarity)

    # ---- looking up

    def look_up(self, task: str, observation: str, step: int) -> str:
        """Return the text for a turn; "" in the warm-up, or if nothing fits."""
        if not self._on(step):
            return ""
        newest_first = reversed(self._fitting(observation))
        known = sorted(newest_first, key=lambda entry: -entry.score)
        best = [entry for entry in known if entry.zone != WARNING][: self.strategies_shown]
        worst = [entry for entry in known if entry.zone == WARNING][: self.warnings_shown]
        return "\n".join([*_listed("What worked before:", best), *_listed("What failed before:", worst)])

    def states(self) -> Callable[[str], str]:
        """Return a function that maps an observation to its cluster's first one.

        It opens clusters in a copy, so the library does not change.
        """
        clusters = self._clusters.copy()
        return lambda observation: clusters.prototypes[clusters.join(observation)]

    def _on(self, step: int) -> bool:
        return step > self.warmup and len(self._entries) > self.least

    def _fitting(self, observation: str) -> list[Entry]:
        """Return the entries of the observation's cluster; without any, similar ones of all."""
        cluster = self._clusters.find(observation)
        linked = [] if cluster is None else [entry for entry in self._entries if cluster in entry.clusters]
        return linked or self._similar(observation.strip())

    def _similar(self, observation: str) -> list[Entry]:
        if observation not in self._near:
            self._near[observation] = [
                entry
                for entry in self._entries
                if any(similar(text, observation, self.similarity) for text in {entry.text, entry.observation})
            ]
        return self._near[observation]

    # ---- after a step

    def offer(self, step: int, episodes: Sequence[OfferedEpisode]) -> None:
        """Open clusters and link entries as the step's look-ups did, then write new entries."""
        for observation in dict.fromkeys(turn.observation for episode in episodes for turn in episode.turns):
            self._seen(observation, step)
        best, worst = self.sides(episodes)
        won, lost = [e for e in best if e.won], [e for e in worst if not e.won]
        if self.writer == RULE:
            gains = [(EXAMPLE, e.reward, at) for e in best for at in rises(e)]
            ends = [(WARNING, e.reward, moment(e.turns)) for e in lost]
            self.admit(Entry(at.text, zone, score, at.observation) for zone, score, at in [*gains, *ends])
        else:
            self._asked = [*self._about(won, PRINCIPLE, WON), *self._about(lost, WARNING, LOST)]

    def _seen(self, observation: str, step: int) -> None:
        """Add an observation to its cluster, and link the entries that were found for it."""
        fitting = self._fitting(observation) if self._on(step) else []
        cluster = self._clusters.join(observation)
        for entry in fitting:
            if cluster not in entry.clusters:
                entry.clusters.append(cluster)

    def sides(self, episodes: Sequence[OfferedEpisode]) -> tuple[list[OfferedEpisode], list[OfferedEpisode]]:
        """Return the best episodes above the median reward, and the worst of the others."""
        if not episodes:
            return [], []
        middle = statistics.median(episode.reward for episode in episodes)
        ordered = sorted(episodes, key=lambda episode: episode.reward)  # of equal ones in their order
        above = sorted((e for e in episodes if e.reward > middle), key=lambda episode: -episode.reward)
        below = [episode for episode in ordered if episode.reward <= middle]
        return above[: self.episodes], below[: self.episodes]

    def admit(self, candidates: Iterable[Entry]) -> None:
        """Admit new candidates in order, up to a step's limit, while their zone has room."""
        admitted = {WARNING: 0, PRINCIPLE: 0}
        for entry in candidates:
            side = WARNING if entry.zone == WARNING else PRINCIPLE
            limit = self.warnings if side == WARNING else self.strategies
            if admitted[side] < limit and self._is_new(entry) and self._has_room(entry):
                admitted[side] += 1
                entry.clusters = [self._clusters.join(entry.observation)] if entry.observation else []
                self._entries.append(entry)
        self._near.clear()
        warnings = sum(entry.zone == WARNING for entry in self._entries)
        self.logged = {
            "strategies": float(len(self._entries) - warnings),
            "warnings": float(warnings),
            "new": float(sum(admitted.values())),
            "clusters": float(len(self._clusters)),
        }

    def _is_new(self, entry: Entry) -> bool:
        return bool(entry.text) and not any(similar(held.text, entry.text, self.novelty) for held in self._entries)

    def _has_room(self, entry: Entry) -> bool:
        """Return whether the entry's zone has room; drop a lower score if it is full."""
        zone = [held for held in self._entries if held.zone == entry.zone]
        if len(zone) < (self.warnings_capacity if entry.zone == WARNING else self.capacity):
            return True
        lowest = min(zone, key=lambda held: held.score)  # of equal ones the oldest
        if entry.score <= lowest.score:
            return False
        self._entries.remove(lowest)
        return True

    # ---- entries that the policy writes

    def _about(self, episodes: Sequence[OfferedEpisode], zone: str, question: str) -> Iterator[tuple[Request, Entry]]:
        """Yield what the policy is asked, and the entry without its text."""
        for episode in episodes:
            at = [moment(episode.turns), *(rises(episode) if zone != WARNING else ())][-1]
            yield request(episode, question, self.length), Entry("", zone, episode.reward, at.observation)

    def requests(self) -> list[Request]:
        return [request for request, _ in self._asked]

    def write(self, step: int, texts: Sequence[str]) -> None:
        """Take the policy's entries; a line may begin with its level ("pattern: ...")."""
        asked, self._asked = [entry for _, entry in self._asked], []
        for entry, text in zip(asked, texts, strict=True):
            entry.text = first_line(text)
            level = entry.text.partition(":")[0].strip().lower()
            if level in LEVELS and entry.zone != WARNING:
                entry.zone, entry.text = level, entry.text.partition(":")[2].strip()
        self.admit(asked)

    # ---- state

    def __len__(self) -> int:
        return len(self._entries)

    def state(self) -> dict[str, Any]:
        return {
            "entries": [asdict(entry) for entry in self._entries],
            "clusters": list(self._clusters.prototypes),
            "asked": [(list(request.lines), *request[1:], asdict(entry)) for request, entry in self._asked],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self._entries = [Entry(**entry) for entry in state["entries"]]
        if self._clusters.prototypes != state["clusters"]:
            self._clusters = Clusters(self.similarity, state["clusters"])
        self._asked = [(Request(*request), Entry(**entry)) for *request, entry in state["asked"]]
        self._near = {}


def _listed(heading: str, entries: Sequence[Entry]) -> list[str]:
    return [heading, *(f"- {entry.text}" for entry in entries)] if entries else []
