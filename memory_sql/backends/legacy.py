"""Assembles the context of the legacy system from its own collections, which are only read (R288–R292).

It is meant for trying shadow mode without the host's code. It shows what that system stored, as it was stored: every
waiting record (not only the first 200), facts in order, and in a session with up to four people the memory of each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Self

from memory_sql.backends.hosts import HostSession, id_of_host, session_of, user_id_of
from memory_sql.backends.protocols import LegacyReader
from memory_sql.context.layouts import LAYOUTS, Block, Role, escape, escape_lines
from memory_sql.domain.ids import ScopeKind
from memory_sql.domain.reading import ContextLine
from memory_sql.domain.scopes import ScopeRef
from memory_sql.errors import ConfigurationError
from memory_sql.importers.mongo.reading import read_record, read_shard, read_user_blob
from memory_sql.importers.mongo.values import Notes, UnreadableError

log = logging.getLogger("memory_sql")

MOST_PEOPLE, MOST_EPISODES = 4, 8  # B.1, R011
_READER = "memory_sql.importers.mongo.sources.legacy_reader"
_LAYOUT = LAYOUTS["legacy"]
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Item:
    """A line as it appears in a record."""

    id: str
    content: str
    said_at: datetime


class LegacyMongoBackend:
    """The memory of the legacy system as its host read it. Nothing is formed or written there.

    It reads `memory_user`, `memory_agent` and `memory_sessions`, not the collections of the later system (`memory2_…`).

    `clock` returns the current time (aware), from which ages are counted.
    """

    def __init__(self, reader: LegacyReader, *, clock: Callable[[], datetime] | None = None) -> None:
        self._reader = reader
        self._now = clock or _now

    @classmethod
    def at(cls, url: str, *, database: str | None = None, patience_seconds: float = 5.0) -> Self:
        """Reads the MongoDB at `url`, which must name the database unless `database` does. Needs the extra `mongo`.

        If no server is found within `patience_seconds`, calls raise `SourceError`. Raises `ConfigurationError`.
        """
        try:
            module = import_module(_READER)
        except ModuleNotFoundError as error:
            if error.name not in ("pymongo", "bson"):
                raise
            raise ConfigurationError("reading MongoDB needs pymongo: install memory-sql[mongo]") from error
        reader: LegacyReader = module.MongoReader(url, database=database, patience_seconds=patience_seconds)
        return cls(reader)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._reader.close()

    async def read_session(self, session: Any) -> HostSession:
        """Returns the session with its messages, for `SqlBackend(memory, read_session=…)`. `session` may be just its id.

        Users have the ids that an import gives them.
        """
        session_id = id_of_host(session)
        document = await self._reader.session(session_id)
        messages = await self._reader.messages(session_id)
        senders = {id_of_host(m["sender"]) for m in messages if m.get("role") == "user" and m.get("sender") is not None}
        whose = session if document is None else document
        known = {sender: await self._canonical(sender) for sender in sorted(senders)}
        owner = document.get("owner") if document else None
        if owner is not None:
            known[id_of_host(owner)] = await self._canonical(id_of_host(owner))
        return session_of(whose, messages, known)

    async def maybe_form_memories(self, agent_id: Any, session: Any, agent: Any) -> bool:
        return False

    async def form_memories(
        self, agent_id: Any, session: Any, agent: Any, conversation_text: str | None = None, char_counts: Any = None
    ) -> bool:
        return False

    async def assemble_memory_context(
        self,
        session: Any,
        agent: Any,
        user: Any,
        force_refresh: bool = False,
        reason: str = "unknown",
        skip_save: bool = False,
        instrumentation: Any = None,
    ) -> str:
        """The current XML; never cached. Documents that can't be read are left out and named in the log."""
        agent_id, now = id_of_host(agent), self._now()
        session_id = None if session is None else id_of_host(session)
        blocks = [block for number, shard in enumerate(await self._reader.shards(agent_id))
                  for block in await self._shard(number, shard, now)]  # fmt: skip
        for number, person in enumerate(await self._people(session_id, user)):
            blocks += await self._person(agent_id, person, ScopeRef(id=f"u{number}", kind="individual"), now)
        if session_id is not None:
            blocks += self._episodes(await self._reader.episodes(session_id, MOST_EPISODES))
        return _LAYOUT.write(blocks).xml

    async def _people(self, session_id: str | None, user: Any) -> list[str]:
        """The people whose memory is shown: everybody who wrote, or nobody if they are too many."""
        said = [] if session_id is None else await self._reader.senders(session_id)
        people: dict[str, None] = {}
        for one in [user_id_of(user), *said]:
            people[await self._canonical(one)] = None
            if len(people) > MOST_PEOPLE:
                return []
        return list(people)

    async def _canonical(self, user_id: str) -> str:
        found = await self._reader.person(user_id)
        return user_id if found is None or found.get("eden_user_id") is None else id_of_host(found["eden_user_id"])

    async def _shard(self, number: int, document: Document, now: datetime) -> list[Block]:
        shard = _read(read_shard, document)
        if shard is None:
            return []
        items = await self._items([*shard.facts, *shard.waiting])
        ref = ScopeRef(id=f"c{number}", kind="collective")
        title = shard.name or "Unnamed shard"
        facts = [items[key] for key in shard.facts if key in items]
        waiting = [items[key] for key in shard.waiting if key in items]
        return [
            *_listed("buffer", ref, title, "Shard facts", _aged(facts, now)),
            *_text(ref, title, document),
            *_listed("pending", ref, title, "Recent shard suggestions", _plain(waiting)),
        ]

    async def _person(self, agent_id: str, user_id: str, ref: ScopeRef, now: datetime) -> list[Block]:
        documents = await self._reader.user_memory(agent_id, user_id)
        found = None if not documents else _read(read_user_blob, documents[-1])
        if found is None:
            return []
        items = await self._items(found.waiting)
        waiting = [items[key] for key in found.waiting if key in items]
        title = await self._name(user_id)
        return [
            *_text(ref, title, documents[-1]),
            *_listed("pending", ref, title, "Recent user directives", _aged(waiting, now)),
        ]

    async def _name(self, user_id: str) -> str:
        person = await self._reader.person(user_id)
        name = None if person is None else person.get("username")
        return name if isinstance(name, str) and name else user_id

    async def _items(self, keys: Sequence[str]) -> dict[str, _Item]:
        found = await self._reader.records(keys) if keys else ()
        return {item.id: item for item in map(_item, found) if item is not None}

    def _episodes(self, documents: Sequence[Document]) -> Iterator[Block]:
        told = [item for item in map(_item, documents) if item is not None]
        return _listed("pending", ScopeRef(id="s0", kind="conversation"), "", "", _plain(told))


def _now() -> datetime:
    return datetime.now(UTC)


def _item(document: Document) -> _Item | None:
    record = _read(read_record, document)
    return None if record is None else _Item(record.key, document["content"], record.created_at)


def _read(reader: Callable[[Document, Notes, Any], Any], document: Document) -> Any:
    """None if the document is damaged, for a reason that an import would give too (A3, A5, A23)."""
    try:
        return reader(document, Notes(), "keep")
    except UnreadableError as error:
        log.warning("document %s is left out of the context: %s", document.get("_id"), error)
        return None


_ELEMENTS: Mapping[ScopeKind, str] = {
    "collective": "CollectiveMemory",
    "individual": "UserMemory",
    "conversation": "SessionMemory",
}


def _text(ref: ScopeRef, title: str, document: Document) -> Iterator[Block]:
    text = (document.get("content") or "").strip()
    if text:
        yield Block("text", _ELEMENTS[ref.kind], scope=ref, text=text, xml=escape(text), title=title)


def _listed(role: Role, ref: ScopeRef, title: str, heading: str, lines: Sequence[ContextLine]) -> Iterator[Block]:
    if lines:
        yield Block(role, _ELEMENTS[ref.kind], scope=ref, lines=tuple(lines), title=title, heading=heading)


def _aged(items: Sequence[_Item], now: datetime) -> list[ContextLine]:
    return [
        ContextLine(line.id, f"{line.text} (age: {max(0, (now - item.said_at).days)} days ago)")
        for line, item in zip(_plain(items), items, strict=True)
    ]


def _plain(items: Sequence[_Item]) -> list[ContextLine]:
    texts = escape_lines([item.content for item in items])
    return [ContextLine(item.id, f"- {text}") for item, text in zip(items, texts, strict=True)]
