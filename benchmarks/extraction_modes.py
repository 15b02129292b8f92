"""Batched against isolated extraction of a team's three conversations: calls, tokens, agreement, and what is shown where.

They are formed three times, each time in a new database: with all scopes in one call (`batch`), with the two named scopes
in calls of their own (`named apart`), with a call for each scope (`isolated`). Everything runs as it does for a host.
Only the model is replaced, unless `--live` asks the model in the settings, which also counts its tokens.

The answers (`extraction_modes.jsonl`) were written in place of a model, call by call, after reading each prompt as it is
sent. Calls, tokens sent, and which texts a call shows follow from the code: they are measured. What is found, how far it
agrees and what is repeated are the work of one careful author who knew the other answers, and who also judged what
belongs where (`FACTS`). They agree with one another more than two calls of a model would, and contain no slips. So the
figures show what the form of a question does to an honest answer, not how often an answer is honest. They are compared
with what a strong model once answered to an older prompt, with all scopes in one call: how much of that each mode finds.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.played import (
    FACTS,
    FOLDER,
    WRITTEN_FOR,
    Call,
    Fact,
    Messages,
    PlayedError,
    Recording,
    Stored,
    Written,
    conversations_of,
    earlier,
    written,
)
from benchmarks.server import fresh_database, server
from memory_sql.config import ScopeSettings, Settings
from memory_sql.domain.ids import OwnedKind
from memory_sql.domain.observations import Observation
from memory_sql.llm import LanguageModel
from memory_sql.llm.select import language_model
from memory_sql.memory import Memory
from memory_sql.propagation.likeness import ALIKE, same_claim

AGENT: dict[str, Any] = {"agent_id": "ada"}


@dataclass(frozen=True, slots=True)
class Place:
    """A scope of the team. `guidance`: what a named scope tells the model."""

    kind: OwnedKind
    owner: str | None
    name: str | None = None
    called: str | None = None
    guidance: str = ""

    @property
    def label(self) -> str:
        return f"{self.owner or 'everybody'}{f', {self.name}' if self.name else ''}"


HEALTH = Place("individual", "nadia", "health", "Nadia's health", "Illness, injuries, sport.")
INFRA = Place("group", "tern", "infra", "Infrastructure", "Servers, deployments, what runs in which version.")
PLACES = (
    *(Place("individual", user) for user in ("nadia", "piet", "lena")),
    HEALTH,
    Place("group", "tern"),
    INFRA,
    Place("collective", None),
)
MODES: Mapping[str, Collection[Place]] = {"batch": (), "named apart": (HEALTH, INFRA), "isolated": PLACES}


@dataclass(frozen=True, slots=True)
class Play:
    """The calls that formed the conversations, and what was stored."""

    calls: Sequence[Call]
    stored: Sequence[Stored]

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens sent and answered."""
        usages = [call.usage for call in self.calls]
        return sum(one.input_tokens or 0 for one in usages), sum(one.output_tokens or 0 for one in usages)

    @property
    def foreign(self) -> int:
        return sum(call.foreign for call in self.calls)

    @property
    def kept(self) -> dict[Fact, frozenset[str]]:
        """The places of each fact. Facts that are nowhere are missing."""
        found = {fact: frozenset(one.place for one in self.stored if fact.is_in(one)) for fact in FACTS}
        return {fact: places for fact, places in found.items() if places}

    @property
    def elsewhere(self) -> list[Stored]:
        """What belongs to another scope than its own. What isn't one of our facts is never misplaced."""
        return [one for one in self.stored if (places := _places_of(one)) and one.place not in places]


def _places_of(stored: Stored) -> frozenset[str]:
    return frozenset[str]().union(*(fact.places for fact in FACTS if fact.is_in(stored)))


async def play(
    url: str, model: LanguageModel, conversations: Mapping[str, Messages], apart: Collection[Place], settings: Settings
) -> Play:
    """Forms the conversations one after the other. The scopes in `apart` are isolated."""
    recording, stored = Recording(model, conversations), list[Stored]()
    async with Memory(url, recording, settings) as memory:
        labels = await _lay(memory, apart)
        for name, said in conversations.items():
            here = {**AGENT, "conversation_id": name}
            await memory.add(said, **here, user_id=said[0]["user_id"], group_ids=said[0].get("group_ids", ()))
            formed = await memory.conversations.form(**here)
            stored += [_stored(name, said, labels, one) for one in formed.observations]
    return Play(recording.calls, stored)


async def _lay(memory: Memory, apart: Collection[Place]) -> dict[str, str]:
    """Makes the team's scopes and returns their labels by id."""
    labels = {}
    await memory.groups.create("tern", **AGENT)
    for place in PLACES:
        made = await memory.scopes.create(
            place.kind, **AGENT, owner_id=place.owner, name=place.name, display_name=place.called
        )
        scope, mode = made.ref.id, ScopeSettings(extraction_mode="isolated" if place in apart else "batch")
        await memory.scopes.set(scope, mode, **AGENT)  # also for the group's main scope, which exists already
        if place.guidance:
            await memory.prompts.set(scope, "extraction", place.guidance, **AGENT)
        labels[scope] = place.label
    return labels


def _stored(name: str, said: Messages, labels: Mapping[str, str], one: Observation) -> Stored:
    numbers = {message["id"]: n for n, message in enumerate(said, 1)}
    place = labels[one.scope.id] + (" (proposed)" if one.proposed else "")
    return Stored(name, place, one.content, frozenset(numbers[source] for source in one.source.message_ids))


def pairs(one: Sequence[Stored], other: Sequence[Stored]) -> list[tuple[Stored, Stored]]:
    """Pairs that claim the same: same scope first, then the most similar. Each item is in at most one pair."""
    beside = ((a, b) for a in one for b in other if a.conversation == b.conversation)
    alike = [
        (a.place == b.place, score, a, b) for a, b in beside if (score := same_claim(a.content, b.content)) >= ALIKE
    ]
    left_a, left_b, found = set(one), set(other), []
    for _, _, a, b in sorted(alike, key=lambda pair: pair[:2], reverse=True):
        if a in left_a and b in left_b:
            left_a.remove(a)
            left_b.remove(b)
            found.append((a, b))
    return found


# Printing


def report(plays: Mapping[str, Play], before: Sequence[Stored]) -> str:
    """A table with a column for each mode. Agreement is with the first mode, and with the answers `before`."""
    rows = [["", *plays]]
    rows += [[name, *values] for name, values in _figures(plays.values(), before).items()]
    rows += [[f"in {place}", *(_count(one, place) for one in plays.values())] for place in _places(plays.values())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_row(row, widths) for row in (rows[0], ["-" * width for width in widths], *rows[1:]))


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (f"{cell:{'<' if n == 0 else '>'}{widths[n]}}" for n, cell in enumerate(cells))
    return f"| {' | '.join((first, *others))} |"


def _figures(plays: Collection[Play], before: Sequence[Stored]) -> dict[str, list[str]]:
    first = next(iter(plays))
    matched = [pairs(first.stored, play.stored) for play in plays]
    counts = {
        "model calls": [len(play.calls) for play in plays],
        "tokens sent": [play.tokens[0] for play in plays],
        "of these instructions, estimated": [sum(call.instructions_tokens for call in play.calls) for play in plays],
        "tokens answered": [play.tokens[1] for play in plays],
        "texts of other scopes in sight": [play.foreign for play in plays],
        "observations": [len(play.stored) for play in plays],
        f"facts kept, of {len(FACTS)}": [len(play.kept) for play in plays],
        "facts in several scopes": [sum(len(places) > 1 for places in play.kept.values()) for play in plays],
        "observations in a scope that isn't theirs": [len(play.elsewhere) for play in plays],
        f"claims of batch, of {len(first.stored)}": [len(found) for found in matched],
        "of these in the same scope": [sum(a.place == b.place for a, b in found) for found in matched],
        f"claims of the earlier answers, of {len(before)}": [len(pairs(before, play.stored)) for play in plays],
    }
    return {name: [f"{count:,}" for count in row] for name, row in counts.items()}


def _places(plays: Iterable[Play]) -> list[str]:
    return sorted({one.place for play in plays for one in play.stored})


def _count(play: Play, place: str) -> str:
    return str(sum(one.place == place for one in play.stored))


def crossed(play: Play) -> str:
    return "".join(
        f"\n  {one.place} ({one.conversation} {sorted(one.numbers)}): {one.content}" for one in play.elsewhere
    )


def outdated(plays: Iterable[Play]) -> set[str]:
    """Versions of prompts that were sent but that the author of the answers hasn't read."""
    sent = {"+".join(call.prompt_version.split("+")[:2]) for play in plays for call in play.calls}
    return sent - {WRITTEN_FOR}


# The command


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extraction_modes", description=__doc__)
    parser.add_argument("--data", type=Path, default=FOLDER, help="folder with the conversations")
    parser.add_argument("--live", action="store_true", help="ask the model of the settings instead: costs money")
    return parser.parse_args(given)


async def main(given: Sequence[str] = ()) -> None:
    options = arguments(given)
    try:
        conversations, before = conversations_of(options.data), earlier(options.data)
    except PlayedError as error:
        print(f"skipped: {error}")
        return
    if not options.live:
        plays = await compare(Written(conversations, written()), conversations, Settings(llm="offline"))
    else:
        plays = await live(conversations)
    print(report(plays, before))
    for mode, one in plays.items():
        print(f"\n{mode}, in a scope that isn't theirs: {len(one.elsewhere)}{crossed(one)}")
    if not options.live and (others := outdated(plays.values())):
        print(f"\nThe answers were written for {WRITTEN_FOR}; sent was {', '.join(sorted(others))}.")


async def live(conversations: Mapping[str, Messages]) -> dict[str, Play]:
    """Raises `ConfigurationError` if the settings name no model."""
    settings = Settings()
    model = language_model(settings)
    try:
        return await compare(model, conversations, settings)
    finally:
        await model.close()


async def compare(model: LanguageModel, conversations: Mapping[str, Messages], settings: Settings) -> dict[str, Play]:
    plays = {}
    with server() as there:
        for mode, apart in MODES.items():
            async with fresh_database(there) as url:
                plays[mode] = await play(url, model, conversations, apart, settings)
    return plays


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
