"""Spreading activation written out from B.4, apart from the code that is tested: in memory, without any bound on links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Edge(NamedTuple):
    seq: int
    to_seq: int
    kind: str = "time"
    weight: float = 1.0
    confidence: float | None = None

    @property
    def flow(self) -> float:
        return self.weight * (1.0 if self.confidence is None else self.confidence)


Ways = Mapping[int, Sequence[tuple[int, float]]]


def ways_of(edges: Sequence[Edge]) -> Ways:
    """To where one gets from each, and with how much. Causes lead one way; below .2 of confidence nothing does."""
    ways = defaultdict[int, list[tuple[int, float]]](list)
    for edge in edges:
        if edge.confidence is None or edge.confidence >= 0.2:
            ways[edge.seq].append((edge.to_seq, edge.flow))
            if edge.kind != "cause":
                ways[edge.to_seq].append((edge.seq, edge.flow))
    return ways


def spread(edges: Sequence[Edge], seeds: Sequence[int], hops: int = 3) -> dict[int, float]:
    ways, scores, seen = ways_of(edges), defaultdict[int, float](float), set(seeds)
    queue = [(seed, 0) for seed in seeds]
    while queue:
        node, hop = queue.pop(0)
        if hop == hops:
            continue
        for other, flow in ways.get(node, ()):
            if other not in seeds:
                scores[other] += flow * 0.7 ** (hop + 1)
            if other not in seen:
                seen.add(other)
                queue.append((other, hop + 1))
    return dict(scores)


def refined(scores: Mapping[int, float], ways: Ways, rounds: int = 8) -> dict[int, float]:
    now = dict(scores)
    for _ in range(rounds):
        after = {node: 0.15 * score for node, score in now.items()}
        for node, score in now.items():
            out = [(other, flow) for other, flow in ways.get(node, ()) if other in now]
            total = sum(flow for _, flow in out)
            if not total:
                after[node] += 0.85 * score
            for other, flow in out:
                after[other] += 0.85 * score * flow / total
        now = after
    return now


def inhibited(scores: Mapping[int, float]) -> dict[int, float]:
    best = sorted(scores.values(), reverse=True)[:7]
    return {n: max(0.0, s - 0.15 * sum(b - s for b in best if b > s)) for n, s in scores.items()}


def activated(edges: Sequence[Edge], seeds: Sequence[int]) -> dict[int, float]:
    """What leads from something three links away isn't looked at: that isn't expanded."""
    scores, near = spread(edges, seeds), {*seeds, *spread(edges, seeds, 2)}
    if len(scores) > 1:
        looked_at = [edge for edge in edges if edge.seq in near or (edge.kind != "cause" and edge.to_seq in near)]
        scores = inhibited(refined(scores, ways_of(looked_at)))
    return {node: score for node, score in scores.items() if score > 0}


def blended(activation: float, share: float) -> float:
    return min(max(0.65 * activation / (1 + activation) + 0.35 * share, 0.05), 0.95)
