"""Short conversations of one user that have come to rest, asked about in one call: it costs what one of them would.

Each keeps its own run, lease and cursor. They share a call where they are offered the same scopes, as far as there is room
for their messages; of the answer each gets what points at its own. What the prompt showed of the others counts as shown:
where something is forgotten of one of them before the answer is applied, it is void for all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory_sql.config import Settings
from memory_sql.db.repositories.conversations import BufferedMessage
from memory_sql.db.repositories.observations import Evidence
from memory_sql.domain.usage import Usage
from memory_sql.formation import formation
from memory_sql.formation.answers import Asking, ExtractedObservation, Extraction
from memory_sql.formation.dialogue import Extracted, Others, extract
from memory_sql.formation.sources import Sources
from memory_sql.formation.task import ExtractionTask
from memory_sql.formation.window import Loaded, task
from memory_sql.languages.text import words_of
from memory_sql.llm import LanguageModel
from memory_sql.privacy.confidence import said_in_confidence


def calls(loaded: Sequence[Loaded], settings: Settings) -> list[list[Loaded]]:
    """Which are asked about together. An answer that lies stored, and what nobody has spoken in, need no call: alone."""
    found: list[list[Loaded]] = []
    for one in sorted(loaded, key=lambda one: one.window.messages[0].said_at):
        call = next((call for call in found if _fits(one, call, settings)), None)
        if call is None:
            found.append([one])
        else:
            call.append(one)
    return found


def _fits(one: Loaded, call: Sequence[Loaded], settings: Settings) -> bool:
    if any(each.answered or not each.window.spoken for each in (one, *call)):
        return False
    messages = [message for each in (one, *call) for message in each.window.messages]
    return (
        (_offered(one), one.shown) == (_offered(call[0]), call[0].shown)
        and len(messages) <= settings.formation_window_messages
        and sum(len(message.content or "") for message in messages) <= settings.formation_window_characters
    )


def _offered(loaded: Loaded) -> list[tuple[Any, ...]]:
    return [(t.alias, t.owner, t.name, t.lane, t.is_open, t.heard, t.members) for t in loaded.targets]


async def decide(llm: LanguageModel, call: Sequence[Loaded], settings: Settings) -> list[Extracted]:
    """What the model finds for each of these; the first has what it cost. Raises as `extract`."""
    if len(call) == 1:
        return [await formation.decide(llm, call[0], settings)]
    asked = joined([task(one, settings) for one in call], settings.scope_text_max_characters)
    answered = await extract(llm, settings.fast_model, asked, settings.formation_window_characters)
    free = Usage(answered.usage.model, input_tokens=0, output_tokens=0, calls=0)
    epochs = {one.conversation.conversation_id: one.conversation.epoch for one in call}
    return [
        replace(
            answered,
            extraction=part.extraction,
            raw="",
            usage=free if n else answered.usage,
            aside=part.own(answered.aside),
            unheard=part.own(answered.unheard),
            others=Others(
                {other: epoch for other, epoch in epochs.items() if other != part.conversation_id}, part.evidence
            ),
        )
        for n, part in enumerate(divided(answered.extraction, call))
    ]


def joined(tasks: Sequence[ExtractionTask], max_characters: int) -> ExtractionTask:
    """All turns, numbered anew, and what their scopes hold already, together."""
    turns = [replace(turn, conversation=place) for place, one in enumerate(tasks) for turn in one.turns]
    scopes = [
        replace(
            alike[0],
            knows=formation.cut(list(dict.fromkeys(known for one in alike for known in one.knows)), max_characters),
        )
        for alike in zip(*(one.scopes for one in tasks), strict=True)
    ]
    return replace(
        tasks[0],
        turns=tuple(replace(turn, n=n) for n, turn in enumerate(turns, 1)),
        scopes=tuple(scopes),
        now=max(one.now for one in tasks),
    )


@dataclass(slots=True)
class Part:
    """One conversation's of an answer. `after`: how many turns stand before its own; `words`: what its people said."""

    loaded: Loaded
    after: int
    words: frozenset[str]
    items: list[ExtractedObservation] = field(default_factory=list)
    evidence: dict[int, tuple[Evidence, ...]] = field(default_factory=dict)
    unknown: int = 0
    requests: list[Asking] = field(default_factory=list)

    @property
    def conversation_id(self) -> str:
        return self.loaded.conversation.conversation_id

    @property
    def extraction(self) -> Extraction:
        return Extraction(tuple(self.items), unknown=self.unknown, requests=tuple(self.requests))

    @property
    def turns(self) -> range:
        """The numbers of its turns in the call."""
        return range(self.after + 1, self.after + len(self.loaded.window.spoken) + 1)

    def messages(self, item: ExtractedObservation) -> dict[int, BufferedMessage]:
        """Its messages that the observation points at, by the numbers of their turns in the call."""
        spoken, own = self.loaded.window.spoken, self.turns
        return {n: spoken[n - self.after - 1] for n in item.sources if n in own}

    def own(self, turns: Collection[int]) -> frozenset[int]:
        """Which of these turns of the call are its own, by their numbers in it."""
        own = self.turns
        return frozenset(n - self.after for n in turns if n in own)

    def fitness(self, item: ExtractedObservation) -> tuple[bool, int, int]:
        """How well it belongs here: what was said in confidence has to stay so; else where people said most of it."""
        said = [message for message in self.messages(item).values() if message.role == "user"]
        confided = any(said_in_confidence(message.content or "") for message in said)
        return confided, len(said), len(self.words.intersection(words_of(item.content)))


def divided(extraction: Extraction, call: Sequence[Loaded]) -> list[Part]:
    """What is taken from several conversations stands in one of them, with the messages of all as its evidence.

    Also with those of others whose words it has; those of its own are found later.
    """
    parts, turns = list[Part](), list[BufferedMessage]()
    for one in call:
        said = (message.content or "" for message in one.window.spoken if message.role == "user")
        parts.append(Part(one, len(turns), frozenset(word for text in said for word in words_of(text))))
        turns += one.window.spoken
    parts[0].unknown = extraction.unknown
    for part in parts:
        asked = ((request, part.own(request.sources)) for request in extraction.requests)
        part.requests += [request.model_copy(update={"sources": sorted(own)}) for request, own in asked if own]
    numbered = [replace(message, number=n) for n, message in enumerate(turns, 1)]
    heard = Sources(numbered, frozenset[str]().union(*(one.called for one in call)), ())
    for item in extraction.observations:
        named = [part for part in parts if part.messages(item)]
        home = max(named or parts, key=lambda part: part.fitness(item))
        others = {n for part in named if part is not home for n in part.messages(item)}
        lent = heard.lending("\n".join((item.content, *item.terms, *item.topics)), home.turns, others)
        if others or lent:
            home.evidence[len(home.items)] = tuple(_elsewhere(parts, others | lent))
        own = [n - home.after for n in item.sources if n not in others]  # also what is nobody's, to be counted
        confided = any(said_in_confidence(turns[n - 1].content or "") for n in lent)
        private = {"private": "confidence"} if confided else {}
        home.items.append(item.model_copy(update={"sources": own, **private}))
    return parts


def _elsewhere(parts: Sequence[Part], turns: Collection[int]) -> Iterator[Evidence]:
    for part in parts:
        for n in sorted(part.own(turns)):
            message = part.loaded.window.spoken[n - 1]
            yield Evidence(part.conversation_id, message.number, message.user_id)
