"""A database after two years: what observations are, were used for and became, in proportions that a host could have.

Rows are put straight into the tables, as the library would have left them, by a superuser: without triggers, and with the
index of words made at the end. Nothing is drawn at random: the same size gives the same rows.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import asyncpg  # type: ignore[import-untyped]

from benchmarks.crowd import SEED, words

AGENTS = 5
SCOPE = 1_000  # observations of an ordinary user
GIANT = 10  # the largest user has this fraction of all observations
CONVERSATION = 10  # messages
PER_MESSAGE = 10  # observations
TEXTS = 4_096
HEADS = 12  # words

_CHANCE = """
    CREATE FUNCTION pg_temp.chance(p_scope bigint, p_seq integer, p_of integer) RETURNS double precision
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT (hashint8extended(p_scope * 1000003 + p_seq, p_of) & 16777215) / 16777216.0
    $$
"""
_AGENTS = "INSERT INTO memory.agents (agent_id) SELECT 'bench' || n FROM generate_series(0, $1 - 1) n"
_SCOPES = """
    INSERT INTO memory.scopes (
        agent_key, kind, owner, version, last_seq, done_seq, last_activity_at, consolidated_at, propagated_version,
        waits_below
    )
    SELECT a.agent_key, 'individual', 'u:u' || n, 1, s.size, greatest(0, s.size - 5), now(), now(), 1, 10
    FROM generate_series(0, ($1::int - $2::int) / $3::int) n
    JOIN memory.agents a ON a.agent_id = 'bench' || n % $4::int
    CROSS JOIN LATERAL (SELECT CASE n WHEN 0 THEN $2::int ELSE $3::int END AS size) s
"""
_VERSIONS = """
    INSERT INTO memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason)
    SELECT s.agent_key, s.scope_id, 1, 0, 0, s.done_seq, 'They live in a town by the sea.', 8, 'asked' FROM memory.scopes s
"""
_CONVERSATIONS = """
    INSERT INTO memory.conversations (
        agent_key, conversation_id, user_id, participants, last_number, formed_number, created_at, last_activity_at,
        text_since
    )
    SELECT a.agent_key, 'c' || n, 'u' || n, ARRAY['u' || n], $2::int, $2::int, t.at, t.at, t.at
    FROM memory.agents a
    CROSS JOIN generate_series(1, $1::int) n
    CROSS JOIN LATERAL (SELECT now() - interval '60 days' * n / $1::int AS at) t
"""
_RUNS = """
    INSERT INTO memory.runs (
        agent_key, kind, conversation_id, from_number, to_number, fence, state, started_at, finished_at,
        observations, duplicates
    )
    SELECT c.agent_key, 'formation', c.conversation_id, 0, c.last_number, 0, 'empty', c.created_at, c.created_at,
           0, 0
    FROM memory.conversations c
"""
_MESSAGES = """
    INSERT INTO memory.messages (
        agent_key, conversation_id, number, message_id, role, content, weight, said_at, created_at, owner, user_id
    )
    SELECT c.agent_key, c.conversation_id, m, 'm' || m, 'user', t.content, 12, c.created_at, c.created_at,
           'u:' || c.user_id, c.user_id
    FROM memory.conversations c
    CROSS JOIN generate_series(1, $1::int) m
    JOIN texts t ON t.place = ((hashtext(c.conversation_id) & 1048575) + m) % $2::int
"""
# Of twenty, two are superseded, one is evicted, one archived.
_OBSERVATIONS = """
    INSERT INTO memory.observations (
        agent_key, scope_id, seq, content, observed_at, created_at, source_kind, standing, category, kind, confidence,
        importance, classified_by, until, content_hash, hash_version
    )
    SELECT s.agent_key, s.scope_id, n, t.content || ' ' || n, d.at, d.at, 'observe',
           CASE WHEN n % 20 IN (1, 11) AND n < s.last_seq THEN 'superseded' WHEN n % 20 = 5 THEN 'evicted'
                WHEN n % 20 = 7 THEN 'archived' ELSE 'active' END,
           c.category, CASE WHEN c.category IS NOT NULL THEN 'note' END,
           (ARRAY[NULL, 0.95, 0.95, 0.95, 0.95, 0.8, 0.8, 0.8, 0.5, 0.3])[
               1 + (10 * pg_temp.chance(s.scope_id, n, 2))::int % 10
           ],
           CASE WHEN pg_temp.chance(s.scope_id, n, 3) > 0.1 THEN
               round((pg_temp.chance(s.scope_id, n, 4) ^ 0.7)::numeric, 2)::float8
           END,
           CASE WHEN n % 40 = 3 THEN 0 END,
           CASE WHEN c.category = 'commitment' THEN (d.at + interval '60 days' * pg_temp.chance(s.scope_id, n, 5))::date END,
           substr(sha256(convert_to(s.scope_id || ' ' || n, 'UTF8')), 1, 32), 2
    FROM memory.scopes s
    CROSS JOIN generate_series(1, s.last_seq) n
    JOIN texts t ON t.place = (hashint8extended(s.scope_id * 1000003 + n, 0) & 1048575) % $1::int
    CROSS JOIN LATERAL (SELECT now() - interval '730 days' * (1 - n::float8 / s.last_seq) AS at) d
    CROSS JOIN LATERAL (
        SELECT (ARRAY[
            NULL, 'fact', 'fact', 'fact', 'moment', 'entity', 'preference', 'decision', 'commitment', 'correction'
        ])[
            1 + (10 * pg_temp.chance(s.scope_id, n, 1))::int % 10
        ] AS category
    ) c
    WHERE s.agent_key = $2
"""
_STATES = """
    INSERT INTO memory.observation_states (
        agent_key, scope_id, seq, status, status_at, superseded_by, verification, policy, resolved, resolved_at
    )
    SELECT o.agent_key, o.scope_id, o.seq, o.standing, o.created_at,
           CASE WHEN o.standing = 'superseded' THEN o.seq + 1 END,
           CASE o.seq % 50 WHEN 9 THEN 'confirmed' WHEN 29 THEN 'disputed' ELSE 'unverified' END,
           CASE o.seq % 100 WHEN 13 THEN 'protected' ELSE 'durable' END,
           CASE WHEN o.standing = 'archived' AND o.until IS NOT NULL THEN 'fulfilled' END,
           CASE WHEN o.standing = 'archived' AND o.until IS NOT NULL THEN o.created_at END
    FROM memory.observations o
    WHERE o.agent_key = $1 AND (o.standing <> 'active' OR o.seq % 50 IN (9, 29) OR o.seq % 100 = 13)
"""
_EVENTS = """
    INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail, created_at)
    SELECT t.agent_key, 'status', t.scope_id, t.seq, '{"from": "active", "to": "archived", "why": "resolve"}', t.status_at
    FROM memory.observation_states t WHERE t.agent_key = $1 AND t.resolved IS NOT NULL
"""
# Of twenty, one comes from a message.
_EVIDENCE = """
    INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id, created_at, conversation_id, number)
    SELECT o.agent_key, o.scope_id, o.seq, substr(s.owner, 3), o.created_at, m.conversation_id, m.number
    FROM memory.observations o
    JOIN memory.scopes s ON s.agent_key = o.agent_key AND s.scope_id = o.scope_id
    LEFT JOIN LATERAL (
        SELECT 'c' || 1 + (o.scope_id * 37 + o.seq) % $2::int AS conversation_id, 1 + o.seq % $3::int AS number
        WHERE o.seq % 20 = 3
    ) m ON true
    WHERE o.agent_key = $1
    UNION ALL
    SELECT o.agent_key, o.scope_id, o.seq, 'somebody', least(now(), o.created_at + interval '1 day'), NULL, NULL
    FROM memory.observations o
    WHERE o.agent_key = $1 AND o.confidence < 0.4 AND pg_temp.chance(o.scope_id, o.seq, 6) < 0.3
"""
# Of three, one was shown, on one to five days of the last four months.
_USES = """
    INSERT INTO memory.observation_retrievals (agent_key, scope_id, seq, day, surface, times)
    SELECT o.agent_key, o.scope_id, o.seq, current_date - 1 - 24 * k - (o.seq % 23),
           CASE o.seq % 2 WHEN 0 THEN 'search' ELSE 'context' END, 1 + (o.seq + k) % 3
    FROM memory.observations o
    CROSS JOIN generate_series(0, (4 * pg_temp.chance(o.scope_id, o.seq, 8))::int) k
    WHERE o.agent_key = $1 AND pg_temp.chance(o.scope_id, o.seq, 7) < 0.33
"""
_FEEDBACK = """
    INSERT INTO memory.observation_feedback (agent_key, scope_id, seq, day, total, times)
    SELECT o.agent_key, o.scope_id, o.seq, current_date - 1 - o.seq % 120, 2 * pg_temp.chance(o.scope_id, o.seq, 9) - 1, 1
    FROM memory.observations o WHERE o.agent_key = $1 AND o.seq % 50 = 17
"""
_WORDS_INDEX = "SELECT pg_get_indexdef('memory.observations_search_idx'::regclass)"


class Aged(NamedTuple):
    """How many there are of each. The largest scope is that of user u0 of agent bench0."""

    observations: int
    scopes: int
    messages: int


async def fill(
    connection: asyncpg.Connection, observations: int, *, ordinary: int = SCOPE, index_last: bool = True
) -> Aged:
    """Adds so many observations, or a few more, those of an ordinary user in one scope each, to a migrated database.

    `index_last`: the index of words is dropped and made anew, which is faster for many.
    """
    giant = max(ordinary, observations // GIANT)
    conversations = max(1, observations // PER_MESSAGE // CONVERSATION // AGENTS)
    await connection.execute("SET session_replication_role = replica; SET maintenance_work_mem = '512MB'")
    index = await connection.fetchval(_WORDS_INDEX)
    if index_last:
        await connection.execute("DROP INDEX memory.observations_search_idx")
    await connection.execute(_CHANCE)
    await connection.execute("CREATE TEMP TABLE texts (place integer PRIMARY KEY, content text NOT NULL)")
    source = random.Random(SEED)
    await connection.copy_records_to_table("texts", records=[(n, words(source, HEADS)) for n in range(TEXTS)])
    await connection.execute("ANALYZE texts")
    await connection.execute(_AGENTS, AGENTS)
    await connection.execute(_SCOPES, observations, giant, ordinary, AGENTS)
    await connection.execute(_VERSIONS)
    await connection.execute(_CONVERSATIONS, conversations, CONVERSATION)
    await connection.execute(_RUNS)
    await connection.execute(_MESSAGES, CONVERSATION, TEXTS, timeout=None)
    for key in await connection.fetch("SELECT agent_key FROM memory.agents ORDER BY agent_key"):
        await connection.execute(_OBSERVATIONS, TEXTS, key[0], timeout=None)
        await connection.execute(_STATES, key[0], timeout=None)
        await connection.execute(_EVENTS, key[0], timeout=None)
        await connection.execute(_EVIDENCE, key[0], conversations, CONVERSATION, timeout=None)
        await connection.execute(_USES, key[0], timeout=None)
        await connection.execute(_FEEDBACK, key[0], timeout=None)
    if index_last:
        await connection.execute(index, timeout=None)
    await connection.execute("SET session_replication_role = origin; DROP TABLE texts")
    counts = [await connection.fetchval(f"SELECT count(*) FROM memory.{name}") for name in Aged._fields]  # noqa: S608
    return Aged(*counts)
