"""Directed graphs with weighted edges: shortest routes, orders, components and spanning trees."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterable

Node = Hashable


class CycleError(ValueError):
    """The nodes cannot be put in order, because they wait for each other."""


class Graph:
    """Nodes keep the order in which they were first named."""

    def __init__(self, edges: Iterable[tuple[Node, Node, float]] = ()) -> None:
        self._edges: dict[Node, dict[Node, float]] = {}
        for start, end, weight in edges:
            self.connect(start, end, weight)

    @property
    def nodes(self) -> list[Node]:
        return list(self._edges)

    def add(self, node: Node) -> None:
        """A node of its own; one that is there already keeps its edges."""
        self._edges.setdefault(node, {})

    def connect(self, start: Node, end: Node, weight: float = 1, both_ways: bool = False) -> None:
        """An edge that replaces any earlier one from ``start`` to ``end``."""
        if weight < 0:
            raise ValueError("a weight is not negative")
        self.add(start)
        self.add(end)
        self._edges[start][end] = weight
        if both_ways:
            self._edges[end][start] = weight

    def neighbours(self, node: Node) -> list[Node]:
        """Where edges from this node lead to."""
        return list(self._edges[node])

    def reversed(self) -> Graph:
        """The same nodes, every edge the other way round."""
        turned = Graph()
        for node in self._edges:
            turned.add(node)
        for start, ends in self._edges.items():
            for end, weight in ends.items():
                turned.connect(end, start, weight)
        return turned

    def distances(self, start: Node) -> dict[Node, float]:
        """Dijkstra: the length of the shortest route to every node that can be reached."""
        return self._search(start)[0]

    def route(self, start: Node, end: Node) -> list[Node] | None:
        """The nodes of a shortest route, both ends included; None where there is no way."""
        before = self._search(start)[1]
        if end not in before:
            return None
        path = [end]
        while path[-1] != start:
            path.append(before[path[-1]])
        return path[::-1]

    def _search(self, start: Node) -> tuple[dict[Node, float], dict[Node, Node]]:
        """The distances from ``start``, and for each node the one before it on the way there."""
        distances: dict[Node, float] = {start: 0}
        before: dict[Node, Node] = {start: start}
        done = set()
        count = 0
        queue: list[tuple[float, int, Node]] = [(0, count, start)]
        while queue:
            distance, _, node = heapq.heappop(queue)
            if node in done:
                continue
            done.add(node)
            for end, weight in self._edges[node].items():
                length = distance + weight
                if end not in distances or length < distances[end]:
                    distances[end] = length
                    before[end] = node
                    count += 1
                    heapq.heappush(queue, (length, count, end))
        return distances, before

    def hops(self, start: Node) -> dict[Node, int]:
        """The smallest number of edges to every node that can be reached."""
        hops = {start: 0}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for end in self._edges[node]:
                if end not in hops:
                    hops[end] = hops[node] + 1
                    queue.append(end)
        return hops

    def order(self) -> list[Node]:
        """All nodes, each before the ones that its edges lead to; else as they were named (Kahn)."""
        waiting = dict.fromkeys(self._edges, 0)
        for ends in self._edges.values():
            for end in ends:
                waiting[end] += 1
        ready = deque(node for node, count in waiting.items() if count == 0)
        ordered = []
        while ready:
            node = ready.popleft()
            ordered.append(node)
            for end in self._edges[node]:
                waiting[end] -= 1
                if waiting[end] == 0:
                    ready.append(end)
        if len(ordered) < len(self._edges):
            raise CycleError("some nodes wait for each other")
        return ordered

    def components(self) -> list[set[Node]]:
        """Groups of nodes that hang together if edges may be used both ways."""
        back = self.reversed()
        groups: list[set[Node]] = []
        seen: set[Node] = set()
        for node in self._edges:
            if node in seen:
                continue
            group: set[Node] = set()
            stack = [node]
            while stack:
                current = stack.pop()
                if current not in group:
                    group.add(current)
                    stack.extend([*self._edges[current], *back._edges[current]])
            groups.append(group)
            seen |= group
        return groups


def spanning_tree(edges: Iterable[tuple[Node, Node, float]]) -> list[tuple[Node, Node, float]]:
    """The cheapest edges that connect all nodes, cheapest first (Kruskal); a forest where they do not hang together."""
    leader: dict[Node, Node] = {}

    def find(node: Node) -> Node:
        leader.setdefault(node, node)
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    chosen = []
    for start, end, weight in sorted(edges, key=lambda edge: edge[2]):
        first, second = find(start), find(end)
        if first != second:
            leader[first] = second
            chosen.append((start, end, weight))
    return chosen
