"""What of a context fits into a budget: fair shares, nothing in half. Pure.

Texts come first: they may fill the budget, and where they can't, leave a quarter of it to what is recent. So what is kept
of them doesn't depend on what is recent or retrieved, and they stay the same from turn to turn, as prompt caches need it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from memory_sql.context.layouts import TRUNCATED, Block, Layout, escape
from memory_sql.languages.text import sentence_ends

TEXTS_SHARE = 0.75  # of a budget that the texts alone exceed

# Who is served first where shares are rounded, or where not even the least of each has room.
TEXTS = ("individual", "group", "collective", "conversation", "entity", "agent", "guideline")
LINES = ("disputed", "retrieved", "messages", "buffer", "pending", "episodes")


class Fitted(NamedTuple):
    """`incomplete`: whole texts were left out."""

    blocks: list[Block]
    incomplete: bool = False
    truncated: bool = False


def fit(blocks: Sequence[Block], layout: Layout, characters: int) -> Fitted:
    """As much of the blocks, in their order, as the layout can write in so many characters."""
    if len(layout.xml(layout.pieces(blocks))) <= characters:
        return Fitted(list(blocks))
    costs = _Costs(layout)
    texts = [block for block in blocks if block.role == "text"]
    kept = costs.texts(texts, characters)
    incomplete = len(kept) < len(texts)
    around = layout.frame + (len(TRUNCATED) if incomplete else 0)
    room = characters - (costs.whole(kept, incomplete) if kept else around)
    lines = costs.lines([block for block in blocks if block.role != "text"], room)
    return Fitted([*kept, *lines], incomplete, truncated=True)


def shares(needs: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Who gets how much of the room: nobody more than they need, what one doesn't need goes to the others in equal parts.

    Whoever comes first gets the least they can use as long as there is room for it, else nothing.
    """
    given = [0] * len(needs)
    for place, wanted in enumerate(least):
        if wanted <= room:
            given[place] = wanted
            room -= wanted
    waiting = sorted((place for place in range(len(needs)) if given[place]), key=lambda p: (needs[p] - given[p], p))
    for n, place in enumerate(waiting):
        more = min(needs[place] - given[place], room // (len(waiting) - n))
        given[place] += more
        room -= more
    return given


class _Costs:
    """What each block costs at most: its length in a context of its own, without the frame.

    In a context with others it is never longer: what it shares with them (a shard's element) is counted each time.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def whole(self, blocks: Sequence[Block], incomplete: bool = False) -> int:
        return len(self._layout.xml(self._layout.pieces(blocks), incomplete=incomplete))

    def of(self, block: Block) -> int:
        return self.whole([block]) - self._layout.frame + len(self._layout.between)

    def texts(self, blocks: Sequence[Block], characters: int) -> list[Block]:
        """The texts, cut after sentences; those of which not even the first sentence has room are left out."""
        if self.whole(blocks) <= characters:
            return list(blocks)
        room = int(characters * TEXTS_SHARE) - self._layout.frame - len(TRUNCATED)
        ranked = sorted(blocks, key=_rank)
        needs = [self.of(block) for block in ranked]
        least = [min(need, self.of(_until(b, sentence_ends(b.text)[0]))) for need, b in zip(needs, ranked, strict=True)]
        kept: list[Block] = []
        spare = room - sum(given := shares(needs, least, room))
        for block, share in zip(ranked, given, strict=True):
            fitting = self._text_within(block, share + spare)
            spare += share - (self.of(fitting) if fitting else 0)
            kept += [fitting] if fitting else []
        return sorted(kept, key=lambda kept: [block.scope for block in blocks].index(kept.scope))

    def _text_within(self, block: Block, room: int) -> Block | None:
        if self.of(block) <= room:
            return block
        shorter = [_until(block, end) for end in sentence_ends(block.text)[:-1]]
        fitting = bisect_right(shorter, room, key=self.of)
        return shorter[fitting - 1] if fitting else None

    def lines(self, blocks: Sequence[Block], room: int) -> list[Block]:
        """The lines of each kind that have room, in their places; of pending ones the newest, of others the first."""
        groups = [[block for block in blocks if block.role == role] for role in LINES]
        groups = [group for group in groups if group]
        needs = [sum(map(self.of, group)) for group in groups]
        least = [min(self.of(_only(block, {0})) for block in group) for group in groups]
        kept: dict[int, Block] = {}
        spare = room - sum(given := shares(needs, least, room))
        for group, share in zip(groups, given, strict=True):
            chosen = self._lines_within(group, share + spare)
            spare += share - sum(map(self.of, chosen.values()))
            kept |= {id(group[place]): block for place, block in chosen.items()}
        return [kept[id(block)] for block in blocks if id(block) in kept]

    def _lines_within(self, group: Sequence[Block], room: int) -> dict[int, Block]:
        """By their places in the group, with as many lines as have room."""
        kept: dict[int, set[int]] = {}
        chosen: dict[int, Block] = {}
        for place, line in _by_worth(group):
            ahead = len(group[place].lines) - group[place].behind
            if line >= ahead and not kept.get(place, set()).issuperset(range(ahead)):
                continue
            more = _only(group[place], {*kept.get(place, ()), line})
            cost = self.of(more) - (self.of(chosen[place]) if place in chosen else 0)
            if cost <= room:
                room -= cost
                kept.setdefault(place, set()).add(line)
                chosen[place] = more
        return chosen


def _rank(block: Block) -> tuple[int, bool]:
    kind = block.scope.kind if block.scope else ""
    return (TEXTS.index(kind) if kind in TEXTS else len(TEXTS), not block.own)


def _until(block: Block, end: int) -> Block:
    if end == len(block.text):
        return block
    text = block.text[:end].rstrip()
    return block._replace(text=text, xml=escape(text), cut=True)


def _only(block: Block, lines: set[int]) -> Block:
    if len(lines) == len(block.lines):
        return block
    chosen = sorted(lines)
    return block._replace(
        lines=tuple(block.lines[n] for n in chosen),
        times=tuple(block.times[n] for n in chosen),
        cut=True,
    )


def _by_worth(group: Sequence[Block]) -> list[tuple[int, int]]:
    """Block and line, by place: of pending ones the newest first, of others as they stand."""
    places = [(place, line) for place, block in enumerate(group) for line in range(len(block.lines))]
    if group[0].role != "pending":
        return places
    return sorted(places, key=lambda at: group[at[0]].times[at[1]], reverse=True)
