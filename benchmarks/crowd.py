"""Many users with many observations each, whose words are as unevenly common as those of a language.

Rows are copied straight into the tables, as the library would have left them: all but the newest few of a scope are
absorbed. `Memory.verify` finds nothing wrong with them.
"""

from __future__ import annotations

import hmac
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate, product
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from memory_sql.languages.text import HASH_VERSION, content_digest, count_words

AGENT = "bench"
SEED = 7
WORDS = 20_000
FLATTENED = 10  # Mandelbrot's shift: the commonest content word occurs in an eighth of the texts
SENTENCE = (6, 18)  # words
PENDING = 5  # observations of a scope, fewer than make it due
TURNS = 20  # observations of a conversation
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)

_COLUMNS = (
    "agent_key scope_id seq content observed_at created_at source_kind conversation_id speaker content_hash"
    " hash_version"
)

_AGENTS = """
    INSERT INTO memory.agents (agent_id) SELECT replace($1, '%', n::text) FROM generate_series(1, $2::integer) n
    ON CONFLICT DO NOTHING
"""
_TALK = """
    FROM generate_series(1, $3::integer) n
    JOIN memory.agents a ON a.agent_id = replace($1, '%', n::text)
    CROSS JOIN LATERAL (SELECT replace($2, '%', n::text) AS id) u
"""
_CONVERSATIONS = f"""
    INSERT INTO memory.conversations (
        agent_key, conversation_id, user_id, participants, last_number, unformed_messages, unformed_tokens,
        unformed_since, text_since, due_at, due_reason
    ) SELECT a.agent_key, u.id || '-' || n, u.id, ARRAY[u.id], $4::integer, $4, $4,
             now(), now(), now() + interval '1 day', 'age' {_TALK}
"""
_MESSAGES = f"""
    INSERT INTO memory.messages (agent_key, conversation_id, number, message_id, role, content, weight, said_at, owner)
    SELECT a.agent_key, u.id || '-' || n, m, 'm' || m, 'user', 'The ferry left gate ' || n, 1, now(), 'u:' || u.id {_TALK}
    CROSS JOIN generate_series(1, $4::integer) m
"""


@cache
def vocabulary() -> tuple[str, ...]:
    """Commonest first. Words that no stemmer and no list of stop words knows."""
    syllables = ["".join(pair) for pair in product("bdfgklmnprtvz", "aiou")]
    words = ["".join(three) for three in product(syllables, repeat=3)]
    return tuple(random.Random(SEED).sample(words, WORDS))


@cache
def _weights() -> tuple[float, ...]:
    """Cumulative weights by Zipf's law in Mandelbrot's form."""
    return tuple(accumulate(1 / (rank + FLATTENED) for rank in range(1, WORDS + 1)))


def words(source: random.Random, count: int) -> str:
    return " ".join(source.choices(vocabulary(), cum_weights=_weights(), k=count))


def commonest(count: int) -> str:
    return " ".join(vocabulary()[:count])


@dataclass(frozen=True, slots=True)
class Person:
    """A user with the scope."""

    user_id: str
    scope_id: int
    observations: int


@dataclass(frozen=True, slots=True)
class Crowd:
    """The agent of a migrated database, which bare asyncpg fills."""

    connection: asyncpg.Connection
    agent_key: int
    key: bytes  # of the database

    @classmethod
    async def of(cls, connection: asyncpg.Connection) -> Crowd:
        made = "INSERT INTO memory.agents (agent_id) VALUES ($1) RETURNING agent_key"
        key = await connection.fetchval("SELECT key FROM memory.installation")
        return cls(connection, await connection.fetchval(made, AGENT), key)

    async def add(self, name: str, people: int, observations: int) -> list[Person]:
        """Adds so many users, named by `name` and a number, with so many observations each."""
        source = random.Random(f"{SEED} {name}")
        async with self.connection.transaction():
            joined = [await self._scope(f"{name}{n}", observations, source) for n in range(people)]
            for person in joined:
                await self._fill(person, source)
        return joined

    async def talk(self, conversations: int, *, user: str, agent: str = AGENT, messages: int = 2) -> None:
        """Adds so many conversations of so many messages.

        A `%` in the names of user and agent becomes the conversation's number.
        """
        async with self.connection.transaction():
            await self.connection.execute(_AGENTS, agent, conversations, timeout=None)
            for statement in (_CONVERSATIONS, _MESSAGES):
                await self.connection.execute(statement, agent, user, conversations, messages, timeout=None)

    async def _scope(self, user_id: str, observations: int, source: random.Random) -> Person:
        text, done = words(source, 300), max(0, observations - PENDING)
        scope_id = await self.connection.fetchval(
            """
            INSERT INTO memory.scopes (
                agent_key, kind, owner, version, last_seq, done_seq, last_activity_at, consolidated_at,
                propagated_version
            ) VALUES ($1, 'individual', 'u:' || $2::text, 1, $3, $4, $5, $5, 1) RETURNING scope_id
            """,
            self.agent_key, user_id, observations, done, BEGAN + timedelta(minutes=observations),
        )  # fmt: skip
        await self.connection.execute(
            """
            INSERT INTO memory.consolidations (
                agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason
            ) VALUES ($1, $2, 1, 0, 0, $3, $4, $5, 'asked')
            """,
            self.agent_key, scope_id, done, text, count_words(text),
        )  # fmt: skip
        return Person(user_id, scope_id, observations)

    async def _fill(self, person: Person, source: random.Random) -> None:
        await self._copy("observations", _COLUMNS, self._observations(person, source))
        evidence = ((self.agent_key, person.scope_id, n, person.user_id) for n in range(1, person.observations + 1))
        await self._copy("evidence", "agent_key scope_id seq user_id", evidence)

    async def _copy(self, table: str, columns: str, rows: Iterator[tuple[Any, ...]]) -> None:
        await self.connection.copy_records_to_table(table, schema_name="memory", columns=columns.split(), records=rows)

    def _observations(self, person: Person, source: random.Random) -> Iterator[tuple[Any, ...]]:
        for seq in range(1, person.observations + 1):
            content = words(source, source.randint(*SENTENCE))
            at = BEGAN + timedelta(minutes=seq)
            session = f"{person.user_id}-{seq // TURNS}"
            speaker = (person.user_id, "somebody else")[seq % 2]
            digest = self._content_hash(person.scope_id, content)
            key = (self.agent_key, person.scope_id, seq)
            yield (*key, content, at, at, "observe", session, speaker, digest, HASH_VERSION)

    def _content_hash(self, scope_id: int, text: str) -> bytes:
        """Computes the same as memory.content_hash, for rows that are copied."""
        told = b"content\0" + scope_id.to_bytes(8, "big") + (content_digest(text) or b"")
        return hmac.digest(self.key, told, "sha256")
